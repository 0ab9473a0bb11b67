r"""The update as machine code: one pass over the weights, which also computes the noise.

Per weight, with U the potential and the names of `reference`:

    u    = dU/dbeta + prior part
    beta = beta - eps*(u/m - Gamma/tau) + sqrt(2*eps/tau)/sqrt(m)*z,   m = 1/G

or, with momentum, one step of the BAOAB splitting. Then the prior's vectors are updated from the new beta. z comes from
`native_noise`. In float32 all arithmetic is in single precision and free of calls and branches, so that the compiler
turns the loops into vector instructions.

`specialised` makes the loop for one prior and one metric, whose formulas are compiled into it. What does not apply (no
momentum, no mask, no Gamma, no noise) is None and costs nothing. A block is processed in chunks whose noise stays in
the cache. Each chunk returns its sums; adding them in the order of the chunks gives the same bits for any number of
threads.
"""

import functools
import math
from typing import Any, NamedTuple, cast

import numpy as np
from numba import types

from sparse_langevin.runtime.jit import FUSED, choosing, fused, reassociated
from sparse_langevin.sampling.kernels.native_noise import normals
from sparse_langevin.sampling.metrics import NativeMetric
from sparse_langevin.sampling.priors import NativePrior

CHUNK = 1024  # weights; even, so that all chunks of a block begin at the same place in a pair of normal numbers

Array = np.ndarray[Any, Any]
Real = Any  # a NumPy scalar of the arrays' precision


class Arrays(NamedTuple):
    """The arrays of a block; None stands for those that are not used."""

    beta: Array
    grad: Array
    velocity: Array | None
    curvature: Array | None
    keep: Array | None
    moments: tuple[Array, ...]
    """The metric's vectors."""
    latent: tuple[Array, ...]
    """The prior's vectors."""


class Scalars(NamedTuple):
    """The numbers of one step and block, in double precision."""

    step_size: float
    tau: float
    omega: float
    momentum: float
    metric: tuple[float, ...]
    prior: tuple[float, ...]
    divisors: tuple[float, float, float]


class Coefficients(NamedTuple):
    """The factors of the vectors, in the vectors' precision."""

    step_size: Real
    noise: Real
    """sqrt(2*eps/tau)."""
    cold: Real
    """1/tau."""
    omega: Real
    old: Real
    """1 - omega."""
    momentum: Real
    time: Real
    """sqrt(2*eps*(1 - momentum)/(1 + momentum))."""
    heat: Real
    """sqrt((1 - momentum^2)/tau)."""
    half: Real
    """0.5."""
    metric: tuple[Real, ...]
    prior: tuple[Real, ...]


@fused
def coefficients(like: Array, step: Scalars) -> Coefficients:
    """Return the coefficients of one step and block, in the precision of ``like``."""
    real = like.dtype.type
    return Coefficients(
        real(step.step_size),
        real(math.sqrt(2.0 * step.step_size / step.tau)),
        real(1.0 / step.tau),
        real(step.omega),
        real(1.0 - step.omega),
        real(step.momentum),
        real(math.sqrt(2.0 * step.step_size * (1.0 - step.momentum) / (1.0 + step.momentum))),
        real(math.sqrt((1.0 - step.momentum * step.momentum) / step.tau)),
        real(0.5),
        _rounded(step.metric, like),
        _rounded(step.prior, like),
    )


