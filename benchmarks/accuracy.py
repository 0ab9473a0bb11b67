"""Test error of default fits beside the lasso and ridge regression, from one effect to effects of all predictors.

``python -m benchmarks.accuracy [--replicates 10]`` goes on where it stopped (results/accuracy.jsonl). For each family
of data sets it prints the mean squared error on 1000 new observations, in units of the variance of these, and the mean
difference to the better peer with its standard error. The peers have standardised predictors, and choose their penalty
by cross-validation: LassoCV with its defaults, RidgeCV among 60 penalties.
"""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import resumable
from benchmarks.simulations import FAMILIES, family
from sparse_langevin import SparseBayesRegressor

OURS, PEERS = "ours", ("LassoCV", "RidgeCV")
PENALTIES = np.logspace(-4, 6, 60)


def fit(index: int, seed: int) -> dict[str, Any]:
    """One data set: relative errors and seconds of all."""
    x, y = family(index, seed)
    n = FAMILIES[index].n
    models = {
        OURS: SparseBayesRegressor(random_state=seed),
        "LassoCV": make_pipeline(StandardScaler(), LassoCV(random_state=seed)),
        "RidgeCV": make_pipeline(StandardScaler(), RidgeCV(PENALTIES)),
    }
    errors, seconds = {}, {}
    for name, model in models.items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about convergence: the error is the question here
            model.fit(x[:n], y[:n])
        seconds[name] = round(time.perf_counter() - begin, 2)
        errors[name] = float(np.mean((y[n:] - model.predict(x[n:])) ** 2) / y[n:].var())
    return {"errors": errors, "seconds": seconds}


def table(records: list[dict[str, Any]]) -> list[str]:
    """Return the lines about all families of which records are there."""
    lines = [f"| data | data sets | {OURS} | {' | '.join(PEERS)} | more than the better one | seconds |"]
    lines.append("|---|---|---|---|---|---|---|")
    worse = []
    for index, spec in enumerate(FAMILIES):
        some = [record for record in records if record["index"] == index]
        if not some:
            continue
        errors = {name: np.array([record["errors"][name] for record in some]) for name in (OURS, *PEERS)}
        better = min(PEERS, key=lambda name: errors[name].mean())
        difference = errors[OURS] - errors[better]
        error = difference.std(ddof=1) / np.sqrt(len(some)) if len(some) > 1 else np.nan
        if difference.mean() > error:
            worse.append(str(spec))
        values = " | ".join(f"{values.mean():.3f}" for values in errors.values())
        seconds = np.median([record["seconds"][OURS] for record in some])
        lines.append(f"| {spec} | {len(some)} | {values} | {difference.mean():+.3f} ± {error:.3f} | {seconds:.1f} |")
    return [
        *lines,
        "",
        f"Worse by more than one standard error, of families with two data sets: {'; '.join(worse) or 'none'}.",
    ]


def main() -> None:
    arguments = resumable.options(__doc__, "accuracy", 10).parse_args()
    todo = [(index, seed) for seed in range(arguments.replicates) for index in range(len(FAMILIES))]
    records = resumable.gather(fit, todo, ("index", "seed"), arguments.records, arguments.workers)
    print("\n".join(table(records)))


if __name__ == "__main__":
    main()
