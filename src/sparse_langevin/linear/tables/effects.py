"""What the posterior draws say about one column of a table: its probability, and effects in units and standardised.

The effect of a level of a category is its difference from the average row, beta_l - sum_k share_k beta_k, which does
not depend on how the indicators share a common part; of two levels it is the difference between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sparse_langevin.linear.samples import Samples
from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.design import Group
from sparse_langevin.linear.tables.results import Effect, Item


@dataclass(frozen=True)
class Draws:
    """Posterior draws of all fits."""

    classes: list[str]
    """For what the effects speak; one empty text for a number."""
    effects: list[Samples]
    """For each of them, (draws, predictors)."""
    present: Any
    """(draws, predictors), sparse, by columns: which are in the model."""
    probability: Values
    """Of each predictor."""
    small_effects: float = 0.0
    """Probability that all predictors have small effects together, beside those that are in the model."""

    @cached_property
    def any_effect(self) -> float:
        """Probability that any predictor has an effect."""
        return float((np.asarray(self.present.sum(1)).ravel() > 0).mean())

    def of_any(self, group: Group) -> float:
        """Probability that any predictor of a group has an effect."""
        most = float(self.probability[group.places].max())
        if len(group.places) == 1:
            return most
        together = np.asarray(self.present[:, group.places].sum(1)).ravel() > 0
        return max(most, float(together.mean()))  # the probability of one predictor is known more precisely


def item_of(group: Group, draws: Draws, matrices: Sequence[Values], scale: float, level: float) -> Item:
    """Return what is found about a column; ``matrices`` are the predictors of each fit, ``scale`` is the target's."""
    x = np.concatenate([matrix[:, group.places] for matrix in matrices])
    column, share = group.column, x.mean(0)
    blocks = [_dense(samples, group) for samples in draws.effects]
    if len(group.places) > 1:
        blocks = [block - (block @ share)[:, None] for block in blocks]
    best = int(np.argmax([np.abs(block.mean(0)).max() for block in blocks]))
    block, bounds = blocks[best], ((1 - level) / 2, (1 + level) / 2)
    mean, (lower, upper) = block.mean(0), np.quantile(block, bounds, axis=0)
    rows = len(x) / len(matrices)
    effects = []
    for j in range(len(group.places)):
        two = len(column.levels) == 2
        per = 1.0 if column.levels else float(x[:, j].std())
        effects.append(
            Effect(
                level="" if not column.levels else column.levels[1] if two else column.levels[j],
                against="" if not column.levels else column.levels[0] if two else "the average row",
                rows=round(float(share[j]) * rows) if column.levels else round(rows),
                mean=float(mean[j]),
                lower=float(lower[j]),
                upper=float(upper[j]),
                standardised=float(mean[j]) * per / scale,
            )
        )
    return Item(column.name, column.unit, draws.of_any(group), effects, draws.classes[best], int(group.places[0]))


def _dense(samples: Samples, group: Group) -> Values:
    part = samples[:, group.places]
    return part.toarray() if sparse.issparse(part) else np.asarray(part)
