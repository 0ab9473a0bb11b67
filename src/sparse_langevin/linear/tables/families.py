"""What differs between targets: the estimator, what an effect is, and how good predictions are.

To add a family, write one class with the methods of `Family` and enter it into `FAMILIES`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import xlogy

from sparse_langevin.linear.classifier import SparseBayesClassifier
from sparse_langevin.linear.counts import SparseBayesCountRegressor
from sparse_langevin.linear.regressor import SparseBayesRegressor
from sparse_langevin.linear.samples import Samples
from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.findings import listed, option, with_unit
from sparse_langevin.linear.tables.table import CLASSES, Target

GRADES = 7  # different whole numbers at most that look like grades or codes
SHORT: dict[str, Any] = {
    "n_chains": 2,
    "burn_in": 500,
    "max_steps": 2000,
    "target_ess": 100.0,
}  # for predictions: means settle soon


@dataclass(frozen=True)
class Score:
    """How good predictions of rows are that were left out of the fit."""

    name: str
    value: float
    error: float
    """Its standard error."""
    baseline: float
    """What is reached without any column."""


class Family(Protocol):
    """A kind of target."""

    def response(self, target: Target) -> NDArray[Any]:
        """Return what an estimator is fitted to."""

    def coded(self, y: NDArray[Any]) -> Values:
        """Return the target as columns of numbers, (rows, any number)."""

    def estimator(self, options: dict[str, Any], *, short: bool = False) -> Any:
        """Return the estimator; a short one is for predictions alone."""

    def effects(self, model: Any, most: int) -> tuple[list[str], list[Samples]]:
        """Return for what the effects speak, a class or nothing, and at most so many draws for each."""

    def predict(self, model: Any, x: Values) -> Values:
        """Return predictions: one for each row, or the probability of each class."""

    def score(self, y: NDArray[Any], predicted: Values, baseline: Values) -> Score:
        """Return how good predictions are, beside those of a model without any column."""

    def scale(self, y: NDArray[Any]) -> float:
        """Return the unit of standardised effects."""

    def effect_is(self, target: Target) -> str:
        """Say of what an effect is the change."""


class Gaussian:
    """Numbers with noise of the same size everywhere."""

    def response(self, target: Target) -> NDArray[Any]:
        """Return the numbers."""
        return _numbers(target, "gaussian")

    def coded(self, y: NDArray[Any]) -> Values:
        """Return the numbers as a column."""
        return y[:, None]

    def estimator(self, options: dict[str, Any], *, short: bool = False) -> Any:
        """Return a regression."""
        return SparseBayesRegressor(**(options | SHORT if short else options))

    def effects(self, model: Any, most: int) -> tuple[list[str], list[Samples]]:
        """Return the coefficients."""
        return [""], [_thinned(model._samples, most)]

    def predict(self, model: Any, x: Values) -> Values:
        """Return the expected values."""
        expected: Values = model.predict(x)
        return expected

    def score(self, y: NDArray[Any], predicted: Values, baseline: Values) -> Score:
        """Return R2, whose error is that of a ratio of two means over the rows."""
        return _explained("R2", (y - predicted) ** 2, (y - baseline) ** 2)

    def scale(self, y: NDArray[Any]) -> float:
        """Return the standard deviation."""
        return float(np.std(y))

    def effect_is(self, target: Target) -> str:
        """Return the target, with its unit."""
        return with_unit(target.name, target.unit)


class HeavyTailed(Gaussian):
    """Numbers with Student's noise, in which outliers count for little."""

    def response(self, target: Target) -> NDArray[Any]:
        """Return the numbers."""
        return _numbers(target, "student")

    def estimator(self, options: dict[str, Any], *, short: bool = False) -> Any:
        """Return a regression with noise that has heavy tails."""
        return SparseBayesRegressor(noise="student", **(options | SHORT if short else options))


class Classes:
    """Classes without an order; an effect is a change of log-odds."""

    def response(self, target: Target) -> NDArray[Any]:
        """Return the names of the classes."""
        if target.numbers is not None and (different := len(np.unique(target.texts))) > CLASSES:
            raise ValueError(
                f"the target {target.name!r} has {different} different values, and at most {CLASSES} classes are fitted"
            )
        return target.texts

    def coded(self, y: NDArray[Any]) -> Values:
        """Return an indicator of each class but the first."""
        indicators: Values = (y[:, None] == np.unique(y)[1:]).astype(float)
        return indicators

    def estimator(self, options: dict[str, Any], *, short: bool = False) -> Any:
        """Return a classification."""
        return SparseBayesClassifier(**(options | SHORT if short else options))

    def effects(self, model: Any, most: int) -> tuple[list[str], list[Samples]]:
        """Return the log-odds of each class against the others; of two classes, of the second."""
        draws, classes = _thinned(model.coef_samples_, most), [str(c) for c in model.classes_]
        if len(classes) == 2:
            return classes[1:], [draws[:, 0]]
        others = len(classes) / (len(classes) - 1)
        mean = draws.mean(1)
        return classes, [(draws[:, k] - mean) * others for k in range(len(classes))]

    def predict(self, model: Any, x: Values) -> Values:
        """Return the probability of each class."""
        probability: Values = model.predict_proba(x)
        return probability

    def score(self, y: NDArray[Any], predicted: Values, baseline: Values) -> Score:
        """Return the accuracy."""
        classes = np.unique(y)
        right = classes[predicted.argmax(1)] == y
        value, n = float(right.mean()), len(y)
        usual = float((classes[baseline.argmax(1)] == y).mean())
        smoothed = (right.sum() + 2) / (n + 4)  # Agresti and Coull: an error of zero would be too sure
        return Score("accuracy", value, float(np.sqrt(smoothed * (1 - smoothed) / (n + 4))), usual)

    def scale(self, y: NDArray[Any]) -> float:
        """Return 1: log-odds have a unit of their own."""
        return 1.0

    def effect_is(self, target: Target) -> str:
        """Return the log-odds."""
        two = list(np.unique(target.texts))
        return f"the log-odds of {str(two[1])!r}" if len(two) == 2 else "the log-odds of the class that is named"


