"""What makes a weight go first when a layer is pruned. A new criterion is a frozen dataclass with a ``score``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Criterion(Protocol):
    """Gives each weight of a layer a score; those with the lowest are pruned."""

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """One number per weight, given the weights and what the sampler keeps of each of them, by name."""


@dataclass(frozen=True)
class Magnitude:
    """The smallest weights go first."""

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """The absolute value."""
        return beta.abs()


MAGNITUDE = Magnitude()


@dataclass(frozen=True)
class Inclusion:
    """The weights least likely to be in the slab go first.

    rho is an average over many steps, so that a weight which happens to pass through zero at a pruning is not lost.
    """

    def score(self, beta: Tensor, vectors: Mapping[str, Tensor]) -> Tensor:
        """The inclusion probability rho."""
        if "rho" not in vectors:
            raise ValueError(
                "Pruning(criterion=Inclusion()) needs inclusion probabilities, which only a spike-and-slab prior has: "
                "use sgld_sa or psgld_sa, or Pruning(criterion=Magnitude())"
            )
        return vectors["rho"]
