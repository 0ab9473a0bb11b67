"""Are inclusion probabilities right? Data sets with a Poisson number of effects, fitted with default settings.

``python -m benchmarks.calibration [--replicates 200]`` simulates data sets of 100 observations and 200 predictors with
correlation 0.6 of neighbours, noise of variance 1 and effects that are N(0, 1), their number Poisson with mean 1, 5 and
30. It goes on where it stopped (results/calibration.jsonl), and prints tables: stated probabilities beside the
share of predictors that have an effect, and how often 90 % intervals of chosen predictors hold the truth.
"""

import warnings
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import resumable
from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear.simulated import autoregressive

MEANS = (1, 5, 30)
EDGES = np.array([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0 + 1e-9])
LEAST = 30  # entries of a bin that is judged


def fit(mean: int, replicate: int) -> dict[str, Any]:
    """One data set: probabilities, which predictors have an effect, and whether intervals hold the truth."""
    rng = np.random.default_rng([mean, replicate])
    effects = min(int(rng.poisson(mean)), 100)
    data = autoregressive(n=100, p=200, rho=0.6, effects=effects, sizes="normal", size=1.0, seed=[mean, replicate])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SparseBayesRegressor(random_state=replicate).fit(data.x, data.y)
    lower, upper = model.coef_interval(0.9)
    chosen = model.get_support(indices=True)
    holds = (lower <= data.beta) & (data.beta <= upper)
    return {
        "inclusion": np.round(model.inclusion_probability_, 4).tolist(),
        "effects": np.flatnonzero(data.beta).tolist(),
        "chosen": chosen.tolist(),
        "held": int(holds[chosen].sum()),
        "warned": any("settled" in str(warning.message) for warning in caught),
    }


def table(records: list[dict[str, Any]]) -> list[str]:
    """Return the lines about one mean number of effects."""
    inclusion = np.array([record["inclusion"] for record in records])
    real = np.zeros(inclusion.shape, bool)
    for row, record in zip(real, records, strict=True):
        row[record["effects"]] = True
    lines = ["| stated | predictors | mean stated | have an effect |", "|---|---|---|---|"]
    for low, high in pairwise(EDGES):
        inside = (inclusion >= low) & (inclusion < high)
        if inside.sum() >= LEAST:
            share = f"{inclusion[inside].mean():.3f} | {real[inside].mean():.3f}"
            lines.append(f"| {low:g} to {min(high, 1):g} | {inside.sum():,} | {share} |")
    chosen = np.zeros(inclusion.shape, bool)
    for row, record in zip(chosen, records, strict=True):
        row[record["chosen"]] = True
    held = sum(record["held"] for record in records)
    return [
        *lines,
        "",
        f"{real.sum() / len(records):.2f} effects per data set, {inclusion.sum() / len(records):.2f} stated. "
        f"By default {selected(chosen, inclusion, real)}; with probabilities above 1/2 "
        f"{selected(inclusion > 0.5, inclusion, real)}. "
        f"90 % intervals of the predictors chosen by default hold the truth in {held / max(chosen.sum(), 1):.1%}. "
        f"{sum(record['warned'] for record in records)} of {len(records)} fits warned.",
    ]


def selected(chosen: np.ndarray, inclusion: np.ndarray, real: np.ndarray) -> str:
    """Say how many predictors are chosen, and how many of them falsely, beside what the probabilities say of that."""
    stated, spread = (1 - inclusion[chosen]).sum(), np.sqrt((inclusion * (1 - inclusion))[chosen].sum())
    return f"{chosen.sum()} chosen, {(chosen & ~real).sum()} falsely, {stated:.1f} ± {spread:.1f} stated"


def main() -> None:
    arguments = resumable.options(__doc__, "calibration", 200).parse_args()
    todo = [(mean, i) for mean in MEANS for i in range(arguments.replicates)]
    records = resumable.gather(fit, todo, ("mean", "replicate"), arguments.records, arguments.workers)
    for mean in MEANS:
        some = [record for record in records if record["mean"] == mean]
        if some:
            print(f"\n**{mean} effect{'s' * (mean > 1)} on average**, {len(some)} data sets:\n")
            print("\n".join(table(some)))


if __name__ == "__main__":
    main()
