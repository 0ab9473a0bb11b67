r"""Diagnostics of chains: whether they have converged, and how many independent draws they are worth.

Draws are an array (chains, draws) or (chains, draws, ...), with one result for each of the trailing indices. The
definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (Rank-normalization, folding, and
localization, 2021): chains are split in two, and draws are replaced by normal scores of their ranks.

    rhat      sqrt(pooled variance / variance within chains); the larger of bulk and folded; near 1 if chains agree
    ess       draws / (1 + 2 sum of autocorrelations), the sum cut by Geyer's rule
    verdict   a summary of these in plain words
    mcse      posterior deviation / sqrt(ess): the Monte Carlo error of a posterior mean
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, stats

from sparse_langevin.runtime.extras import require

if TYPE_CHECKING:
    from arviz import InferenceData

    from sparse_langevin.posterior.encoding import Sample

Array = NDArray[np.float64]
Traces = Mapping[str, ArrayLike]
AGREE = 1.01  # Vehtari et al. trust chains with an R-hat below this and more effective draws than DRAWS_PER_CHAIN each
DISAGREE = 1.1
DRAWS_PER_CHAIN = 100
SPREAD = 1e-6  # relative to the size of a number; float32 resolves 1e-7


def rhat(draws: ArrayLike) -> Array:
    """Return the rank-normalised split R-hat."""
    return _each(draws, lambda chains: max(_rhat(_scores(_split(chains))), _rhat(_scores(_folded(_split(chains))))))


def ess(draws: ArrayLike) -> Array:
    """Return the bulk effective sample size."""
    return _each(draws, lambda chains: _ess(_scores(_split(chains))))


def ess_tail(draws: ArrayLike, probability: float = 0.05) -> Array:
    """Return the effective sample size in the tails: the smaller one of the two outer quantiles."""

    def tail(chains: Array) -> float:
        levels = np.quantile(chains, [probability, 1 - probability])
        return min(_ess(_split((chains <= level).astype(float))) for level in levels)

    return _each(draws, tail)


def mcse(draws: ArrayLike) -> Array:
    """Return the Monte Carlo standard error of the mean."""
    return _each(draws, lambda chains: float(chains.std(ddof=1)) / np.sqrt(_ess(_split(chains))))


def traces(
    samples: "Iterable[Sample]", quantities: "Mapping[str, Callable[[Sample], float]] | None" = None
) -> dict[str, Array]:
    """Return draws (chains, draws) of numbers computed from samples; by default of sigma alone.

    If chains have different lengths, the first draws of the longer ones are left out.
    """
    wanted = quantities or {"sigma": lambda sample: sample.sigma}
    rows: dict[int, list[list[float]]] = {}
    for sample in samples:
        rows.setdefault(sample.chain, []).append([float(quantity(sample)) for quantity in wanted.values()])
    length = min(map(len, rows.values()), default=0)
    if not length:
        raise ValueError("there are no samples to make traces of: run the sampler for longer than burn_in + thin steps")
    table = np.array([chain[-length:] for chain in rows.values()])
    return {name: table[:, :, i] for i, name in enumerate(wanted)}


def verdict(traces: Traces) -> list[str]:
    """Summarise the diagnostics in plain words: one line for the result, then one for each kind of fault."""
    draws = {name: np.asarray(values, dtype=float) for name, values in traces.items()}
    if not draws:
        raise ValueError("a verdict needs at least one trace, such as {'sigma': array of (chains, draws)}")
    for name, values in draws.items():
        if values.ndim != 2 or values.shape[1] < 4:
            raise ValueError(f"the trace of {name} must have the shape (chains, draws >= 4), got {values.shape}")
    faults = [fault for name, values in draws.items() for fault in _faults(name, values)]
    chains = max(len(values) for values in draws.values())
    who = f"{chains} chains agree" if chains > 1 else "the chain agrees with itself"
    usable = [values for values in draws.values() if np.isfinite(values).all()]
    largest = max((float(rhat(values)) for values in usable), default=np.nan)
    fewest = min((float(ess(values)) for values in usable), default=np.nan)
    if not faults:
        return [f"{who} (largest R-hat {largest:.3f}, at least {fewest:.0f} effective draws)"]
    lines = _worst_of_each_kind(faults)
    if largest < DISAGREE and not any(fault.kind in ("stuck", "not finite") for fault in faults):
        return [f"{who} (largest R-hat {largest:.3f}), with reservations", *lines]
    return lines


class _Fault(NamedTuple):
    kind: str
    badness: float
    name: str
    text: str


def _worst_of_each_kind(faults: Sequence[_Fault]) -> list[str]:
    """Return one line for each kind of fault: the worst one, and the names of the others."""
    lines = []
    for kind in dict.fromkeys(fault.kind for fault in faults):
        worst, *others = sorted((f for f in faults if f.kind == kind), key=lambda fault: -fault.badness)
        also = f" (likewise for {', '.join(other.name for other in others)})" if others else ""
        lines.append(worst.text + also)
    return lines


def _faults(name: str, draws: Array) -> Iterator[_Fault]:
    """Yield what is wrong with one trace."""
    if not np.isfinite(draws).all():
        bad = int((~np.isfinite(draws)).sum())
        text = f"{name} is not finite in {bad} of {draws.size} draws: the chain diverged; use a smaller step size"
        yield _Fault("not finite", bad, name, text)
        return
    values = [len(np.unique(chain)) for chain in draws]
    if min(values) == 1:
        stuck = [str(i) for i, number in enumerate(values) if number == 1]
        which = "the chain is stuck" if len(draws) == 1 else f"chains are stuck ({', '.join(stuck)})"
        text = f"{which}: {name} took only 1 value; use a larger step size, or check that it is sampled"
        yield _Fault("stuck", len(stuck), name, text)
        return
    ratio, effective = float(rhat(draws)), float(ess(draws))
    if ratio >= DISAGREE:
        if len(draws) > 1:
            text = f"these chains disagree about {name}: R-hat {ratio:.2g}; run longer"
        else:
            text = f"the chain has not settled: the halves of {name} disagree, R-hat {ratio:.2g}; run longer"
        yield _Fault("disagree", ratio, name, text)
    elif ratio >= AGREE:
        text = f"{name} is not yet settled: R-hat {ratio:.3f}, wanted below {AGREE}; run longer"
        yield _Fault("unsettled", ratio, name, text)
    if effective < DRAWS_PER_CHAIN * len(draws):
        text = (
            f"{name} has {effective:.0f} effective draws of {draws.size}, wanted {DRAWS_PER_CHAIN * len(draws)}: its "
            f"mean is known to {float(mcse(draws)):.2g}; run longer"
        )
        yield _Fault("few draws", -effective, name, text)
    if draws.std() < SPREAD * np.abs(draws).max():
        text = (
            f"this posterior has almost no spread: {name} is {draws.mean():.6g} +- {draws.std():.1g}; check tau and "
            "the step size, this may be optimisation"
        )
        yield _Fault("no spread", -float(draws.std()), name, text)


def to_arviz(traces: Traces) -> "InferenceData":
    """Return the draws as ArviZ's InferenceData, for its plots and summaries."""
    arviz = require("to_arviz", "arviz", "arviz")
    draws = {name: np.asarray(values, dtype=float) for name, values in traces.items()}
    data: InferenceData = arviz.from_dict(posterior=draws)
    return data


def autocorrelation(draws: ArrayLike) -> Array:
    """Return the autocorrelation (chains, lags) of draws (chains, draws); nan for a chain without spread."""
    covariance = _autocovariance(np.asarray(draws, dtype=float))
    spread = covariance[:, :1] > 0
    return np.divide(covariance, covariance[:, :1], out=np.full_like(covariance, np.nan), where=spread)


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
    """Return the first and second half of each chain as chains of their own."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _folded(chains: Array) -> Array:
    """Return the distances from the median, which turn a difference in scale into one in location."""
    return np.abs(chains - np.median(chains))


def _scores(chains: Array) -> Array:
    """Return the normal scores of the ranks (Blom)."""
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
    """Divide the draws by the integrated autocorrelation time, from Geyer's initial monotone sequence."""
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
    """Return the autocovariance of each chain at all lags, with the length of the chain as the divisor."""
    n = chains.shape[1]
    size = fft.next_fast_len(2 * n)
    spectrum = fft.rfft(chains - chains.mean(1, keepdims=True), size, axis=1)
    covariance: Array = fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :n] / n
    return covariance
