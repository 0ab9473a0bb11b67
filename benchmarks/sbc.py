r"""Simulation-based calibration of the default prior of linear regression (Talts and others, 2018).

    (number of effects, g) from the prior's table,   h, sigma from theirs,   beta_j ~ N(0, sigma^2 g) for the effects,
    b_j ~ N(0, sigma^2 h/p) for all,   y = X (beta + b) + N(0, sigma^2)

The posterior is then sampled with the default budget of the regressor, but without standardising the response, which
would make the prior depend on the data. If all is right, the rank of a true value among ``DRAWS`` posterior draws is
uniform; equal values, such as coefficients that are zero, are put in random order. What is looked at: sigma, log g, h,
the number of effects, the coefficient of a fixed predictor and of the most probable one (which is chosen by the data,
so that ranks stay uniform), the sum of squares of all coefficients in units of sigma, and a prediction.

``python -m benchmarks.sbc [--replicates 200]`` goes on where it stopped (results/sbc.jsonl), prints a table with p
values of a chi-square test of uniformity, and the coverage of 90 % intervals, and draws the histograms
(results/sbc.png). Intervals of true effects have to cover, given that these are effects (``included=True``), and those
of predictors that were chosen by their probability; the other intervals of effects that are too small to be seen are
zero.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from scipy import special, stats

from benchmarks import resumable
from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import normal, polygenic
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.polygenic import Background
from sparse_langevin.linear.samples import dense, quantiles, quantiles_in_models
from sparse_langevin.linear.settling import settle
from sparse_langevin.linear.simulated import autoregressive

matplotlib.use("Agg")
ROWS, PREDICTORS, CORRELATION = 60, 100, 0.6
DRAWS = 99  # of the posterior, beside which a true value has one of 100 ranks
BINS = 20
LEVEL = 0.9
VISIBLE = 4.0  # standard errors of an effect that can be seen


class Truth(NamedTuple):
    """Everything that was drawn from the prior."""

    effects: np.ndarray
    """Whether each predictor has an effect."""
    coefficients: np.ndarray
    """Effects and small effects together."""
    sigma: float
    g: float
    h: int


def problem_of(x: np.ndarray) -> normal.Problem:
    """Return the default posterior of responses that are still zero, for predictors without a mean."""
    n, p = x.shape
    design = Design(x, np.zeros(p), np.ones(p), None)
    nothing = np.zeros(n)
    return normal.Problem(design, nothing, 0.0, float(n), background=Background.of(design, nothing, n), fitted_means=0)


def predictors(n: int, p: int, seed: Any) -> np.ndarray:
    """Return correlated predictors, standardised."""
    x = autoregressive(n=n, p=p, rho=CORRELATION, effects=0, seed=seed).x
    return np.asfortranarray((x - x.mean(0)) / x.std(0))


def draw(problem: normal.Problem, rng: np.random.Generator) -> tuple[normal.Problem, Truth]:
    """Draw all parameters from the prior, and responses given these."""
    p, n = problem.design.size, len(problem.y)
    size = np.arange(problem.prior.shape[1])
    models = special.gammaln(p + 1) - special.gammaln(size + 1) - special.gammaln(p - size + 1)
    joint = np.exp(problem.prior + models - (problem.prior + models).max())
    where = int(rng.choice(joint.size, p=(joint / joint.sum()).ravel()))
    of_g, k = divmod(where, len(size))
    share = np.exp(polygenic.log_prior(n, p))
    h = int(rng.choice(len(share), p=share / share.sum()))
    sigma = float(np.sqrt(0.5 * problem.nu * problem.lambda_ / rng.standard_gamma(0.5 * problem.nu)))
    effects = np.zeros(p, dtype=bool)
    effects[rng.choice(p, k, replace=False)] = True
    g = float(problem.grid[of_g])
    beta = np.where(effects, sigma * np.sqrt(g) * rng.standard_normal(p), 0.0)
    beta += sigma * np.sqrt(polygenic.VALUES[h] / p) * rng.standard_normal(p)
    y = problem.design.combine(beta) + sigma * rng.standard_normal(n)
    return replace(problem, y=y, background=Background.of(problem.design, y, n)), Truth(effects, beta, sigma, g, h)


def ranks(
    truth: Truth,
    coefficients: tuple[Any, np.ndarray],
    draws: Any,
    inclusion: np.ndarray,
    row: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, int]:
    """Return the ranks of true values among draws: of coefficients, with their sigma, and of what was drawn beside."""
    likely, samples, sigma = int(inclusion.argmax()), dense(coefficients[0]), coefficients[1]
    size = np.diff(draws.effects.indptr)
    pairs = {
        "sigma": (truth.sigma, draws.beside["sigma"]),
        "log g": (np.log(truth.g), np.log(draws.beside["g"])),
        "h": (truth.h, draws.beside["h"]),
        "number of effects": (truth.effects.sum(), size),
        "first coefficient": (truth.coefficients[0], samples[:, 0]),
        "most probable coefficient": (truth.coefficients[likely], samples[:, likely]),
        "all coefficients": ((truth.coefficients**2).sum() / truth.sigma**2, (samples**2).sum(1) / sigma**2),
        "prediction": (row @ truth.coefficients, samples @ row),
    }
    return {name: rank(value, np.asarray(found), rng) for name, (value, found) in pairs.items()}


def rank(value: float, draws: np.ndarray, rng: np.random.Generator) -> int:
    """Return the rank of a value among ``DRAWS`` of the draws, evenly spaced; equal ones are in random order."""
    some = draws[np.linspace(0, len(draws) - 1, DRAWS).astype(int)]
    close = np.isclose(some, value, rtol=1e-12, atol=0.0)
    return int((some[~close] < value).sum() + rng.integers(close.sum() + 1))


def fit(replicate: int) -> dict[str, Any]:
    """One replicate: ranks, and which intervals hold the truth."""
    rng = np.random.default_rng([7, replicate])
    x = predictors(ROWS + 1, PREDICTORS, [8, replicate])
    x, row = x[:-1], x[-1]
    x = np.asfortranarray((x - x.mean(0)) / x.std(0))
    problem, truth = draw(problem_of(x), rng)
    regressor = SparseBayesRegressor()
    regressions = [normal.NormalRegression(problem) for _ in range(regressor.n_chains)]
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        posterior = settle(problem, regressions, regressor._plan(), np.arange(0, ROWS, 5), rng, 1)
    return described(problem, posterior, truth, row, rng) | {"settled": not posterior.unsettled(regressor._plan())}


def described(
    problem: normal.Problem, posterior: Any, truth: Truth, row: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Return the record of a posterior and the truth."""
    draws, inclusion = posterior.draws, posterior.inclusion
    coefficients = problem.coefficients(posterior.chains, rng)
    lower, upper = quantiles(coefficients[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    held = (lower <= truth.coefficients) & (truth.coefficients <= upper)
    lower, upper = quantiles_in_models(coefficients[0], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    held_if_included = (lower <= truth.coefficients) & (truth.coefficients <= upper)
    visible = truth.effects & (np.abs(truth.coefficients) > VISIBLE * truth.sigma / np.sqrt(len(problem.y)))
    groups = {"true effects": truth.effects, "visible effects": visible, "chosen": inclusion > 0.5}
    return {
        "ranks": ranks(truth, coefficients, draws, inclusion, row, rng),
        "held": {name: [int(held[some].sum()), int(some.sum())] for name, some in groups.items()}
        | {"true effects, included=True": [int(held_if_included[truth.effects].sum()), int(truth.effects.sum())]},
        "stated": [round(float(inclusion.sum()), 3), int(truth.effects.sum())],
    }


def uniformity(values: list[int], bins: int = BINS) -> float:
    """Return the p value of a chi-square test of ranks."""
    counts = np.bincount(np.array(values) * bins // (DRAWS + 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


def table(records: list[dict[str, Any]]) -> list[str]:
    """Return the lines about all replicates."""
    lines = ["| ranks of | p value of uniformity | mean rank, 49.5 ± |", "|---|---|---|"]
    error = np.sqrt(((DRAWS + 1) ** 2 - 1) / 12 / len(records))
    for name in records[0]["ranks"]:
        values = [record["ranks"][name] for record in records]
        lines.append(f"| {name} | {uniformity(values):.3f} | {np.mean(values):.1f} ± {error:.1f} |")
    lines += ["", f"| {LEVEL:.0%} intervals of | hold the truth | of |", "|---|---|---|"]
    for name in records[0]["held"]:
        held, of = np.sum([record["held"][name] for record in records], 0)
        lines.append(f"| {name} | {held / max(of, 1):.1%} | {of:,} |")
    stated, real = np.mean([record["stated"] for record in records], 0)
    settled = sum(record["settled"] for record in records)
    lines += ["", f"{len(records)} data sets, {settled} settled. {stated:.2f} effects stated, {real:.2f} there."]
    return lines


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """Draw a histogram of each rank, with the band in which 95 % of the bars are if ranks are uniform."""
    from matplotlib import pyplot as plt

    names = list(records[0]["ranks"])
    fig, axes = plt.subplots(2, -(-len(names) // 2), figsize=(12, 5), layout="constrained", sharey=True)
    low, high = stats.binom.ppf([0.025, 0.975], len(records), 1 / BINS)
    for axis, name in zip(axes.flat, names, strict=False):
        axis.hist([record["ranks"][name] for record in records], bins=BINS, range=(0, DRAWS + 1))
        axis.axhspan(low, high, color="k", alpha=0.15)
        axis.set(title=name, xlabel="rank")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main() -> None:
    arguments = resumable.options(__doc__, "sbc", 200).parse_args()
    todo = [(i,) for i in range(arguments.replicates)]
    records = resumable.gather(fit, todo, ("replicate",), arguments.records, arguments.workers)
    if records:
        print("\n".join(table(records)))
        figure(records, arguments.records.with_suffix(".png"))


if __name__ == "__main__":
    main()
