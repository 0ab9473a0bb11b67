"""Functions for compiled code that the compiler turns into vector instructions: no calls, no branches.

They work in the precision of their argument: short series in float32, the C library in float64. `exp64` and `log64` are
series in float64, for loops over many numbers.
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
ONE_BITS_64 = np.int64(np.float64(1.0).view(np.int64))
ROUNDER_64 = 1.5 * 2.0**52
ROUNDER_BITS_64 = np.int64(np.float64(ROUNDER_64).view(np.int64))
SQRT_HALF_BITS_64 = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
LOG_2_HIGH_64 = 1488522235 / 2**31  # the first 32 bits of log(2)
LOG_2_LOW_64 = math.log(2.0) - LOG_2_HIGH_64


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


@fused
def exp64(x: Real) -> Real:
    """e^x for |x| < 700, to 1e-11: 2^n e^r with |r| <= log(2)/2, e^r by Taylor's series."""
    shifted = x * (1 / math.log(2.0)) + ROUNDER_64
    n = shifted - ROUNDER_64
    r = (x - n * LOG_2_HIGH_64) - n * LOG_2_LOW_64
    series = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800)))
    series = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * series))
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * series)))
    power = np.int64(np.int64(np.float64(shifted).view(np.int64) << np.int64(52)) + ONE_BITS_64).view(np.float64)
    return series * power


@fused
def log64(x: Real) -> Real:
    """log(x) of a positive normal number, to 1e-10: x = 2^e (1 + f), log(1 + f) = 2 atanh(f/(2 + f))."""
    bits = np.float64(x).view(np.int64)
    exponent = np.int64((bits - SQRT_HALF_BITS_64) >> np.int64(52))  # f is between -0.3 and 0.42
    f = np.int64(bits - np.int64(exponent << np.int64(52))).view(np.float64) - 1.0
    q = f / (2.0 + f)
    qq = q * q
    series = 1 / 7 + qq * (1 / 9 + qq * (1 / 11 + qq * (1 / 13 + qq * (1 / 15))))
    series = 1.0 + qq * (1 / 3 + qq * (1 / 5 + qq * series))
    # Added to the bits of 1.5*2^52, a whole number stands in the lowest ones: vector units cannot convert it.
    whole = np.int64(exponent + ROUNDER_BITS_64).view(np.float64) - ROUNDER_64
    return whole * math.log(2.0) + 2.0 * q * series
