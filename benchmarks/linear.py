"""The scikit-learn estimators: seconds of a fit, cost against n and p, memory, and races to an effective sample size.

``python -m benchmarks.linear`` prints the seconds of default fits alone, on one core.
"""

import time
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import langevin_race, memory, race
from benchmarks.interleaved import Record, measure, record
from sparse_langevin import SparseBayesClassifier, SparseBayesRegressor
from sparse_langevin.linear import gaussian, moments
from sparse_langevin.linear.runner import MIN_THIN

matplotlib.use("Agg")
ROWS, COLUMNS = 100, 50  # n while p varies, and p while n varies
SIZES = {200: 5, 1000: 3, 5000: 3, 20_000: 3, 100_000: 1}  # predictors, and how often they are fitted
CLASSES = 6000  # predictors of the classifier
STEPS = 1000  # of a Langevin chain


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Everything about linear models, and the figure of the cost against their size."""
    sizes = {20: 1, 50: 1} if quick else SIZES
    observations = (50, 200) if quick else (100, 1000, 10_000, 100_000, 1_000_000)
    by_p = {p: fit(ROWS, p, repeats) for p, repeats in sizes.items()}
    by_n = {n: fit(n, COLUMNS, 1 if quick else 3) for n in observations}
    figure(by_p, by_n, figures)
    classes = fit_classes(ROWS, 40 if quick else CLASSES, 1 if quick else 3)
    rate = chain_rate(20 if quick else 200, 3 if quick else 20)
    races = [*race.records(quick), *langevin_race.records(quick)]
    return [*by_p.values(), *by_n.values(), classes, *memory.records(quick), *races, rate]


def simulated(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Two effects as in the paper, here with independent predictors, which any p can have."""
    rng = np.random.default_rng([n, p])
    x = rng.standard_normal((n, p))
    return x, 3 * x[:, 0] + x[:, 1] + np.sqrt(3.0) * rng.standard_normal(n)


def fit(n: int, p: int, repeats: int, jobs: int = -1) -> Record:
    """Seconds of a whole fit with default settings, by default on all cores."""
    seconds = [timed(SparseBayesRegressor(n_jobs=jobs, random_state=seed), *simulated(n, p)) for seed in range(repeats)]
    return record(f"default fit: n={n:,}, p={p:,}", seconds, unit="s")


def fit_classes(n: int, p: int, repeats: int, jobs: int = -1) -> Record:
    """Seconds of a whole fit of two classes, the larger half of the responses and the smaller one."""
    x, y = simulated(n, p)
    high = y > np.median(y)
    seconds = [timed(SparseBayesClassifier(n_jobs=jobs, random_state=seed), x, high) for seed in range(repeats)]
    return record(f"default fit of two classes: n={n:,}, p={p:,}", seconds, unit="s")


def timed(model: SparseBayesRegressor | SparseBayesClassifier, x: np.ndarray, y: np.ndarray) -> float:
    """Return the seconds of a fit, of whose code everything has been compiled."""
    short = type(model)(burn_in=100, max_steps=100, target_ess=1.0, target_rhat=9.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how long it takes is the question here
        few = x[:100, : min(1000, x.shape[1])]  # beyond 768 predictors not all are in view, which is other code
        short.fit(few, y[:100])
        begin = time.perf_counter()
        model.fit(x, y)
    return time.perf_counter() - begin


def chain_rate(p: int, repeats: int) -> Record:
    """Steps per second of one Langevin chain on one core."""
    data, scale = moments.observed(*simulated(ROWS, p)).standardised()
    hyper = SparseBayesRegressor()._hyper(p, 0.1 / np.sqrt(scale.size), 0.75)
    state = gaussian.initial_state(data, hyper, np.random.default_rng(0))
    with threadpool_limits(1):
        gaussian.advance(data, hyper, state, 50, MIN_THIN, 50, 0)
        run = {"ours": lambda: gaussian.advance(data, hyper, state, STEPS, MIN_THIN, 0, 1)}
        seconds = measure(run, repeats)["ours"]
    return record(f"rate of a Langevin chain: n={ROWS}, p={p:,}", [STEPS / s for s in seconds], unit="steps/s")


def figure(by_p: dict[int, Record], by_n: dict[int, Record], figures: Path) -> None:
    """Seconds against predictors and against observations, each with a line of slope 1."""
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    panels = (
        (axes[0], by_p, "predictors p", f"Default fit, n = {ROWS}"),
        (axes[1], by_n, "observations n", f"Default fit, p = {COLUMNS}"),
    )
    for axis, cost, x_label, title in panels:
        sizes = np.array(list(cost), dtype=float)
        values = np.array([float(str(row["value"])) for row in cost.values()])
        axis.loglog(sizes, values, "o-")
        axis.loglog(sizes, values[-1] * sizes / sizes[-1], "k:", label="slope 1")
        axis.set(xlabel=x_label, ylabel="seconds", title=title, ylim=(0.3 * values.min(), 3 * values.max()))
        axis.grid(True, which="both", alpha=0.3)
        axis.legend(loc="upper left")
    fig.savefig(figures / "bench-linear.png", dpi=120)
    plt.close(fig)


def main() -> None:
    with threadpool_limits(1):
        for size, repeats in SIZES.items():
            print(fit(ROWS, size, repeats, jobs=1), flush=True)
        print(fit_classes(ROWS, CLASSES, 3, jobs=1), flush=True)
    print(*memory.records())


if __name__ == "__main__":
    main()
