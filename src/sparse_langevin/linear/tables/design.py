"""Columns of a table as predictors: a category becomes a group of indicators, one per level, or one for two levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.kinds import Column

MOST_GROUPED = 3000  # predictors up to which levels are grouped; then a step looks at all of them, not at some


@dataclass(frozen=True)
class Group:
    """The predictors that belong to a column of the table."""

    column: Column
    places: NDArray[np.intp]

    def label(self, member: int) -> str:
        """Return the name of one of its predictors."""
        levels = self.column.levels
        if not levels:
            return self.column.name
        level = levels[1] if len(levels) == 2 else levels[member]
        return f"{self.column.name}: {level}"


def groups_of(columns: Sequence[Column]) -> list[Group]:
    """Return where the predictors of each column stand."""
    sizes = [len(indicated(column)) or 1 for column in columns]
    ends = np.cumsum(sizes)
    return [Group(c, np.arange(end - size, end)) for c, size, end in zip(columns, sizes, ends, strict=True)]


def labels_of(groups: Sequence[Group]) -> NDArray[np.intp] | None:
    """Return for each predictor its column, so that a category counts as one effect; None if there is no need.

    Were its levels on their own, a category without any effect would be the more probable the more levels it has. Among
    thousands of predictors that hardly matters.
    """
    sizes = [len(group.places) for group in groups]
    return np.repeat(np.arange(len(sizes)), sizes) if max(sizes) > 1 and sum(sizes) <= MOST_GROUPED else None


def predictors(columns: Sequence[Column], values: Sequence[Values]) -> Values:
    """Return the predictors, (rows, predictors), for complete values of the columns."""
    parts = [
        (v[:, None] == indicated(column)).astype(float) if column.levels else v[:, None]
        for column, v in zip(columns, values, strict=True)
    ]
    return np.column_stack(parts)


def indicated(column: Column) -> list[int]:
    """Return the levels that have an indicator."""
    count = len(column.levels)
    return [1] if count == 2 else list(range(count))
