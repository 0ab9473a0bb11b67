r"""The update as machine code: one pass over the weights, with the noise made on the way.

Per weight, with U the potential and the names of `reference`:

    u    = dU/dbeta + prior part
    V    = alpha V + (1 - alpha) u*u,    m = eta + sqrt(V) = 1/G     (no preconditioner: m = 1)
    beta = beta - eps*(u/m - Gamma/tau) + sqrt(2*eps/tau)/sqrt(m)*z
    rho  = (1 - omega) rho + omega sigmoid(log-odds of beta),   s = (1 - omega) s + omega rho

z is the noise of `noise`: the same counters, words and formulas. In float32 all arithmetic is single precision and
free of calls and branches, so that the compiler turns the loops into vector instructions: z then differs from the
double precision noise by rounding (below 1e-6, see the tests), also in the far tails. In float64 it is equal.

A block is worked on in chunks whose noise stays in cache. Each chunk returns its sums; whoever adds them up in the
order of the chunks gets the same bits for any number of threads. All functions can be called from compiled code:

    update_chunks(beta, grad, v, curvature, rho, s, keep, step, prior, key, k, start, sums, first_chunk)

where arrays that do not apply are None (no preconditioner: v; no Gamma: curvature; Gaussian prior: rho and s; no
mask: keep), and so is the key at infinite tau. Each combination is compiled when it is first used.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from sparse_langevin.kernels.jit import OPTIONS, compiled, reassociated
from sparse_langevin.kernels.reference import StepScalars
from sparse_langevin.noise import PARITY

CHUNK = 1024  # weights; even, so that all chunks of a block begin alike in a pair of normal numbers

SIGN = np.uint32(1 << 31)

u32, f32 = np.uint32, np.float32  # numba widens integers and floats unless told the type of every constant
Array = np.ndarray[Any, Any]


class PriorScalars(NamedTuple):
    """The prior of one block: precision for a Gaussian one, the other three for spike and slab."""

    precision: float
    v0: float
    v1: float
    log_odds: float
    """of inclusion of a weight at zero, see `SpikeSlab.log_odds_at_zero`"""


class Coefficients(NamedTuple):
    """What multiplies the vectors, in their own precision."""

    step_size: float
    memory: float
    """alpha, or 0 at the first step"""
    fresh: float
    """1 - alpha"""
    eta: float
    noise: float
    """sqrt(2*eps/tau)"""
    cold: float
    """1/tau"""
    omega: float
    old: float
    """1 - omega"""
    precision: float
    """of the Gaussian prior"""
    spike: float
    """1/(v0*sigma)"""
    slab: float
    """1/(v1*sigma^2)"""
    log_odds: float
    """of a weight at zero"""


@compiled
def coefficients(like: Array, step: StepScalars, prior: PriorScalars) -> Coefficients:
    """Coefficients of one step and block, in the precision of ``like``."""
    real = like.dtype.type
    memory = 0.0 if step.first else step.alpha
    return Coefficients(
        real(step.step_size),
        real(memory),
        real(1.0 - memory),
        real(step.eta),
        real(math.sqrt(2.0 * step.step_size / step.tau)),
        real(1.0 / step.tau),
        real(step.omega),
        real(1.0 - step.omega),
        real(prior.precision),
        real(1.0 / (prior.v0 * step.sigma)),
        real(1.0 / (prior.v1 * step.sigma**2)),
        real(prior.log_odds),
    )


@compiled
def update_chunks(
    beta: Array,
    grad: Array,
    v: Array | None,
    curvature: Array | None,
    rho: Array | None,
    s: Array | None,
    keep: Array | None,
    step: StepScalars,
    prior: PriorScalars,
    key: tuple[int, int] | None,
    k: int,
    start: int,
    sums: Array,
    first_chunk: int,
) -> None:
    """Update some chunks of a block in place, one for each row of ``sums``, beginning at ``first_chunk``.

    The arrays are those of the whole block, ``start`` is the block's place in the vector of all weights. Row i
    of ``sums`` (float64) becomes the `Sums` of chunk ``first_chunk + i``.
    """
    c = coefficients(beta, step, prior)
    odd = start % 2
    buffer = _noise_buffer(key, beta)
    for row in range(len(sums)):
        low = (first_chunk + row) * CHUNK
        high = min(low + CHUNK, len(beta))
        if key is not None:
            normals(key, k, (start + low) // 2, buffer[: (high - low + odd + 1) // 2 * 2])
        rho_sum, spike, slab, drift, noise = _update(
            beta[low:high],
            grad[low:high],
            _part(buffer, odd, odd + high - low),
            _part(v, low, high),
            _part(curvature, low, high),
            _part(rho, low, high),
            _part(s, low, high),
            _part(keep, low, high),
            c,
        )
        sums[row, 0] = rho_sum
        sums[row, 1] = spike / prior.v0
        sums[row, 2] = slab / prior.v1
        sums[row, 3] = drift * step.step_size**2
        sums[row, 4] = noise


def _part(vector: Array | None, low: int, high: int) -> Array | None:
    """A slice of what is there, None of what is not."""
    raise NotImplementedError("only in compiled code")


def _noise_buffer(key: tuple[int, int] | None, like: Array) -> Array | None:
    """Room for the noise of a chunk that begins within a pair, or None without noise."""
    raise NotImplementedError("only in compiled code")


@reassociated
def _update(
    beta: Array,
    grad: Array,
    z: Array | None,
    v: Array | None,
    curvature: Array | None,
    rho: Array | None,
    s: Array | None,
    keep: Array | None,
    c: Coefficients,
) -> tuple[float, float, float, float, float]:
    """One chunk: the loop over its weights. Branches on None are decided when it is compiled."""
    real = beta.dtype.type
    zero, half, one = real(0.0), real(0.5), real(1.0)
    sum_rho, sum_spike, sum_slab, sum_drift, sum_noise = zero, zero, zero, zero, zero
    for i in range(len(beta)):
        # All loads first, all stores last: the vectors begin at the same place in their pages, and a load
        # would wait for a store to the same place in another page.
        b, u = beta[i], grad[i]
        kick = zero if z is None else c.noise * z[i]
        second = zero if v is None else v[i]
        bend = zero if curvature is None else curvature[i]
        kept = True if keep is None else keep[i]
        included = zero if rho is None else rho[i]
        average = zero if s is None else s[i]
        if s is None:
            u += c.precision * b
        else:
            sign = real(b > zero) - real(b < zero)
            u += (one - average) * c.spike * sign + average * b * c.slab
        drift = u
        if v is not None:
            second = c.memory * second + c.fresh * (u * u)
            root = np.sqrt(second)
            metric = root + c.eta
            drift = u / metric
            kick /= np.sqrt(metric)
            if curvature is not None:
                bend += c.precision if s is None else average * c.slab
                gamma = -c.fresh * u * bend / (metric * metric * root)
                drift -= c.cold * (gamma if root != zero else zero)
        b = b - c.step_size * drift + kick
        if not kept:
            b, drift, kick = zero, zero, zero
        sum_drift += drift * drift
        sum_noise += kick * kick
        if rho is not None and s is not None:
            size, square = abs(b), b * b
            odds = size * c.spike + c.log_odds - half * c.slab * square
            included = c.old * included + c.omega * _sigmoid(odds)
            average = c.old * average + c.omega * included
            sum_rho += included
            sum_spike += (one - average) * size
            sum_slab += average * square
            rho[i], s[i] = included, average
        beta[i] = b
        if v is not None:
            v[i] = second
    return sum_rho, sum_spike, sum_slab, sum_drift, sum_noise


@compiled
def normals(key: tuple[int, int], step: int, first_pair: int, out: Array) -> None:
    """Fill ``out``, of even length, with the pairs of normal numbers from ``first_pair`` on."""
    key0, key1 = u32(key[0]), u32(key[1])
    for i in range(len(out) // 2):
        word0, word1 = _threefry(key0, key1, u32(first_pair + i), u32(step))
        # Read as signed integers from -2^31 up, as `noise` does.
        out[2 * i], out[2 * i + 1] = _box_muller(u32(word0 ^ SIGN), u32(word1 ^ SIGN), out)


@compiled
def _threefry(key0: int, key1: int, word0: int, word1: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds, see `noise.threefry2x32`; all words are uint32."""
    key2 = u32(key0 ^ key1 ^ u32(PARITY))
    word0, word1 = u32(word0 + key0), u32(word1 + key1)
    word0, word1 = _four_rounds(word0, word1, 13, 15, 26, 6)
    word0, word1 = u32(word0 + key1), u32(word1 + key2 + u32(1))
    word0, word1 = _four_rounds(word0, word1, 17, 29, 16, 24)
    word0, word1 = u32(word0 + key2), u32(word1 + key0 + u32(2))
    word0, word1 = _four_rounds(word0, word1, 13, 15, 26, 6)
    word0, word1 = u32(word0 + key0), u32(word1 + key1 + u32(3))
    word0, word1 = _four_rounds(word0, word1, 17, 29, 16, 24)
    word0, word1 = u32(word0 + key1), u32(word1 + key2 + u32(4))
    word0, word1 = _four_rounds(word0, word1, 13, 15, 26, 6)
    return u32(word0 + key2), u32(word1 + key0 + u32(5))


