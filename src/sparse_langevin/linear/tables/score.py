"""How well the columns predict the target in rows that were left out of the fit.

Whatever is learned, the values for missing cells included, is learned from the other rows alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedKFold

from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.design import predictors
from sparse_langevin.linear.tables.families import Family, Score
from sparse_langevin.linear.tables.findings import count
from sparse_langevin.linear.tables.missing import FILLS, fill, incomplete
from sparse_langevin.linear.tables.quiet import fitted_quietly
from sparse_langevin.linear.tables.table import Table

MANY = 300  # columns above which missing values of rows to be predicted are drawn once
SHARES = {"R2": "an R2", "D2": "a D2 (the explained share of the Poisson deviance)"}
FEWEST = 10  # rows below which a score would say nothing


@dataclass(frozen=True)
class CrossValidation:
    """Predictions of each row from the others, and how good they are."""

    observed: NDArray[Any]
    predicted: Values
    """Expected values, or the probabilities of the classes in their order."""
    score: Score
    folds: int


def folds_for(y: NDArray[Any], numeric: bool, wanted: int) -> tuple[int, str]:
    """Return the number of folds, 0 for none, and why there are not as many as wanted."""
    if wanted == 0:
        return 0, "How well the columns predict was not looked at."
    if len(y) < FEWEST:
        return (
            0,
            f"With {count(len(y), 'row')} nothing can be said about how well the columns predict the target in others.",
        )
    if numeric:
        return min(wanted, len(y)), ""
    classes, sizes = np.unique(y, return_counts=True)
    if sizes.min() < 2:
        rare = str(classes[sizes.argmin()])
        return 0, f"The class {rare!r} has one row only, so how well the classes can be predicted was not looked at."
    return min(wanted, int(sizes.min())), ""


def cross_validate(
    table: Table,
    family: Family,
    y: NDArray[Any],
    folds: int,
    options: dict[str, Any],
    seed: int,
    advance: Callable[[str], None],
) -> CrossValidation:
    """Fit to all folds but one in turn, and predict that one."""
    numeric = y.dtype.kind == "f"
    split = (KFold if numeric else StratifiedKFold)(folds, shuffle=True, random_state=seed)
    predicted: Any = None
    baseline: Any = None
    for k, (train, test) in enumerate(split.split(np.zeros(len(y)), y)):
        rng = np.random.default_rng([seed, k])
        x, unseen = _completed(table, family, y, train, test, rng)
        model, _ = fitted_quietly(family.estimator(options, short=True), x, y[train])
        found = np.mean([family.predict(model, rows) for rows in unseen], axis=0)
        if predicted is None:
            predicted = np.empty((len(y), *found.shape[1:]))
            baseline = np.empty_like(predicted)
        predicted[test] = found
        baseline[test] = y[train].mean() if numeric else np.unique(y[train], return_counts=True)[1] / len(train)
        advance(f"fold {k + 1} of {folds}")
    return CrossValidation(y, predicted, family.score(y, predicted, baseline), folds)


def _completed(
    table: Table, family: Family, y: NDArray[Any], train: Any, test: Any, rng: np.random.Generator
) -> tuple[Values, list[Values]]:
    """Return the predictors to fit to, and those to predict from, more than once if values are missing."""
    columns = table.columns
    if not incomplete(columns).any():
        x = predictors(columns, [column.values for column in columns])
        return x[train], [x[test]]
    donors = np.zeros(len(y), bool)
    donors[train] = True
    x = predictors(columns, fill(columns, family.coded(y), rng, donors))
    fills = FILLS if len(columns) <= MANY else 1
    nothing = np.empty((len(y), 0))  # the target of a row that is to be predicted is not known
    unseen = [predictors(columns, fill(columns, nothing, rng, donors))[test] for _ in range(fills)]
    return x[train], unseen


def in_words(found: CrossValidation, target: str) -> str:
    """Say how good the predictions are."""
    score, n = found.score, len(found.observed)
    clear = score.value - 2 * score.error > score.baseline
    if score.name in SHARES:
        value = f"{SHARES[score.name]} of {_with_error(score.value, score.error, 2)}"
        other = f"predicting the mean of {target} for every row"
    else:
        value = f"an accuracy of {_with_error(100 * score.value, 100 * score.error, 0, ' %')}"
        other = f"naming the most frequent class every time, which is right in {100 * score.baseline:.0f} %"
    doubt = "" if clear else f" As far as {n} rows can tell, that is not better than {other}."
    if clear and score.name not in SHARES:
        doubt = f" Naming the most frequent class every time is right in {100 * score.baseline:.0f} %."
    how = f"({found.folds}-fold cross-validation)"
    return f"In rows that were left out of the fit, the columns reach {value} {how}.{doubt}"


def _with_error(value: float, error: float, digits: int, unit: str = "") -> str:
    """Write a score with so many digits behind the point, or more, up to the first of its error that is not zero."""
    while digits < 5 and round(error, digits) == 0:
        digits += 1
    return f"{round(value, digits) + 0.0:.{digits}f}{unit} ± {error:.{digits}f}{unit}"
