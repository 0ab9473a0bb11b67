r"""Whether chains have converged, and how many independent draws they are worth.

Draws are an array (chains, draws) or (chains, draws, ...), with one result for each of the trailing indices. The
definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (Rank-normalization, folding, and
localization, 2021): chains are split in two, draws replaced by normal scores of their ranks.

    rhat      sqrt(pooled variance / variance within chains); the larger of bulk and folded; near 1 if chains agree
    ess       draws / (1 + 2 sum of autocorrelations), the sum cut by Geyer's rule
    mcse      posterior deviation / sqrt(ess): the Monte Carlo error of a posterior mean
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, stats

Array = NDArray[np.float64]


def rhat(draws: ArrayLike) -> Array:
    """Rank-normalised split R-hat."""
    return _each(draws, lambda chains: max(_rhat(_scores(_split(chains))), _rhat(_scores(_folded(_split(chains))))))


def ess(draws: ArrayLike) -> Array:
    """Bulk effective sample size."""
    return _each(draws, lambda chains: _ess(_scores(_split(chains))))


def ess_tail(draws: ArrayLike, probability: float = 0.05) -> Array:
    """Effective sample size in the tails: the smaller of those of the two quantiles."""

    def tail(chains: Array) -> float:
        levels = np.quantile(chains, [probability, 1 - probability])
        return min(_ess(_split((chains <= level).astype(float))) for level in levels)

    return _each(draws, tail)


def mcse(draws: ArrayLike) -> Array:
    """Monte Carlo standard error of the mean."""
    return _each(draws, lambda chains: float(chains.std(ddof=1)) / np.sqrt(_ess(_split(chains))))


def _each(draws: ArrayLike, statistic: Callable[[Array], float]) -> Array:
    """Apply a statistic of (chains, draws) to each trailing index; nan where draws are not finite."""
    values = np.asarray(draws, dtype=float)
    if values.ndim < 2 or values.shape[1] < 4:
        raise ValueError(f"diagnostics need draws of shape (chains, draws >= 4, ...), got {values.shape}")
    columns = values.reshape(*values.shape[:2], -1)
    results = [
        statistic(np.ascontiguousarray(columns[:, :, i])) if np.isfinite(columns[:, :, i]).all() else np.nan
        for i in range(columns.shape[2])
    ]
    return np.asarray(results, dtype=float).reshape(values.shape[2:])


def _split(chains: Array) -> Array:
    """First and second half of each chain as chains of their own."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _folded(chains: Array) -> Array:
    """Distances from the median: a difference in scale becomes one in location."""
    return np.abs(chains - np.median(chains))


def _scores(chains: Array) -> Array:
    """Normal scores of the ranks (Blom)."""
    ranks = stats.rankdata(chains, method="average").reshape(chains.shape)
    scores: Array = stats.norm.ppf((ranks - 0.375) / (chains.size + 0.25))
    return scores


def _rhat(chains: Array) -> float:
    n = chains.shape[1]
    between = n * chains.mean(1).var(ddof=1)
    within = chains.var(1, ddof=1).mean()
    if within == 0:
        return 1.0 if between == 0 else np.inf
    return float(np.sqrt((between / within + n - 1) / n))


def _ess(chains: Array) -> float:
    """Draws divided by the integrated autocorrelation time, by Geyer's initial monotone sequence."""
    m, n = chains.shape
    if np.ptp(chains) < np.finfo(float).resolution:
        return float(chains.size)
    covariance = _autocovariance(chains).mean(0)
    within = covariance[0] * n / (n - 1)
    pooled = covariance[0] + (chains.mean(1).var(ddof=1) if m > 1 else 0.0)
    rho = 1 - (within - covariance) / pooled
    rho[0] = 1.0
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


def _autocovariance(chains: Array) -> Array:
    """Of each chain, divided by its length, for all lags."""
    n = chains.shape[1]
    size = fft.next_fast_len(2 * n)
    spectrum = fft.rfft(chains - chains.mean(1, keepdims=True), size, axis=1)
    covariance: Array = fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n
    return covariance