@compiled
def _four_rounds(word0: int, word1: int, a: int, b: int, c: int, d: int) -> tuple[int, int]:
    word0, word1 = _round(word0, word1, a)
    word0, word1 = _round(word0, word1, b)
    word0, word1 = _round(word0, word1, c)
    return _round(word0, word1, d)


@compiled
def _round(word0: int, word1: int, turn: int) -> tuple[int, int]:
    word0 = u32(word0 + word1)
    return word0, u32(u32(u32(word1 << u32(turn)) | u32(word1 >> u32(32 - turn))) ^ word0)


def _box_muller(word0: int, word1: int, like: Array) -> tuple[float, float]:
    """Two normal numbers from two words, in the precision of ``like``."""
    raise NotImplementedError("only in compiled code")


def _box_muller64(word0, word1, like):  # type: ignore[no-untyped-def]
    radius = math.sqrt(-2.0 * math.log((word0 + 0.5) * 2.0**-32))
    angle = (word1 + 0.5) * (2.0**-32 * 2.0 * math.pi)
    return radius * math.cos(angle), radius * math.sin(angle)


def _box_muller32(word0, word1, like):  # type: ignore[no-untyped-def]
    radius = _radius(word0)
    cosine, sine = _cosine_sine(word1)
    return radius * cosine, radius * sine


