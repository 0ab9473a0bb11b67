"""The paper's claims about its regression tests, each with the number that decides it.

Every claim is judged twice, for the algorithms as printed and for the library's regressor. The claim about learning
curves is judged for the former only, because the regressor keeps no curves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from sparse_langevin.studies.regression import Records
from sparse_langevin.studies.regression_contenders import PAPER, Record
from sparse_langevin.studies.regression_data import EFFECTS
from sparse_langevin.studies.regression_table import mean_and_error, of, paired

Verdict = Literal["holds", "does not hold", "not decided"]
Found = dict[str, dict[int, Record]]
Measure = Callable[[Found], tuple[str, bool | None]]

UNDECIDED: Verdict = "not decided"
FEWEST = 5  # with fewer replicates nothing is decided
SIMILAR = 0.05  # errors are similar if their mean difference is at most this share of the error
OBVIOUS = 0.05  # a method is obviously better if its error is lower by this share, and by two standard errors
SAME_SPREAD = 1.25  # posterior deviations are similar if they agree within this factor
RIGHT_SPREAD = 1.5  # a posterior deviation is right if it is within this factor of the oracle's standard error
DIFFERENT_SCALE = 2.0  # deviations have different scales if they differ by this factor
NEAR = 0.1  # posterior means lie on the truth if they are within this share of it, on average
LEVEL, DOUBT = 0.95, 0.01  # coverage is too low if correct intervals would miss as often with probability < DOUBT
REACHED = 1.1  # a curve has converged once it is below this factor times the worse of the two final errors


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what was measured, and the verdict."""

    test: int
    quote: str
    version: str
    criterion: str
    measured: str
    verdict: Verdict


def verdicts(records: Records) -> list[Claim]:
    """All claims in the paper's order. Those with too few replicates are not decided."""
    claims = []
    for test, quote, criterion, measure in CLAIMS:
        for prefix, version in ((PAPER, "as printed"), ("", "library")):
            if measure is converges_faster and prefix != PAPER:
                continue
            found = {name: of(records, test, prefix + name) for name in ("psgld-sa", "sgld-sa", "psgld")}
            found["oracle"] = of(records, test, "oracle")
            fewest = min(map(len, found.values()))
            measured, verdict = f"{fewest} replicates, {FEWEST} are needed", UNDECIDED
            if fewest >= FEWEST:
                measured, verdict = _decide(measure, found)
            claims.append(Claim(test, quote, version, criterion, measured, verdict))
    return claims


def _decide(measure: Measure, found: Found) -> tuple[str, Verdict]:
    measured, true = measure(found)
    return measured, UNDECIDED if true is None else "holds" if true else "does not hold"


def means_lie_on_truth(found: Found) -> tuple[str, bool | None]:
    """Compare posterior means of both effects, averaged over replicates, with the truth."""
    texts, near = [], []
    for name in ("sgld-sa", "psgld-sa"):
        means = [mean_and_error(_values(found[name], i, "mean")) for i in _INDEX]
        texts.append(f"{name.upper()} " + ", ".join(f"{mean:.2f} ± {error:.2f}" for mean, error in means))
        for (mean, error), truth in zip(means, EFFECTS, strict=True):
            assert mean is not None and error is not None  # FEWEST replicates
            near.append(_within(mean - truth, NEAR * truth, error))
    verdict = False if False in near else None if None in near else True
    return f"mean posterior mean of beta_1, beta_2: {'; '.join(texts)}", verdict


def errors_are_similar(found: Found) -> tuple[str, bool | None]:
    """Compare the mean test errors of SGLD-SA and PSGLD-SA."""
    text, difference, level, error = _difference(found, "sgld-sa")
    return text, _within(difference, SIMILAR * level, error)


def spreads_are_similar(found: Found) -> tuple[str, bool | None]:
    """Compare the posterior deviations of SGLD-SA and PSGLD-SA."""
    ratios = _spread_ratios(found["sgld-sa"], found["psgld-sa"])
    true = all(1 / SAME_SPREAD <= ratio <= SAME_SPREAD for ratio in ratios)
    return f"median ratio of the deviations of beta_1, beta_2, SGLD-SA over PSGLD-SA: {_pair(ratios)}", true


def both_quantify(found: Found) -> tuple[str, bool | None]:
    """Judge the coverage and the width of the intervals of SGLD-SA and PSGLD-SA."""
    results = [_calibration(found, name) for name in ("sgld-sa", "psgld-sa")]
    return "; ".join(text for text, _ in results), all(right for _, right in results)


def vanilla_does_not(found: Found) -> tuple[str, bool | None]:
    """Judge the coverage and the width of the intervals of PSGLD."""
    text, right = _calibration(found, "psgld")
    return text, not right


def converges_faster(found: Found) -> tuple[str, bool | None]:
    """Compare the numbers of steps that PSGLD-SA and SGLD-SA take to converge."""
    texts, faster = [], []
    for error in ("mse", "mae"):
        counts = np.array(
            [_steps_to_reach(a, b, f"mean_{error}") for a, b in paired(found["psgld-sa"], found["sgld-sa"])]
        )
        wins, losses = int((counts[:, 0] < counts[:, 1]).sum()), int((counts[:, 0] > counts[:, 1]).sum())
        middle = np.median(counts, axis=0)
        texts.append(
            f"{error.upper()}: PSGLD-SA {middle[0]:.0f}, SGLD-SA {middle[1]:.0f}, first in {wins} against {losses}"
        )
        faster.append(bool(middle[0] < middle[1] and wins > losses))
    return "median steps, " + "; ".join(texts), all(faster)