@functools.cache
def specialised(prior: NativePrior, metric: NativeMetric) -> Any:
    """Return the loop for one prior and metric: ``update_chunks(arrays, step, key, k, start, sums, first_chunk)``.

    It updates some chunks of a block in place, one for each row of ``sums``, beginning with ``first_chunk``. The arrays
    are those of the whole block, ``start`` is the index of the block's first weight among all weights, and ``key`` is
    None at infinite tau. Row i of ``sums`` (float64) becomes the `Sums` of chunk ``first_chunk + i``. Each combination
    of optional parts is compiled when it is first used.
    """
    prior_gradient, prior_curvature, latent_update = prior
    inverse_metric, metric_gamma = metric.inverse, cast(Any, metric.gamma)

    @reassociated
    def update(
        beta: Array,
        grad: Array,
        z: Array | None,
        velocity: Array | None,
        curvature: Array | None,
        keep: Array | None,
        state: tuple[tuple[Array, ...], tuple[Array, ...]],
        c: Coefficients,
    ) -> tuple[Real, Real, Real, Real, Real]:
        """Update the weights of one chunk. Branches on None are decided at compile time."""
        zero = beta.dtype.type(0.0)
        sum_included, sum_linear, sum_quadratic, sum_drift, sum_noise = zero, zero, zero, zero, zero
        for i in range(len(beta)):
            # All loads come first and all stores last: the vectors begin at the same offset in their memory pages, and
            # a load would wait for a store to the same offset in another page.
            b, u = beta[i], grad[i]
            random = zero if z is None else z[i]
            kick, width = c.noise * random, c.time
            move = zero if velocity is None else velocity[i]
            bend = zero if curvature is None else curvature[i]
            moments = _loaded(state[0], i)
            kept = True if keep is None else keep[i]
            latent = _loaded(state[1], i)
            u += prior_gradient(b, latent, c.prior)
            drift = u
            if inverse_metric is not None:
                moments, inverse = inverse_metric(u, moments, c.metric)
                drift = u / inverse
                root = np.sqrt(inverse)
                kick /= root
                width /= root
                if curvature is not None:
                    bend += prior_curvature(b, latent, c.prior)
                    drift -= c.cold * metric_gamma(u, bend, moments, inverse, c.metric)
            if velocity is None:
                b = b - c.step_size * drift + kick
            else:
                move -= width * u
                half = move
                move = c.momentum * move + c.heat * random
                b += c.half * width * (half + move)
            if not kept:
                b, move, kick = zero, zero, zero
                if latent_update is None or velocity is not None:
                    drift = zero
            if latent_update is not None:
                latent, (included, linear, quadratic) = latent_update(b, latent, c.prior, c.omega, c.old)
                sum_included += included
                sum_linear += linear
                sum_quadratic += quadratic
                _store(state[1], i, latent)
            if latent_update is not None and velocity is None and not kept:
                drift = zero  # only here: earlier, the compiler would unroll the loop, which makes it slower
            beta[i] = b
            if velocity is not None:
                velocity[i] = move
            if inverse_metric is not None:
                _store(state[0], i, moments)
            sum_drift += drift * drift
            sum_noise += kick * kick
        return sum_included, sum_linear, sum_quadratic, sum_drift, sum_noise

    @fused
    def update_chunks(
        arrays: Arrays,
        step: Scalars,
        key: tuple[int, int] | None,
        k: int,
        start: int,
        sums: Array,
        first_chunk: int,
    ) -> None:
        beta = arrays.beta
        c = coefficients(beta, step)
        odd = start % 2
        buffer = _noise_buffer(key, beta)
        for row in range(len(sums)):
            low = (first_chunk + row) * CHUNK
            high = min(low + CHUNK, len(beta))
            if key is not None:
                normals(key, k, (start + low) // 2, buffer[: (high - low + odd + 1) // 2 * 2])
            included, linear, quadratic, drift, noise = update(
                beta[low:high],
                arrays.grad[low:high],
                _part(buffer, odd, odd + high - low),
                _part(arrays.velocity, low, high),
                _part(arrays.curvature, low, high),
                _part(arrays.keep, low, high),
                (_part(arrays.moments, low, high), _part(arrays.latent, low, high)),
                c,
            )
            sums[row, 0] = included / step.divisors[0]
            sums[row, 1] = linear / step.divisors[1]
            sums[row, 2] = quadratic / step.divisors[2]
            sums[row, 3] = drift * step.step_size**2
            sums[row, 4] = noise

    return update_chunks


# The code of the following functions is chosen at compile time, by the types of their arguments.


def _part(vector: Any, low: int, high: int) -> Any:
    """Return a slice of an array, the slices of a tuple of arrays, or None for None."""
    raise NotImplementedError("only in compiled code")


@choosing(_part)
def _choose_part(vector: Any, low: Any, high: Any) -> Any:
    if isinstance(vector, types.NoneType):
        return lambda vector, low, high: None
    if not isinstance(vector, types.BaseTuple):
        return lambda vector, low, high: vector[low:high]
    if not len(vector):
        return lambda vector, low, high: ()
    return lambda vector, low, high: (vector[0][low:high], *_part(vector[1:], low, high))


def _noise_buffer(key: tuple[int, int] | None, like: Array) -> Any:
    """Return space for the noise of a chunk that may begin within a pair, or None without noise."""
    raise NotImplementedError("only in compiled code")


@choosing(_noise_buffer)
def _choose_noise_buffer(key: Any, like: Any) -> Any:
    if isinstance(key, types.NoneType):
        return lambda key, like: None
    return lambda key, like: np.empty(CHUNK + 2, like.dtype)


def _loaded(arrays: tuple[Array, ...], i: int) -> tuple[Real, ...]:
    """Return entry i of each array."""
    raise NotImplementedError("only in compiled code")


@choosing(_loaded, **FUSED)
def _choose_loaded(arrays: Any, i: Any) -> Any:
    if not len(arrays):
        return lambda arrays, i: ()
    return lambda arrays, i: (arrays[0][i], *_loaded(arrays[1:], i))


def _store(arrays: tuple[Array, ...], i: int, values: tuple[Real, ...]) -> None:
    """Set entry i of each array."""
    raise NotImplementedError("only in compiled code")


@choosing(_store, **FUSED)
def _choose_store(arrays: Any, i: Any, values: Any) -> Any:
    if not len(arrays):
        return lambda arrays, i, values: None

    def store(arrays: Any, i: Any, values: Any) -> None:
        arrays[0][i] = values[0]
        _store(arrays[1:], i, values[1:])

    return store


def _rounded(numbers: tuple[float, ...], like: Array) -> tuple[Real, ...]:
    """Return the numbers in the precision of an array."""
    raise NotImplementedError("only in compiled code")


@choosing(_rounded, **FUSED)
def _choose_rounded(numbers: Any, like: Any) -> Any:
    if not len(numbers):
        return lambda numbers, like: ()
    return lambda numbers, like: (like.dtype.type(numbers[0]), *_rounded(numbers[1:], like))