@compiled
def _radius(word: int) -> float:
    """sqrt(-2 log u) for u = (word + 1/2)/2^32 = 2^e (1 + f), by log(1 + f) = 2 atanh(f/(2 + f)), |f| < 0.42."""
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
    return np.sqrt(f32(-2.0) * log_u)  # type: ignore[no-any-return]


@compiled
def _cosine_sine(word: int) -> tuple[float, float]:
    """Cosine and sine of 2 pi (word + 1/2)/2^32: the nearest quarter turn, and Taylor's series for the rest."""
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


def _sigmoid(x: float) -> float:
    """1/(1 + exp(-x)) in the precision of x."""
    raise NotImplementedError("only in compiled code")


def _sigmoid64(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + math.exp(-x))


def _sigmoid32(x):  # type: ignore[no-untyped-def]
    return f32(1.0) / (f32(1.0) + _exp(-x))


@compiled
def _exp(x: float) -> float:
    """e^x = 2^n e^r with |r| <= log(2)/2, e^r by Taylor's series; x is held within the range of normal numbers."""
    if x > f32(88.0):
        x = f32(88.0)
    if x < f32(-87.0):
        x = f32(-87.0)
    # Adding 1.5*2^23 rounds to an integer and leaves it in the lowest bits. Unlike a conversion this is defined for NaN.
    shifted = x * f32(1 / math.log(2.0)) + ROUNDER
    n = shifted - ROUNDER
    r = (x - n * LOG_2_HIGH) - n * LOG_2_LOW
    series = f32(1 / 24) + r * (f32(1 / 120) + r * (f32(1 / 720) + r * f32(1 / 5040)))
    series = f32(1.0) + r * (f32(1.0) + r * (f32(0.5) + r * (f32(1 / 6) + r * series)))
    power = np.int32(np.int32(np.float32(shifted).view(np.int32) << np.int32(23)) + ONE_BITS).view(np.float32)
    return series * power


SQRT_HALF_BITS = np.int32(np.float32(math.sqrt(0.5)).view(np.int32))
ONE_BITS = np.int32(np.float32(1.0).view(np.int32))
ROUNDER = np.float32(1.5 * 2**23)
LOG_2_HIGH = np.float32(355 / 512)  # few bits, so that n times it is exact
LOG_2_LOW = np.float32(math.log(2.0) - 355 / 512)

# Which code a call means is decided by the types of its arguments, when it is compiled.
overload(_part)(
    lambda vector, low, high: (
        (lambda vector, low, high: None)
        if isinstance(vector, types.NoneType)
        else (lambda vector, low, high: vector[low:high])
    )
)
overload(_noise_buffer)(
    lambda key, like: (
        (lambda key, like: None)
        if isinstance(key, types.NoneType)
        else (lambda key, like: np.empty(CHUNK + 2, like.dtype))
    )
)
overload(_box_muller, jit_options=OPTIONS)(
    lambda word0, word1, like: _box_muller32 if like.dtype == types.float32 else _box_muller64
)
overload(_sigmoid, jit_options=OPTIONS)(lambda x: _sigmoid32 if x == types.float32 else _sigmoid64)
