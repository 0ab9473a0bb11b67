"""The contenders of the regression study, and the record of each fit."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import ARDRegression, LassoCV
from sklearn.preprocessing import StandardScaler

from sparse_langevin.linear.by_steps import GIBBS
from sparse_langevin.linear.regressor import SparseBayesRegressor
from sparse_langevin.sampling.methods import METHODS, method_named
from sparse_langevin.studies import regression_paper
from sparse_langevin.studies.emvs import emvs
from sparse_langevin.studies.regression_data import EFFECTS, Study

Array = NDArray[np.float64]
Record = dict[str, Any]

PFER = "gibbs-pfer"  # as many are chosen as can be expected to have one among them that has no effect
PAPER = "paper-"  # the prefix of the algorithms as printed
LABELS = (
    {GIBBS.name: "Gibbs, the library's default", PFER: "the same, selection='pfer'"}
    | {name: f"{name.upper()}, library" for name in reversed(METHODS)}
    | {PAPER + name: f"{name.upper()}, as printed" for name in reversed(METHODS)}
    | {"emvs": "EMVS", "lasso-cv": "LassoCV", "ard": "ARDRegression"}
    | {"pairs": "told that two predictors matter", "oracle": "oracle"}
)
DRAWS = 400  # about how many draws of each effect are kept for the figures
EFFECT = slice(0, len(EFFECTS))


@dataclass(frozen=True)
class Lengths:
    """Lengths of the chains. They are the same for all records in a folder."""

    burn_in: int = 2000
    """The number of burn-in steps of the library's regressor."""
    max_steps: int = 20_000
    """The largest number of the regressor's steps after burn-in."""
    paper_steps: int = 15_000
    """The number of steps of the algorithms as printed."""
    paper_burn_in: int = 5000
    """How many of these are burn-in."""


class Fit(NamedTuple):
    """A linear model in the units of the data, with what is known of its uncertainty."""

    coef: Array
    intercept: float
    inclusion: Array | None = None
    chosen: NDArray[np.bool_] | None = None
    interval: Array | None = None
    """(mean, deviation, lower, upper) of the effects, one column for each."""
    draws: Array | None = None
    rhat: float | None = None
    ess: float | None = None
    history: dict[str, list[float]] | None = None


def fit_record(name: str, study: Study, seed: int, lengths: Lengths) -> Record:
    """Fit one contender, and record its test errors, the predictors it chose and its intervals for the two effects."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the record says whether the chains have converged
        fit = _fit(name, study, seed, lengths)
    seconds = time.perf_counter() - start
    error = study.x_test @ fit.coef + fit.intercept - study.y_test
    real = study.beta != 0
    return {
        "mse": float(np.mean(error**2)),
        "mae": float(np.mean(np.abs(error))),
        "chosen_true": None if fit.chosen is None else int(fit.chosen[real].sum()),
        "chosen_false": None if fit.chosen is None else int(fit.chosen[~real].sum()),
        "inclusion": None if fit.inclusion is None else fit.inclusion[EFFECT].tolist(),
        "effects": None
        if fit.interval is None
        else [_effect(*row) for row in zip(EFFECTS, fit.interval.T, strict=True)],
        "seconds": seconds,
        "rhat": fit.rhat,
        "ess": fit.ess,
        "coef": np.round(fit.coef, 5).tolist(),
        "draws": None if fit.draws is None else np.round(fit.draws[:: max(1, len(fit.draws) // DRAWS)], 5).T.tolist(),
        "history": fit.history,
    }


def _fit(name: str, study: Study, seed: int, lengths: Lengths) -> Fit:
    others: dict[str, Callable[[Study], Fit]] = {
        "emvs": _emvs,
        "lasso-cv": _lasso,
        "ard": _ard,
        "pairs": _pairs,
        "oracle": _oracle,
    }
    if name in others:
        return others[name](study)
    if name.startswith(PAPER):
        return _paper(name.removeprefix(PAPER), study, seed, lengths)
    if name == PFER:
        return _library(GIBBS.name, study, seed, lengths, selection="pfer")
    return _library(name, study, seed, lengths)


def _library(method: str, study: Study, seed: int, lengths: Lengths, **options: Any) -> Fit:
    """Fit the library's regressor, with its defaults but for the lengths and ``options``."""
    model = SparseBayesRegressor(
        method=method, burn_in=lengths.burn_in, max_steps=lengths.max_steps, n_jobs=1, random_state=seed, **options
    ).fit(study.x, study.y)
    selects = method_named(method, also=[GIBBS]).selects
    bounds = np.stack([model.coef_, model.coef_std_, *model.coef_interval()])
    return Fit(
        model.coef_,
        model.intercept_,
        inclusion=model.inclusion_probability_ if selects else None,
        chosen=model.get_support() if selects else None,
        interval=bounds[:, EFFECT],
        draws=model.coef_samples_[:, EFFECT],
        rhat=model.rhat_,
        ess=float(model.ess_),
    )


