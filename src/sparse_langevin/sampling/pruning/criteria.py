"""Criteria for which weights are pruned first. A new criterion is a frozen dataclass with a method ``score``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Criterion(Protocol):
    """Gives each weight of a layer a score; those with the lowest scores are pruned."""

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """Return one number per weight, given the weights and the sampler's vectors by name (see `Layer`)."""


@dataclass(frozen=True)
class Magnitude:
    """Prunes the smallest weights first."""

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """Return the absolute values."""
        return beta.abs()


MAGNITUDE = Magnitude()


@dataclass(frozen=True)
class Inclusion:
    """Prunes the weights that are least likely to be in the slab first.

    rho is an average over many steps, so that a weight is not lost if it happens to pass through zero at a pruning.
    """

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """Return the inclusion probabilities rho."""
        if "rho" not in vectors:
            raise ValueError(
                "Pruning(criterion=Inclusion()) needs inclusion probabilities, which only a spike-and-slab prior has: "
                "use sgld_sa or psgld_sa, or Pruning(criterion=Magnitude())"
            )
        return vectors["rho"]