class Counts:
    """Whole numbers from zero on; an effect is a change of the logarithm of their mean."""

    def response(self, target: Target) -> NDArray[Any]:
        """Return the counts."""
        y = _numbers(target, "counts")
        if len(bad := np.flatnonzero((y < 0) | (y != np.round(y)))):
            raise ValueError(
                f"the target {target.name!r} holds {str(target.texts[bad[0]])!r}, but --family counts needs whole "
                "numbers from 0 on: take gaussian"
            )
        return y

    def coded(self, y: NDArray[Any]) -> Values:
        """Return logarithms as a column, of the counts and one more."""
        column: Values = np.log1p(y)[:, None]
        return column

    def estimator(self, options: dict[str, Any], *, short: bool = False) -> Any:
        """Return a regression of counts, which learns how many effects to expect."""
        return SparseBayesCountRegressor(**(options | SHORT if short else options))

    def effects(self, model: Any, most: int) -> tuple[list[str], list[Samples]]:
        """Return the coefficients."""
        return [""], [_thinned(model._samples, most)]

    def predict(self, model: Any, x: Values) -> Values:
        """Return the mean counts."""
        mean: Values = model.predict(x)
        return mean

    def score(self, y: NDArray[Any], predicted: Values, baseline: Values) -> Score:
        """Return the explained share of the Poisson deviance."""
        return _explained("D2", _deviance(y, predicted), _deviance(y, baseline))

    def scale(self, y: NDArray[Any]) -> float:
        """Return 1: logarithms have no unit."""
        return 1.0

    def effect_is(self, target: Target) -> str:
        """Return the logarithm of the mean."""
        return f"the logarithm of the mean of {with_unit(target.name, target.unit)}"


FAMILIES: dict[str, Family] = {
    "gaussian": Gaussian(),
    "student": HeavyTailed(),
    "classes": Classes(),
    "counts": Counts(),
}


def family_for(target: Target, asked: str) -> tuple[str, str]:
    """Return the name of the family, and what was noticed about the target."""
    if asked != "auto" and asked not in FAMILIES:
        raise ValueError(f"family must be auto or one of {', '.join(FAMILIES)}, got {asked!r}")
    y = target.numbers
    if y is None:
        return ("classes" if asked == "auto" else asked), ""
    values = np.unique(y)
    if len(values) == 2:
        return ("classes" if asked == "auto" else asked), ""
    used = "gaussian" if asked == "auto" else asked
    if used != "gaussian":
        return used, ""
    whole = bool((values == np.round(values)).all())
    if whole and len(values) <= GRADES:
        text = (
            f"The target takes the {len(values)} values {listed(f'{v:g}' for v in values)} only, as grades do. It was "
            "taken as a number, so that equal steps count as equal; if the values are names of classes, say so: "
            f"{option('family', 'classes')}."
        )
    elif whole and values[0] >= 0 and values[0] < 10 and np.var(y) > 0.5 * np.mean(y) and np.mean(y) < 100:
        text = (
            "The target looks like counts: whole numbers from zero on, whose spread grows with their size. It was "
            f"taken as a number with the same noise everywhere; {option('family', 'counts')} takes counts as such."
        )
    elif values[0] > 0 and values[-1] > 100 * np.median(y):
        text = (
            "The target is positive, and its largest value is more than 100 times its median: its logarithm would "
            "probably be explained better."
        )
    else:
        text = ""
    return used, text


def _numbers(target: Target, family: str) -> NDArray[Any]:
    """Return the numbers of a target."""
    if target.numbers is None:
        raise ValueError(
            f"the target {target.name!r} holds {str(target.texts[0])!r}, but --family {family} needs numbers: "
            "take classes"
        )
    return target.numbers


def _explained(name: str, rest: Values, total: Values) -> Score:
    """Return the share of a sum over the rows that is explained; its error is that of a ratio of two means."""
    ratio, n = rest.mean() / total.mean(), len(rest)
    error = np.sqrt(np.var(rest - ratio * total) / (n - 1)) / total.mean()
    return Score(name, 1 - float(ratio), float(error), 0.0)


def _deviance(y: NDArray[Any], mean: Values) -> Values:
    """Return the Poisson deviance of each row."""
    mean = np.maximum(mean, 1e-9)
    found: Values = 2 * (xlogy(y, y / mean) - y + mean)
    return found


def _thinned(draws: Samples, most: int) -> Samples:
    """Return a copy of at most so many draws, evenly spread over the chains."""
    step = -(-draws.shape[0] // most)
    return draws.tocsr()[::step] if sparse.issparse(draws) else draws[::step].copy()