def _paper(method: str, study: Study, seed: int, lengths: Lengths) -> Fit:
    """Run a general sampler with the paper's settings."""
    chain = regression_paper.run(method, study, lengths.paper_steps, lengths.paper_burn_in, seed)
    draws, weights = chain.draws[:, EFFECT], chain.weights
    coef: Array = np.average(chain.draws, axis=0, weights=weights)
    spread = np.sqrt(np.average((draws - coef[EFFECT]) ** 2, axis=0, weights=weights))
    low, high = (
        [np.quantile(column, level, weights=weights, method="inverted_cdf") for column in draws.T]
        for level in (0.025, 0.975)
    )
    rhat, ess = chain.diagnose(study)
    return Fit(
        coef,
        0.0,
        inclusion=chain.inclusion,
        chosen=None if chain.inclusion is None else chain.inclusion > 0.5,
        interval=np.stack([coef[EFFECT], spread, low, high]),
        draws=draws,
        rhat=rhat,
        ess=ess,
        history=chain.history(study),
    )


def _emvs(study: Study) -> Fit:
    """Run EM on standardised data."""
    scaler, z = _standardised(study)
    centre, spread = study.y.mean(), study.y.std()
    mode = emvs(z, (study.y - centre) / spread)
    coef = mode.beta * spread / scaler.scale_
    return Fit(coef, float(centre - scaler.mean_ @ coef), inclusion=mode.rho, chosen=mode.rho > 0.5)


def _lasso(study: Study) -> Fit:
    """Fit the lasso on standardised predictors; its penalty comes from five-fold cross-validation."""
    scaler, z = _standardised(study)
    model = LassoCV(cv=5, max_iter=10_000).fit(z, study.y)
    coef = model.coef_ / scaler.scale_
    return Fit(coef, float(model.intercept_ - scaler.mean_ @ coef), chosen=coef != 0)


def _ard(study: Study) -> Fit:
    """Fit by automatic relevance determination; the coefficient of a pruned predictor is exactly zero."""
    scaler, z = _standardised(study)
    model = ARDRegression().fit(z, study.y)
    coef = model.coef_ / scaler.scale_
    kept = model.lambda_ < model.threshold_lambda
    deviation = np.zeros(len(coef))
    deviation[kept] = np.sqrt(np.diag(model.sigma_)) / scaler.scale_[kept]
    bounds = np.stack([coef, deviation, coef - 1.96 * deviation, coef + 1.96 * deviation])
    return Fit(coef, float(model.intercept_ - scaler.mean_ @ coef), chosen=kept, interval=bounds[:, EFFECT])


def _pairs(study: Study) -> Fit:
    """Average over all models of two predictors, with their evidence; choose the three most probable predictors.

    It knows how many effects there are, but not which, and that one false choice does not count. Under wide priors of
    the coefficients, their evidence is (det X'X)^-1/2 RSS^-(n - 1)/2.
    """
    scaler, z = _standardised(study)
    y = study.y - study.y.mean()
    gram, product = z.T @ z, z.T @ y
    i, j = np.triu_indices(len(product), 1)
    determinant = gram[i, i] * gram[j, j] - gram[i, j] ** 2
    first = (gram[j, j] * product[i] - gram[i, j] * product[j]) / determinant
    second = (gram[i, i] * product[j] - gram[i, j] * product[i]) / determinant
    rest = y @ y - first * product[i] - second * product[j]
    evidence = -0.5 * (np.log(determinant) + (len(y) - 1) * np.log(rest))
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    coef, inclusion = np.zeros(len(product)), np.zeros(len(product))
    for places, values in ((i, first), (j, second)):
        np.add.at(coef, places, weight * values)
        np.add.at(inclusion, places, weight)
    coef /= scaler.scale_
    chosen = np.zeros(len(coef), bool)
    chosen[np.argsort(-inclusion)[: len(EFFECTS) + 1]] = True
    return Fit(coef, float(study.y.mean() - scaler.mean_ @ coef), inclusion=inclusion, chosen=chosen)


def _oracle(study: Study) -> Fit:
    """Fit an intercept and the predictors that matter by least squares, as if they were known."""
    real = np.flatnonzero(study.beta)
    design = np.column_stack([np.ones(len(study.y)), study.x[:, real]])
    inverse = np.linalg.inv(design.T @ design)
    solution = inverse @ design.T @ study.y
    freedom = len(study.y) - len(solution)
    variance = float(np.sum((study.y - design @ solution) ** 2)) / freedom
    error = np.sqrt(variance * np.diag(inverse))
    width = stats.t.ppf(0.975, freedom) * error
    bounds = np.stack([solution, error, solution - width, solution + width])[:, 1:]
    coef = np.zeros(len(study.beta))
    coef[real] = solution[1:]
    return Fit(coef, float(solution[0]), chosen=study.beta != 0, interval=bounds)


def _standardised(study: Study) -> tuple[StandardScaler, Array]:
    scaler = StandardScaler().fit(study.x)
    return scaler, scaler.transform(study.x)


def _effect(truth: float, bounds: Array) -> Record:
    mean, deviation, low, high = (float(value) for value in bounds)
    return {"mean": mean, "sd": deviation, "low": low, "high": high, "covers": low <= truth <= high}
