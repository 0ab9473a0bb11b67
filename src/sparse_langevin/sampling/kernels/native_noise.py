r"""The noise of `noise` as compiled code: the same counters, words and formulas.

    u1 = (word0 + 1/2) / 2^32      u2 = (word1 + 1/2) / 2^32
    z[2i] = sqrt(-2 log u1) cos(2 pi u2)      z[2i + 1] = sqrt(-2 log u1) sin(2 pi u2)

In float64 the results are equal up to rounding. In float32 log, cosine and sine are short series in single precision,
free of calls and branches, which the compiler turns into vector instructions. They differ from the numbers in double
precision by less than 1e-6; in the tails this error is relative, since values of u1 close to 0 and to 1 are exact.
"""

import math
from typing import Any

import numpy as np
from numba import types

from sparse_langevin.runtime.jit import FUSED, choosing, fused
from sparse_langevin.sampling.noise import PARITY

u32, f32 = np.uint32, np.float32  # numba widens integers and floats unless every constant has an explicit type
Array = np.ndarray[Any, Any]
Word = Any  # np.uint32
Real = Any  # a NumPy scalar of the precision asked for

SIGN = np.uint32(1 << 31)
SQRT_HALF_BITS = np.int32(np.float32(math.sqrt(0.5)).view(np.int32))


@fused
def normals(key: tuple[int, int], step: int, first_pair: int, out: Array) -> None:
    """Fill ``out``, whose length is even, with pairs of normal numbers, beginning with ``first_pair``."""
    key0, key1 = u32(key[0]), u32(key[1])
    for i in range(len(out) // 2):
        word0, word1 = _threefry(key0, key1, u32(first_pair + i), u32(step))
        # Flipping the sign bit reads the words as signed integers plus 2^31, as `noise` does.
        out[2 * i], out[2 * i + 1] = _box_muller(u32(word0 ^ SIGN), u32(word1 ^ SIGN), out)


@fused
def _threefry(key0: Word, key1: Word, word0: Word, word1: Word) -> tuple[Word, Word]:
    """Apply Threefry-2x32 with 13 rounds, see `noise.threefry2x32`; all words are uint32."""
    key2 = u32(key0 ^ key1 ^ u32(PARITY))
    word0, word1 = u32(word0 + key0), u32(word1 + key1)
    word0, word1 = _four_rounds(word0, word1, 13, 15, 26, 6)
    word0, word1 = u32(word0 + key1), u32(word1 + key2 + u32(1))
    word0, word1 = _four_rounds(word0, word1, 17, 29, 16, 24)
    word0, word1 = u32(word0 + key2), u32(word1 + key0 + u32(2))
    word0, word1 = _four_rounds(word0, word1, 13, 15, 26, 6)
    word0, word1 = u32(word0 + key0), u32(word1 + key1 + u32(3))
    return _round(word0, word1, 17)


@fused
def _four_rounds(word0: Word, word1: Word, a: int, b: int, c: int, d: int) -> tuple[Word, Word]:
    word0, word1 = _round(word0, word1, a)
    word0, word1 = _round(word0, word1, b)
    word0, word1 = _round(word0, word1, c)
    return _round(word0, word1, d)


@fused
def _round(word0: Word, word1: Word, turn: int) -> tuple[Word, Word]:
    word0 = u32(word0 + word1)
    return word0, u32(u32(u32(word1 << u32(turn)) | u32(word1 >> u32(32 - turn))) ^ word0)


def _box_muller(word0: Word, word1: Word, like: Array) -> tuple[Real, Real]:
    """Return two normal numbers from two words, in the precision of ``like``."""
    raise NotImplementedError("only in compiled code")


def _box_muller64(word0, word1, like):  # type: ignore[no-untyped-def]
    radius = math.sqrt(-2.0 * math.log((word0 + 0.5) * 2.0**-32))
    angle = (word1 + 0.5) * (2.0**-32 * 2.0 * math.pi)
    return radius * math.cos(angle), radius * math.sin(angle)


def _box_muller32(word0, word1, like):  # type: ignore[no-untyped-def]
    radius = _radius(word0)
    cosine, sine = _cosine_sine(word1)
    return radius * cosine, radius * sine


@fused
def _radius(word: Word) -> Real:
    """Return sqrt(-2 log u), u = (word + 1/2)/2^32 = 2^e (1 + f), by log(1 + f) = 2 atanh(f/(2 + f)), |f| < 0.42."""
    u = (f32(word) + f32(0.5)) * f32(2.0**-32)
    bits = np.float32(u).view(np.int32)
    exponent = np.int32((bits - SQRT_HALF_BITS) >> np.int32(23))
    f = np.int32(bits - np.int32(exponent << np.int32(23))).view(np.float32) - f32(1.0)
    if exponent == 0:  # u near 1: the word as a signed integer is 2^32 (u - 1) - 1/2 without cancellation
        f = (f32(np.int32(word)) + f32(0.5)) * f32(2.0**-32)
    q = f / (f32(2.0) + f)
    qq = q * q
    series = f32(1 / 3) + qq * (f32(1 / 5) + qq * (f32(1 / 7) + qq * f32(1 / 9)))
    log_u = f32(exponent) * f32(math.log(2.0)) + f32(2.0) * (q + q * qq * series)
    return np.sqrt(f32(-2.0) * log_u)


@fused
def _cosine_sine(word: Word) -> tuple[Real, Real]:
    """Return cosine and sine of 2 pi (word + 1/2)/2^32: the nearest quarter turn, and a Taylor series for the rest."""
    quarter = u32(u32(word + u32(1 << 29)) >> u32(30))
    rest = np.int32(u32(word - u32(quarter << u32(30))))
    x = (f32(rest) + f32(0.5)) * f32(2.0**-32 * 2.0 * math.pi)
    xx = x * x
    sine = xx * (f32(-1 / 6) + xx * (f32(1 / 120) + xx * (f32(-1 / 5040) + xx * f32(1 / 362880))))
    sine = x + x * sine
    cosine = xx * (f32(1 / 24) + xx * (f32(-1 / 720) + xx * (f32(1 / 40320) - xx * f32(1 / 3628800))))
    cosine = f32(1.0) + xx * (f32(-0.5) + cosine)
    odd = (quarter & u32(1)) != 0
    even_part, odd_part = (sine, cosine) if odd else (cosine, sine)
    return (
        -even_part if quarter == 1 or quarter == 2 else even_part,
        -odd_part if quarter >= 2 else odd_part,
    )


# Chosen at compile time, by the precision.
choosing(_box_muller, **FUSED)(
    lambda word0, word1, like: _box_muller32 if like.dtype == types.float32 else _box_muller64
)
