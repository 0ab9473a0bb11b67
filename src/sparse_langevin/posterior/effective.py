r"""How many independent draws a chain is worth, when its draws have weights.

Samples carry the step sizes they were drawn with, and a posterior mean is mu = sum_k w_k x_k / sum_k w_k. Its error
is the mean of the series z_k = v_k (x_k - mu), with v_k = w_k / mean(w), and its variance the long-run variance of z,
which `draws_of_series` estimates:

    Var(mu) = tau Var(z) / N,    tau = 1 + 2 sum_t rho_t    N draws, rho_t the autocorrelation of z

From several chains of length n, or parts of one, with weighted means mu_c,

    rho_t = (C_t - C_0 / (n - 1) + B g_t) / (C_0 + B g_0)

    C_t   autocovariance of v_k (x_k - mu_c), averaged over the chains
    g_t   mean of v_k v_{k+t}
    B     variance of mu_c between the chains, sum_c p_c (mu_c - mu)^2 / (1 - sum_c p_c^2), p_c the share of the weight

Centring each chain at its own mean takes Var(mu_c) g_t out of C_t; the term with B puts it back, and more than that if
the chains disagree. The sum is cut by Geyer's rule. With equal weights, v = g = 1 and this is the estimate of Vehtari,
Gelman, Simpson, Carpenter and Buerkner (2021); for independent draws it is Kish's (sum w)^2 / sum w^2.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft

Array = NDArray[np.float64]


def as_weights(weights: ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Return weights (chains, draws) with mean 1; None if all are equal, so that they do not matter."""
    if weights is None:
        return None
    given = np.asarray(weights, dtype=float)
    try:
        found = np.broadcast_to(given, shape)
    except ValueError as error:
        raise ValueError(
            f"weights of shape {given.shape} do not fit draws of shape {shape}: give one weight for each draw"
        ) from error
    if not (np.isfinite(found).all() and (found >= 0).all() and (found > 0).any()):
        raise ValueError(
            f"weights must be finite, not negative and not all zero, got {found.min():g} to {found.max():g}: they are "
            "the step sizes of the samples"
        )
    return None if np.ptp(found) == 0 else found / found.mean()


def weighted_mean(draws: Array, weights: Array | None) -> float:
    """Return the mean of all draws."""
    return float(np.average(draws, weights=weights))


def weighted_deviation(draws: Array, weights: Array | None) -> float:
    """Return the standard deviation of all draws; with equal weights that with N - 1 in the denominator."""
    if weights is None:
        return float(draws.std(ddof=1))
    square = np.square(draws - weighted_mean(draws, weights))
    return float(np.sqrt(np.average(square, weights=weights) * draws.size / (draws.size - 1)))


def series(draws: Array, weights: Array | None) -> Array:
    """Return z, the contributions of the draws to the error of the mean; up to a constant if weights are equal."""
    return draws if weights is None else weights * (draws - weighted_mean(draws, weights))


def effective_draws(chains: Array, weights: Array | None) -> float:
    """Return the number of independent draws whose plain mean has the same error: weighted variance / Var(mu)."""
    draws = draws_of_series(chains, weights)
    if weights is None:
        return draws
    centred = chains - weighted_mean(chains, weights)
    spread = np.square(weights * centred).mean()
    # Without any spread, only the weights count.
    kish = (weights * np.square(centred)).mean() / spread if spread > 0 else 1 / np.square(weights).mean()
    return float(draws * kish)


def draws_of_series(chains: Array, weights: Array | None) -> float:
    """Return N / tau, with tau the integrated autocorrelation time of z, from Geyer's initial monotone sequence."""
    n = chains.shape[1]
    if np.ptp(chains) < np.finfo(float).resolution:
        return float(chains.size)
    rho = _autocorrelation(chains, weights)
    # Pairs of neighbouring autocorrelations have positive sums until noise takes over.
    last = 1
    while last < n - 3 and rho[last - 1] + rho[last] > 0:
        last += 2
    kept = last - 2
    pairs = np.minimum.accumulate((rho[: kept + 1 : 2] + rho[1 : kept + 1 : 2])[: (kept + 1) // 2])
    extra = float(rho[kept + 1])  # the pair that ended the sum may have a positive part
    if extra < 0 and extra + rho[kept + 2] < 0:
        extra = 0.0
    time = -1 + 2 * float(pairs.sum()) + extra
    return float(chains.size / max(time, 1 / np.log10(chains.size)))


def _autocorrelation(chains: Array, weights: Array | None) -> Array:
    """Return rho_t of several chains together, at all lags."""
    m, n = chains.shape
    if weights is None:
        covariance = autocovariance(chains).mean(0)
        between, overlap = float(chains.mean(1).var(ddof=1)) if m > 1 else 0.0, None
    else:
        mass = weights.sum(1)
        share = mass / mass.sum()
        # A part without weight has no mean, and none is needed.
        means = np.divide((weights * chains).sum(1), mass, out=np.zeros(m), where=mass > 0)
        covariance = lagged_products(weights * (chains - means[:, None])).mean(0)
        freedom = 1 - np.square(share).sum()
        spread = (share * np.square(means - (share * means).sum())).sum()
        overlap = lagged_products(weights).mean(0) * n / np.arange(n, 0, -1)
        between = float(spread / freedom * overlap[0]) if freedom > 1e-9 else 0.0
    pooled = covariance[0] + between
    if pooled <= 0:
        return np.zeros(n)
    rho: Array = 1 - (covariance[0] * n / (n - 1) - covariance) / pooled
    if overlap is not None:
        rho += between / pooled * (overlap / overlap[0] - 1)
    rho[0] = 1.0
    return rho


def autocovariance(chains: Array) -> Array:
    """Return the autocovariance of each chain at all lags, with the length of the chain as the divisor."""
    return lagged_products(chains - chains.mean(1, keepdims=True))


def lagged_products(chains: Array) -> Array:
    """Return sum_k z_k z_{k+t} / n for each chain and each lag t."""
    n = chains.shape[1]
    size = fft.next_fast_len(2 * n)
    spectrum = fft.rfft(chains, size, axis=1)
    products: Array = fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n
    return products
