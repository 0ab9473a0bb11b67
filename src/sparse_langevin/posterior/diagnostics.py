r"""Diagnostics of chains: whether they have converged, and how many independent draws they are worth.

Draws are an array (chains, draws) or (chains, draws, ...), with one result for each of the trailing indices. The
definitions are those of Vehtari, Gelman, Simpson, Carpenter and Buerkner (Rank-normalization, folding, and
localization, 2021): chains are split in two, and draws are replaced by normal scores of their ranks.

    rhat      sqrt(pooled variance / variance within chains); the larger of bulk and folded; near 1 if chains agree
    ess       draws / (1 + 2 sum of autocorrelations), the sum cut by Geyer's rule
    verdict   a summary of these in plain words
    mcse      posterior deviation / sqrt(ess): the Monte Carlo error of a posterior mean

Samples have weights w_k, their step sizes, and posterior means are sum_k w_k x_k / sum_k w_k. Given the weights, `mcse`
is the error of that mean: with z_k = w_k (x_k - mean),

    mcse^2 = long-run variance of z * draws / (sum_k w_k)^2
    ess    = weighted variance of x / mcse^2, of the normal scores

see `effective` for the estimate. `traces` brings the weights along, and `verdict` uses them. R-hat asks whether chains
have forgotten where they began, and has no weights.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sparse_langevin.posterior.effective import (
    Array,
    as_weights,
    autocovariance,
    draws_of_series,
    effective_draws,
    series,
    weighted_deviation,
    weighted_mean,
)
from sparse_langevin.runtime.extras import require

if TYPE_CHECKING:
    from arviz import InferenceData

    from sparse_langevin.posterior.encoding import Sample

Draws = Mapping[str, ArrayLike]
AGREE = 1.01  # Vehtari et al. trust chains with an R-hat below this and more effective draws than DRAWS_PER_CHAIN each
DISAGREE = 1.1
DRAWS_PER_CHAIN = 100
SPREAD = 1e-6  # relative to the size of a number; float32 resolves 1e-7


class Traces(dict[str, Array]):
    """Draws (chains, draws) by name, and the weights of the samples that they were computed from."""

    def __init__(self, draws: Mapping[str, Array], weights: ArrayLike | None = None) -> None:
        super().__init__(draws)
        self.weights = None if weights is None else np.asarray(weights, dtype=float)
        """Weights (chains, draws); None if all are equal."""


def rhat(draws: ArrayLike) -> Array:
    """Return the rank-normalised split R-hat."""
    return _each(draws, lambda chains, _: max(_rhat(_scores(_split(chains))), _rhat(_scores(_folded(_split(chains))))))


def ess(draws: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return the bulk effective sample size of draws with weights (chains, draws); None for equal ones."""
    return _each(draws, lambda chains, w: effective_draws(_scores(_split(chains)), _halves(w)), weights)


def ess_tail(draws: ArrayLike, probability: float = 0.05, weights: ArrayLike | None = None) -> Array:
    """Return the effective sample size in the tails: the smaller one of the two outer quantiles."""

    def tail(chains: Array, w: Array | None) -> float:
        outer = [probability, 1 - probability]
        levels = (
            np.quantile(chains, outer) if w is None else np.quantile(chains, outer, weights=w, method="inverted_cdf")
        )
        return min(effective_draws(_split((chains <= level).astype(float)), _halves(w)) for level in levels)

    return _each(draws, tail, weights)


