r"""Pruning plans: which weights are set to zero, and when.

The share of zeros grows from 0 at step ``start`` to ``target`` at step ``end``, with t = (k - start)/(end - start):

    cubic:        s_k = target * (1 - (1 - t)^3)
    exponential:  s_k = target * (1 - e^(-5t)) / (1 - e^-5)

Every ``every`` steps, and at ``end``, the weights with the lowest scores (by default the smallest ones) are set to
zero: exactly round(s_k * p) of p weights, in each sparse layer or in all of them together. After ``end`` the zeros are
fixed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from sparse_langevin.sampling.pruning.criteria import MAGNITUDE, Criterion


@dataclass(frozen=True)
class Pruning:
    """A pruning plan.

    Parameters
    ----------
    target
        Share of the sparse layers' weights that are zero in the finished model, in [0, 1).
    end
        Step at which the target is reached; the zeros are fixed from then on.
    start
        Step after which pruning begins.
    every
        Steps between prunings.
    growth
        How the share grows: ``"cubic"`` or ``"exponential"``.
    scope
        ``"layer"`` prunes the same share of each sparse layer, ``"global"`` the lowest scores among all of them.
    regrow
        If true, pruned weights move on until the next pruning and may survive it; otherwise they stay at zero.
    criterion
        Which weights are pruned first: `Magnitude`, `Inclusion`, or an object of your own with a method ``score``.
    """

    target: float
    end: int
    start: int = 0
    every: int = 10
    growth: Literal["cubic", "exponential"] = "cubic"
    scope: Literal["layer", "global"] = "layer"
    regrow: bool = False
    criterion: Criterion = MAGNITUDE

    def __post_init__(self) -> None:
        if not 0 <= self.target < 1:
            raise ValueError(f"Pruning.target must be a share in [0, 1), such as 0.7 for 70 %, got {self.target!r}")
        if not 0 <= self.start < self.end:
            raise ValueError(f"Pruning needs 0 <= start < end, got start={self.start!r}, end={self.end!r}")
        if self.every < 1:
            raise ValueError(f"Pruning.every must be at least 1 step, got {self.every!r}")
        if self.growth not in ("cubic", "exponential"):
            raise ValueError(f"Pruning.growth must be 'cubic' or 'exponential', got {self.growth!r}")
        if not callable(getattr(self.criterion, "score", None)):
            raise TypeError(
                f"Pruning.criterion must have a method score(beta, vectors), as Magnitude() has; got {self.criterion!r}"
            )
        if self.scope not in ("layer", "global"):
            raise ValueError(f"Pruning.scope must be 'layer' or 'global', got {self.scope!r}")

    def share(self, step: int) -> float:
        """Return the share of zeros after ``step``."""
        t = min(1.0, max(0.0, (step - self.start) / (self.end - self.start)))
        if t == 1.0:
            return self.target
        grown = 1 - (1 - t) ** 3 if self.growth == "cubic" else math.expm1(-5 * t) / math.expm1(-5)
        return self.target * grown

    def due(self, step: int) -> bool:
        """Whether weights are pruned after ``step``."""
        return step == self.end or (self.start < step < self.end and step % self.every == 0)

    def holds(self, step: int) -> bool:
        """Whether weights pruned earlier are held at zero in ``step``."""
        return not self.regrow or step > self.end


class Layer(NamedTuple):
    """A sparse layer to prune."""

    beta: Tensor
    """The weights."""
    keep: Tensor
    """The mask: False where a weight is pruned."""
    vectors: Mapping[str, Tensor] = MappingProxyType({})
    """The sampler's vectors for this layer, by name: ``rho`` with a spike and slab, ``v`` with RMSprop, and so on."""


def prune(plan: Pruning, layers: Sequence[Layer], step: int) -> None:
    """Set the weights with the lowest scores to zero and mark them in ``keep``, both in place."""
    scores = [plan.criterion.score(layer.beta, layer.vectors) for layer in layers]
    parts = [slice(i, i + 1) for i in range(len(layers))] if plan.scope == "layer" else [slice(0, len(layers))]
    for part in parts:
        together = torch.cat(scores[part])
        pruned = lowest(together, round(plan.share(step) * together.numel()))
        for layer, chosen in zip(layers[part], torch.split(pruned, [len(s) for s in scores[part]]), strict=True):
            layer.keep.copy_(~chosen)
            layer.beta.masked_fill_(chosen, 0.0)


def lowest(scores: Tensor, count: int) -> Tensor:
    """Return a mask of exactly ``count`` lowest entries; among equal entries the first ones are taken.

    Examples
    --------
    >>> lowest(torch.tensor([3.0, 1.0, 1.0, 0.5]), 2).tolist()
    [False, True, False, True]
    """
    if count == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    threshold = scores.kthvalue(count).values
    chosen = scores < threshold
    tied = (scores == threshold).nonzero().squeeze(1)
    chosen[tied[: count - int(chosen.sum())]] = True
    return chosen
