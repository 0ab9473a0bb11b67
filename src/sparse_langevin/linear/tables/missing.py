"""Missing values: rows are left out, or values are drawn several times from what the other columns say about them.

Chained equations (van Buuren, 2018): each column with missing values in turn is regressed on the columns that are most
correlated with it, and on the target; a missing value is taken from one of the five rows whose predicted value is
nearest (predictive mean matching), where the coefficients of the regression are drawn from their posterior. So numbers
stay within what has been observed, whole numbers stay whole, and a category stays one of its levels. With many
incomplete columns there are fewer rounds.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.kinds import Column

DONORS = 5
NEIGHBOURS = 20  # columns in a regression; they are chosen once
SWEEPS = 2, 8  # at least and at most
REGRESSIONS = 2000  # from which on there are fewer sweeps
FILLS = 5  # times that missing values are drawn, for one fit each
FEW = 0.05  # share of incomplete rows up to which they are left out, where the choice is ours
RIDGE = 1e-3  # of standardised columns, so that copies do no harm
Mask = NDArray[np.bool_]


def incomplete(columns: Sequence[Column]) -> Mask:
    """Return the rows with missing values."""
    gaps: Mask = np.any([np.isnan(column.values) for column in columns], axis=0)
    return gaps


def fill(
    columns: Sequence[Column], extra: Values, rng: np.random.Generator, donors: Mask | None = None
) -> list[Values]:
    """Return the values of all columns with missing ones drawn.

    ``extra`` are more columns to learn from, (rows, any number), such as the target. Only rows marked in ``donors`` are
    learned from.
    """
    learn = np.ones(len(extra), bool) if donors is None else donors
    gone = [np.isnan(column.values) for column in columns]
    todo = [j for j in np.argsort([g.sum() for g in gone], kind="stable") if gone[j].any()]
    filled = [column.values.copy() for column in columns]
    known = [learn & ~g if (learn & ~g).any() else ~g for g in gone]
    for j in todo:
        filled[j][gone[j]] = rng.choice(filled[j][known[j]], gone[j].sum())
    coded = [_coded(column, values) for column, values in zip(columns, filled, strict=True)]
    owner = np.concatenate([np.full(c.shape[1], j) for j, c in enumerate(coded)] + [np.full(extra.shape[1], -1)])
    every = np.column_stack([*coded, extra])
    mean, std = every[learn].mean(0), every[learn].std(0)
    std[std == 0] = 1.0
    every = (every - mean) / std
    near = {j: _nearest(every, owner, int(j), known[j]) for j in todo}
    for _ in range(_sweeps(len(todo))):
        for j in todo:
            places = np.flatnonzero(owner == j)
            taken = _matched(every[:, near[j]], every[:, places], known[j], gone[j], rng)
            filled[j][gone[j]] = columns[j].values[taken]
            every[np.ix_(gone[j], places)] = every[np.ix_(taken, places)]
    return filled


def _sweeps(incomplete: int) -> int:
    """Return how often all incomplete columns are drawn; one alone does not have to wait for others."""
    return 1 if incomplete == 1 else min(max(REGRESSIONS // incomplete, SWEEPS[0]), SWEEPS[1])


def _coded(column: Column, values: Values) -> Values:
    """Return a column of numbers, or one per level."""
    if not column.levels:
        return values[:, None]
    indicators: Values = (values[:, None] == np.arange(len(column.levels))).astype(float)
    return indicators


def _nearest(every: Values, owner: NDArray[np.intp], j: int, known: Mask) -> NDArray[np.intp]:
    """Return the columns to regress column j on: the target, and those with the largest correlation."""
    own = every[:, owner == j] * known[:, None]
    strength: Values = np.abs(own.T @ every).max(0)  # the columns are standardised
    strength[owner == -1] = np.inf
    strength[owner == j] = -1.0
    most = max(NEIGHBOURS, int((owner == -1).sum()))
    most = min(most, int(known.sum()) // 3 + 1, int((owner != j).sum()))
    return np.argsort(-strength, kind="stable")[:most]


def _matched(x: Values, t: Values, known: Mask, gone: Mask, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a row for each missing value from which it is taken."""
    a = np.column_stack([np.ones(len(x)), x])
    gram = a[known].T @ a[known]
    gram[1:, 1:] += RIDGE * known.sum() * np.eye(x.shape[1])
    root = np.linalg.cholesky(gram)
    best = np.linalg.solve(gram, a[known].T @ t[known])
    freedom = max(int(known.sum()) - a.shape[1], 1)
    rest = ((t[known] - a[known] @ best) ** 2).sum(0)
    sigma = np.sqrt(rest / rng.chisquare(freedom))
    drawn = best + np.linalg.solve(root.T, rng.standard_normal(best.shape)) * sigma
    rows = np.flatnonzero(known)
    count = min(DONORS, len(rows))
    _, place = cKDTree(a[known] @ best).query(a[gone] @ drawn, k=[*range(1, count + 1)])
    chosen = place[np.arange(len(place)), rng.integers(count, size=len(place))]
    taken: NDArray[np.intp] = rows[chosen]
    return taken
