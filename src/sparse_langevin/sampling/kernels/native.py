r"""The update as machine code: one pass over the weights, with the noise made on the way.

Per weight, with U the potential and the names of `reference`:

    u    = dU/dbeta + prior part
    V    = alpha V + (1 - alpha) u*u,    m = eta + sqrt(V) = 1/G     (no preconditioner: m = 1)
    beta = beta - eps*(u/m - Gamma/tau) + sqrt(2*eps/tau)/sqrt(m)*z    (momentum: beta moves by the steps' average)
    rho  = (1 - omega) rho + omega sigmoid(log-odds of beta),   s = (1 - omega) s + omega rho

z comes from `native_noise`. In float32 all arithmetic is single precision and free of calls and branches, so that the
compiler turns the loops into vector instructions.

A block is worked on in chunks whose noise stays in cache. Each chunk returns its sums; whoever adds them up in the
order of the chunks gets the same bits for any number of threads. All functions can be called from compiled code:

    update_chunks(beta, grad, velocity, v, curvature, rho, s, keep, step, prior, key, k, start, sums, first_chunk)

where arrays that do not apply are None (no momentum: velocity; no preconditioner: v; no Gamma: curvature; Gaussian
prior: rho and s; no mask: keep), and so is the key at infinite tau. Each combination is compiled when it is first used.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from sparse_langevin.runtime.jit import FUSED, fused, reassociated
from sparse_langevin.sampling.kernels.native_noise import normals
from sparse_langevin.sampling.kernels.reference import StepScalars

CHUNK = 1024  # weights; even, so that all chunks of a block begin alike in a pair of normal numbers

f32 = np.float32  # a plain constant would turn its neighbours into float64
Array = np.ndarray[Any, Any]
Real = Any  # a NumPy scalar of the arrays' precision


class PriorScalars(NamedTuple):
    """The prior of one block: precision for a Gaussian one, the other three for spike and slab."""

    precision: float
    v0: float
    v1: float
    log_odds: float
    """of inclusion of a weight at zero, see `SpikeSlab.log_odds_at_zero`"""


class Coefficients(NamedTuple):
    """What multiplies the vectors, in their own precision."""

    step_size: Real
    memory: Real
    """alpha, or 0 at the first step"""
    fresh: Real
    """1 - alpha"""
    eta: Real
    noise: Real
    """sqrt(2*eps/tau)"""
    cold: Real
    """1/tau"""
    omega: Real
    old: Real
    """1 - omega"""
    precision: Real
    """of the Gaussian prior"""
    spike: Real
    """1/(v0*sigma)"""
    slab: Real
    """1/(v1*sigma^2)"""
    log_odds: Real
    """of a weight at zero"""
    momentum: Real
    share: Real
    """1 - momentum"""


@fused
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
        real(step.momentum),
        real(1.0 - step.momentum),
    )


@fused
def update_chunks(
    beta: Array,
    grad: Array,
    velocity: Array | None,
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
            _part(velocity, low, high),
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


def _noise_buffer(key: tuple[int, int] | None, like: Array) -> Any:
    """Room for the noise of a chunk that begins within a pair, or None without noise."""
    raise NotImplementedError("only in compiled code")


@reassociated
def _update(
    beta: Array,
    grad: Array,
    z: Array | None,
    velocity: Array | None,
    v: Array | None,
    curvature: Array | None,
    rho: Array | None,
    s: Array | None,
    keep: Array | None,
    c: Coefficients,
) -> tuple[Real, Real, Real, Real, Real]:
    """One chunk: the loop over its weights. Branches on None are decided when it is compiled."""
    real = beta.dtype.type
    zero, half, one = real(0.0), real(0.5), real(1.0)
    sum_rho, sum_spike, sum_slab, sum_drift, sum_noise = zero, zero, zero, zero, zero
    for i in range(len(beta)):
        # All loads first, all stores last: the vectors begin at the same place in their pages, and a load
        # would wait for a store to the same place in another page.
        b, u = beta[i], grad[i]
        kick = zero if z is None else c.noise * z[i]
        move = zero if velocity is None else velocity[i]
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
        if velocity is None:
            b = b - c.step_size * drift + kick
        else:
            move = c.momentum * move + c.share * (kick - c.step_size * drift)
            b += move
        if not kept:
            b, move, drift, kick = zero, zero, zero, zero
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
        if velocity is not None:
            velocity[i] = move
        if v is not None:
            v[i] = second
    return sum_rho, sum_spike, sum_slab, sum_drift, sum_noise


def _sigmoid(x: Real) -> Real:
    """1/(1 + exp(-x)) in the precision of x."""
    raise NotImplementedError("only in compiled code")


def _sigmoid64(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + math.exp(-x))


def _sigmoid32(x):  # type: ignore[no-untyped-def]
    return f32(1.0) / (f32(1.0) + _exp(-x))


@fused
def _exp(x: Real) -> Real:
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
overload(_sigmoid, jit_options=FUSED)(lambda x: _sigmoid32 if x == types.float32 else _sigmoid64)
