"""Which predictors belong together, so that they are in the model all or none; `grouped` computes with them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

MOST = 1000  # predictors of a model


def largest_model(predictors: int, observations: int, groups: "Groups | None") -> int:
    """Return how many predictors a model may have: not more than observations, but groups enter as a whole."""
    return max(1, min(predictors, MOST, observations if groups is None else MOST))


@dataclass(frozen=True)
class Groups:
    """Which predictors belong together."""

    order: Indices
    """All predictors, those of a group side by side."""
    ends: Indices
    """For each predictor in this order that begins a group the end of the group, for others zero."""

    @classmethod
    def of(cls, labels: NDArray[Any]) -> "Groups":
        """Return the groups of predictors with the same label."""
        _, place = np.unique(labels, return_inverse=True)
        order = np.argsort(place, kind="stable")
        begins = np.flatnonzero(np.diff(place[order], prepend=-1))
        ends = np.zeros(len(order), np.int64)
        ends[begins] = np.append(begins[1:], len(order))
        return cls(order, ends)

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(np.count_nonzero(self.ends))

    @property
    def first(self) -> Indices:
        """For each predictor in this order the first one of its group."""
        return np.maximum.accumulate(np.where(self.ends > 0, np.arange(len(self.ends)), 0))

    @property
    def several(self) -> list[Indices]:
        """Groups of two predictors or more."""
        begins = np.flatnonzero(self.ends)
        return [self.order[i:end] for i, end in zip(begins, self.ends[begins], strict=True) if end > i + 1]

    @property
    def squares(self) -> int:
        """Number of elements of all matrices S."""
        begins = np.flatnonzero(self.ends)
        return int(((self.ends[begins] - begins) ** 2).sum())
