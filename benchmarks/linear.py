"""The scikit-learn estimators: seconds of a fit, the race to an effective sample size, and cost against n and p.

``python -m benchmarks.linear`` prints the seconds of default fits alone, on one core.
"""

import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks import race
from benchmarks.interleaved import Record, measure, record
from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import gaussian, moments
from sparse_langevin.linear.runner import MIN_THIN

matplotlib.use("Agg")
ROWS, COLUMNS = 100, 50  # n while p varies, and p while n varies
STEPS = 50  # steps of each timing while p varies


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Everything about linear models, and the figure of the cost against their size."""
    predictors = (20, 50) if quick else (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    observations = (50, 200) if quick else (100, 1000, 10_000, 100_000, 1_000_000)
    rows = [
        fit(ROWS, p, repeats)
        for p, repeats in ([(20, 1)] if quick else [(200, 5), (5000, 3), (20_000, 1), (100_000, 1)])
    ]
    by_n = [fit(n, COLUMNS, 1 if quick else 3) for n in observations]
    by_p = [per_step(p, 3) for p in predictors]
    figure(dict(zip(predictors, by_p, strict=True)), dict(zip(observations, by_n, strict=True)), figures)
    rate = chain_rate(20 if quick else 200, 3 if quick else 20)
    return [*rows, *by_n, *by_p, rate, *race.records(quick)]


def simulated(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Two effects as in the paper, here with independent predictors, which any p can have."""
    rng = np.random.default_rng([n, p])
    x = rng.standard_normal((n, p))
    return x, 3 * x[:, 0] + x[:, 1] + np.sqrt(3.0) * rng.standard_normal(n)


def fit(n: int, p: int, repeats: int, jobs: int = -1) -> Record:
    """Seconds of a whole fit with default settings, by default on all cores."""
    x, y = simulated(n, p)
    SparseBayesRegressor(burn_in=100, max_steps=100, target_ess=1.0, target_rhat=9.0).fit(x[:100], y[:100])  # compiles
    seconds = []
    for seed in range(repeats):
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # how long it takes is the question here
            SparseBayesRegressor(n_jobs=jobs, random_state=seed).fit(x, y)
        seconds.append(time.perf_counter() - begin)
    return record(f"default fit: n={n:,}, p={p:,}", seconds, unit="s")


def chain(p: int) -> tuple[gaussian.Data, gaussian.Hyper, gaussian.State]:
    """A chain of the regressor after a short burn-in."""
    data, scale = moments.observed(*simulated(ROWS, p)).standardised()
    hyper = SparseBayesRegressor()._hyper(p, 0.1 / np.sqrt(scale.size), 0.75)
    state = gaussian.initial_state(data, hyper, np.random.default_rng(0))
    gaussian.advance(data, hyper, state, STEPS, MIN_THIN, STEPS, 0)
    return data, hyper, state


def per_step(p: int, repeats: int) -> Record:
    """Milliseconds per step of one chain on one core."""
    with threadpool_limits(1):
        arguments = chain(p)
        seconds = measure({"ours": lambda: gaussian.advance(*arguments, STEPS, MIN_THIN, 0, 1)}, repeats)["ours"]
    return record(f"one step of a chain: n={ROWS}, p={p:,}", [s / STEPS for s in seconds])


def chain_rate(p: int, repeats: int) -> Record:
    """Steps per second of one chain on one core."""
    with threadpool_limits(1):
        arguments = chain(p)
        seconds = measure({"ours": lambda: gaussian.advance(*arguments, 1000, MIN_THIN, 0, 1)}, repeats)["ours"]
    return record(f"rate of a chain: n={ROWS}, p={p:,}", [1000 / s for s in seconds], unit="steps/s")


def figure(by_p: dict[int, Record], by_n: dict[int, Record], figures: Path) -> None:
    """Cost against predictors and against observations, each with a line of slope 1."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    panels = (
        (axes[0], by_p, "predictors p", "milliseconds per step", f"One step, n = {ROWS}"),
        (axes[1], by_n, "observations n", "seconds", f"Whole fit, p = {COLUMNS}"),
    )
    for axis, cost, x_label, y_label, title in panels:
        sizes = np.array(list(cost), dtype=float)
        values = np.array([float(str(row["value"])) for row in cost.values()])
        axis.loglog(sizes, values, "o-")
        axis.loglog(sizes, values[-1] * sizes / sizes[-1], "k:", label="slope 1")
        axis.set(xlabel=x_label, ylabel=y_label, title=title, ylim=(0.3 * values.min(), 3 * values.max()))
        axis.grid(True, which="both", alpha=0.3)
        axis.legend(loc="upper left")
    fig.savefig(figures / "bench-linear.png", dpi=120)
    plt.close(fig)


if __name__ == "__main__":
    with threadpool_limits(1):
        for size in (200, 1000, 5000, 20_000, 100_000):
            print(fit(ROWS, size, 3, jobs=1), flush=True)
