"""Functions for compiled code that the compiler turns into vector instructions: no calls, no branches.

They work in the precision of their argument: short series in float32, the C library in float64.
"""

import math
from typing import Any

import numpy as np
from numba import types

from sparse_langevin.runtime.jit import FUSED, choosing, fused, reassociated

f32 = np.float32  # a plain constant would turn its neighbours into float64
Real = Any  # a NumPy scalar

ONE_BITS = np.int32(np.float32(1.0).view(np.int32))
ROUNDER = np.float32(1.5 * 2**23)
LOG_2_HIGH = np.float32(355 / 512)  # few bits, so that n times it is exact
LOG_2_LOW = np.float32(math.log(2.0) - 355 / 512)


def sigmoid(x: Real) -> Real:
    """1/(1 + exp(-x)) in the precision of x."""
    raise NotImplementedError("only in compiled code")


def _sigmoid64(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + math.exp(-x))


def _sigmoid32(x):  # type: ignore[no-untyped-def]
    return f32(1.0) / (f32(1.0) + exp32(-x))


choosing(sigmoid, **FUSED)(lambda x: _sigmoid32 if x == types.float32 else _sigmoid64)


def real(like: Real, value: float) -> Real:
    """A constant in the precision of ``like``; a plain literal would turn its neighbours into double precision."""
    raise NotImplementedError("only in compiled code")


choosing(real, **FUSED)(
    lambda like, value: (
        (lambda like, value: np.float32(value)) if like == types.float32 else (lambda like, value: np.float64(value))
    )
)


@reassociated
def sign(x: Real) -> Real:
    """-1, 0 or 1; 0 for NaN."""
    zero = real(x, 0.0)
    return real(x, x > zero) - real(x, x < zero)


@fused
def exp32(x: Real) -> Real:
    """e^x = 2^n e^r with |r| <= log(2)/2, e^r by Taylor's series; x is held within the range of normal numbers."""
    if x > f32(88.0):
        x = f32(88.0)
    if x < f32(-87.0):
        x = f32(-87.0)
    # Adding 1.5*2^23 rounds to an integer and leaves it in the lowest bits; unlike a conversion, also defined for NaN.
    shifted = x * f32(1 / math.log(2.0)) + ROUNDER
    n = shifted - ROUNDER
    r = (x - n * LOG_2_HIGH) - n * LOG_2_LOW
    series = f32(1 / 24) + r * (f32(1 / 120) + r * (f32(1 / 720) + r * f32(1 / 5040)))
    series = f32(1.0) + r * (f32(1.0) + r * (f32(0.5) + r * (f32(1 / 6) + r * series)))
    power = np.int32(np.int32(np.float32(shifted).view(np.int32) << np.int32(23)) + ONE_BITS).view(np.float32)
    return series * power
