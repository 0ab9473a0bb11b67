r"""Pruning: when and what to set to zero.

The share of zeros grows from 0 at step ``start`` to ``target`` at step ``end``, with t = (k - start)/(end - start):

    cubic:        s_k = target * (1 - (1 - t)^3)
    exponential:  s_k = target * (1 - e^(-5t)) / (1 - e^-5)

Every ``every`` steps, and at ``end``, the smallest weights by magnitude are set to zero: exactly round(s_k * p) of
them, in each sparse layer or over all of them. From ``end`` on the zeros stay.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pruning:
    """A pruning plan.

    Parameters
    ----------
    target
        Share of the sparse layers' weights that are zero in the finished model, in [0, 1).
    end
        Step at which the target is reached; zeros are fixed from then on.
    start
        Step after which pruning begins.
    every
        Steps between prunings.
    growth
        ``"cubic"`` or ``"exponential"``: how the share grows.
    scope
        ``"layer"`` prunes the same share of each sparse layer, ``"global"`` the smallest weights of all of them.
    regrow
        If true, pruned weights go on moving until the next pruning and may come back; otherwise zero is for good.
    """

    target: float
    end: int
    start: int = 0
    every: int = 10
    growth: Literal["cubic", "exponential"] = "cubic"
    scope: Literal["layer", "global"] = "layer"
    regrow: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.target < 1:
            raise ValueError(f"Pruning.target is a share of weights in [0, 1), got {self.target!r} (70 % is 0.7)")
        if not 0 <= self.start < self.end:
            raise ValueError(f"Pruning needs 0 <= start < end, got start={self.start!r}, end={self.end!r}")
        if self.every < 1:
            raise ValueError(f"Pruning.every must be at least 1 step, got {self.every!r}")
        if self.growth not in ("cubic", "exponential"):
            raise ValueError(f"Pruning.growth must be 'cubic' or 'exponential', got {self.growth!r}")
        if self.scope not in ("layer", "global"):
            raise ValueError(f"Pruning.scope must be 'layer' or 'global', got {self.scope!r}")

    def share(self, step: int) -> float:
        """Share of zeros wanted after ``step``."""
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


def prune(beta: Tensor, keep: Tensor, parts: Sequence[slice], share: float) -> None:
    """Zero the smallest weights of each part of ``beta`` and mark them in ``keep``, both in place."""
    for part in parts:
        keep[part] = ~smallest(beta[part], round(share * beta[part].numel()))
    beta.masked_fill_(~keep, 0.0)


def smallest(values: Tensor, count: int) -> Tensor:
    """Mark exactly ``count`` entries of smallest magnitude; ties go to the lower index.

    Examples
    --------
    >>> smallest(torch.tensor([3.0, -1.0, 1.0, 0.5]), 2).tolist()
    [False, True, False, True]
    """
    if count == 0:
        return torch.zeros_like(values, dtype=torch.bool)
    magnitude = values.abs()
    threshold = magnitude.kthvalue(count).values
    chosen = magnitude < threshold
    tied = (magnitude == threshold).nonzero().squeeze(1)
    chosen[tied[: count - int(chosen.sum())]] = True
    return chosen