def scales_differ(found: Found) -> tuple[str, bool | None]:
    """Compare the posterior deviations of beta_1 and beta_2 under PSGLD-SA."""
    first, second = (_values(found["psgld-sa"], i, "sd") for i in _INDEX)
    exact = np.median(_values(found["oracle"], 0, "sd") / _values(found["oracle"], 1, "sd"))
    ratio = float(np.median(first / second))
    text = f"median ratio of the deviations of beta_1 and beta_2, PSGLD-SA: {ratio:.2f} (oracle {exact:.2f})"
    return text, ratio >= DIFFERENT_SCALE


def beats_vanilla(found: Found) -> tuple[str, bool | None]:
    """Compare the mean test errors of PSGLD-SA and PSGLD."""
    return _beats(found, "psgld")


def beats_unpreconditioned(found: Found) -> tuple[str, bool | None]:
    """Compare the mean test errors of PSGLD-SA and SGLD-SA."""
    return _beats(found, "sgld-sa")


_INDEX = range(len(EFFECTS))
_CHANCE = "not decided if farther, but within two standard errors"
_WITHIN = f"each, on average over data sets, within {NEAR:.0%} of the truth; {_CHANCE}"
_ABOVE = f"PSGLD-SA has the lower MSE, by {OBVIOUS:.0%} and by two standard errors"
_RIGHT = (
    f"number of 95 % intervals that hold the truth not below what chance allows (p < {DOUBT}), and deviation within a "
    f"factor {RIGHT_SPREAD} of the oracle's standard error"
)
CLAIMS: list[tuple[int, str, str, Measure]] = [
    (1, "Figure (a): posterior mean against truth, for SGLD-SA and PSGLD-SA", _WITHIN, means_lie_on_truth),
    (
        1,
        "both SGLD-SA and PSGLD-SA work similarly well for this setting",
        f"mean test MSE equal within {SIMILAR:.0%}; {_CHANCE}",
        errors_are_similar,
    ),
    (
        1,
        "The variance in model parameters beta_1 and beta_2 are similar",
        f"deviations equal within a factor {SAME_SPREAD}",
        spreads_are_similar,
    ),
    (1, "they can be quantified correctly in both settings", _RIGHT, both_quantify),
    (
        1,
        "without stochastic approximation, vanilla PSGLD cannot capture the uncertainties properly",
        f"for PSGLD it is not so that: {_RIGHT}",
        vanilla_does_not,
    ),
    (
        1,
        "preconditioned methods converge a little bit faster according to the testing curves",
        f"PSGLD-SA sooner than SGLD-SA below {REACHED} times the worse of their final errors, both MSE and MAE of the "
        "running mean",
        converges_faster,
    ),
    (2, "Figure (a): posterior mean against truth, for SGLD-SA and PSGLD-SA", _WITHIN, means_lie_on_truth),
    (
        2,
        "the uncertainties in the posterior estimation of beta_1 and beta_2 will have different scales",
        f"deviations differ by a factor of {DIFFERENT_SCALE:g} or more",
        scales_differ,
    ),
    (2, "PSGLD-SA outperforms PSGLD obviously", _ABOVE, beats_vanilla),
    (2, "PSGLD-SA outperforms SGLD-SA obviously", _ABOVE, beats_unpreconditioned),
]


def _values(records: dict[int, Record], effect: int, name: str) -> np.ndarray:
    return np.array([record["effects"][effect][name] for record in records.values()])


def _within(difference: float, limit: float, error: float) -> bool | None:
    """Whether a difference is small; None if it is not, but could be chance."""
    if abs(difference) <= limit:
        return True
    return None if abs(difference) <= 2 * error else False


def _pair(values: Any) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _spread_ratios(first: dict[int, Record], second: dict[int, Record]) -> list[float]:
    pairs = paired(first, second)
    return [float(np.median([a["effects"][i]["sd"] / b["effects"][i]["sd"] for a, b in pairs])) for i in _INDEX]


def _calibration(found: Found, name: str) -> tuple[str, bool]:
    """Whether the intervals hold the truth often enough, and are neither far too wide nor far too narrow."""
    size = len(found[name])
    covered = [int(_values(found[name], i, "covers").sum()) for i in _INDEX]
    ratios = _spread_ratios(found[name], found["oracle"])
    enough = all(stats.binom.cdf(count, size, LEVEL) >= DOUBT for count in covered)
    right = all(1 / RIGHT_SPREAD <= ratio <= RIGHT_SPREAD for ratio in ratios)
    counts = " and ".join(map(str, covered))
    return (
        f"{name.upper()} covers beta_1, beta_2 in {counts} of {size}, deviation {_pair(ratios)} of the oracle's",
        enough and right,
    )


def _difference(found: Found, other: str) -> tuple[str, float, float, float]:
    """Compare the test MSE of PSGLD-SA and another method: text, difference, the other's MSE, standard error."""
    pairs = paired(found["psgld-sa"], found[other])
    difference, error = mean_and_error(a["mse"] - b["mse"] for a, b in pairs)
    first, level = (float(np.mean([pair[i]["mse"] for pair in pairs])) for i in (0, 1))
    assert difference is not None and error is not None  # FEWEST replicates
    text = (
        f"mean test MSE: PSGLD-SA {first:.3f}, {other.upper()} {level:.3f}, difference {difference:.3f} ± {error:.3f}"
    )
    return text, difference, level, error


def _beats(found: Found, other: str) -> tuple[str, bool | None]:
    text, difference, level, error = _difference(found, other)
    return text, difference < -2 * error and difference < -OBVIOUS * level


def _steps_to_reach(first: Record, second: Record, curve: str) -> tuple[float, float]:
    """The steps at which two curves first lie below a common threshold."""
    histories = first["history"], second["history"]
    threshold = REACHED * max(history[curve][-1] for history in histories)
    one, other = (history["step"][int(np.argmax(np.array(history[curve]) <= threshold))] for history in histories)
    return one, other