def mcse(draws: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Return the Monte Carlo standard error of the mean, which is a weighted one if there are weights."""

    def error(chains: Array, w: Array | None) -> float:
        spread = float(series(chains, w).std(ddof=1))
        return spread / float(np.sqrt(draws_of_series(_split(chains), _halves(w))))

    return _each(draws, error, weights)


def traces(samples: "Iterable[Sample]", quantities: "Mapping[str, Callable[[Sample], float]] | None" = None) -> Traces:
    """Return draws (chains, draws) of numbers computed from samples, by default of sigma alone, and their weights.

    If chains have different lengths, the first draws of the longer ones are left out.
    """
    wanted = quantities or {"sigma": lambda sample: sample.sigma}
    rows: dict[int, list[list[float]]] = {}
    for sample in samples:
        numbers = [float(quantity(sample)) for quantity in wanted.values()]
        rows.setdefault(sample.chain, []).append([*numbers, sample.weight])
    length = min(map(len, rows.values()), default=0)
    if not length:
        raise ValueError("there are no samples to make traces of: run the sampler for longer than burn_in + thin steps")
    table = np.array([chain[-length:] for chain in rows.values()])
    return Traces({name: table[:, :, i] for i, name in enumerate(wanted)}, table[:, :, -1])


def verdict(traces: Draws) -> list[str]:
    """Summarise the diagnostics in plain words: one line for the result, then one for each kind of fault.

    The weights of `Traces` are used; those of a plain mapping are equal.
    """
    draws = {name: np.asarray(values, dtype=float) for name, values in traces.items()}
    if not draws:
        raise ValueError("a verdict needs at least one trace, such as {'sigma': array of (chains, draws)}")
    for name, values in draws.items():
        if values.ndim != 2 or values.shape[1] < 4:
            raise ValueError(f"the trace of {name} must have the shape (chains, draws >= 4), got {values.shape}")
    weights = traces.weights if isinstance(traces, Traces) else None
    faults = [fault for name, values in draws.items() for fault in _faults(name, values, weights)]
    chains = max(len(values) for values in draws.values())
    who = f"{chains} chains agree" if chains > 1 else "the chain agrees with itself"
    usable = [values for values in draws.values() if np.isfinite(values).all()]
    largest = max((float(rhat(values)) for values in usable), default=np.nan)
    fewest = min((float(ess(values, weights)) for values in usable), default=np.nan)
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


def _faults(name: str, draws: Array, weights: Array | None) -> Iterator[_Fault]:
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
    ratio, effective = float(rhat(draws)), float(ess(draws, weights))
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
            f"mean is known to {float(mcse(draws, weights)):.2g}; run longer"
        )
        yield _Fault("few draws", -effective, name, text)
    mean, spread = weighted_mean(draws, weights), weighted_deviation(draws, weights)
    if spread < SPREAD * np.abs(draws).max():
        text = (
            f"this posterior has almost no spread: {name} is {mean:.6g} +- {spread:.1g}; check tau and the step size, "
            "this may be optimisation"
        )
        yield _Fault("no spread", -spread, name, text)


def to_arviz(traces: Draws) -> "InferenceData":
    """Return the draws as ArviZ's InferenceData, for its plots and summaries."""
    arviz = require("to_arviz", "arviz", "arviz")
    draws = {name: np.asarray(values, dtype=float) for name, values in traces.items()}
    data: InferenceData = arviz.from_dict(posterior=draws)
    return data


def autocorrelation(draws: ArrayLike) -> Array:
    """Return the autocorrelation (chains, lags) of draws (chains, draws); nan for a chain without spread."""
    covariance = autocovariance(np.asarray(draws, dtype=float))
    spread = covariance[:, :1] > 0
    return np.divide(covariance, covariance[:, :1], out=np.full_like(covariance, np.nan), where=spread)


def _each(
    draws: ArrayLike, statistic: Callable[[Array, Array | None], float], weights: ArrayLike | None = None
) -> Array:
    """Apply a statistic of (chains, draws) and weights to each trailing index; nan where draws are not finite."""
    values = np.asarray(draws, dtype=float)
    if values.ndim < 2 or values.shape[1] < 4:
        raise ValueError(f"diagnostics need draws of shape (chains, draws >= 4, ...), got {values.shape}")
    known = as_weights(weights, values.shape[:2])
    columns = values.reshape(*values.shape[:2], -1)
    results = [
        statistic(np.ascontiguousarray(columns[:, :, i]), known) if np.isfinite(columns[:, :, i]).all() else np.nan
        for i in range(columns.shape[2])
    ]
    return np.asarray(results, dtype=float).reshape(values.shape[2:])


def _split(chains: Array) -> Array:
    """Return the first and second half of each chain as chains of their own."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _halves(weights: Array | None) -> Array | None:
    """Split the weights like the draws; their mean stays 1, though the middle one of an odd number is left out."""
    return None if weights is None else as_weights(_split(weights), (2 * len(weights), weights.shape[1] // 2))


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
