"""Which weights of a model have been pruned."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sparse_langevin.sampling.flat import Block, FlatParameters
from sparse_langevin.sampling.pruning.plan import Layer, Pruning, prune

NOTHING: Mapping[str, Mapping[str, Tensor]] = {}


class Mask:
    """The mask of a model's sparse layers, and the plan that it follows.

    Attributes
    ----------
    plan : Pruning
        When to prune.
    keep : Tensor
        One boolean for each weight of the sparse layers, False where it is pruned.
    kept : dict
        Number of weights that are left in each sparse layer, by name.
    """

    def __init__(self, flat: FlatParameters, plan: Pruning) -> None:
        if not flat.sparse_blocks:
            raise ValueError("pruning needs sparse layers, but none were found: name them with sparse=[...]")
        self.plan, self._flat = plan, flat
        self.keep = torch.ones_like(flat.vector[flat.sparse_start :], dtype=torch.bool)
        self.kept = {block.name: block.size for block in flat.sparse_blocks}

    def of(self, block: Block) -> Tensor:
        """Return the part of ``keep`` that belongs to a sparse layer."""
        start = self._flat.sparse_start
        return self.keep[block.start - start : block.stop - start]

    @property
    def sparsity(self) -> float:
        """Share of the sparse layers' weights that the last pruning set to zero."""
        return 1.0 - sum(self.kept.values()) / self.keep.numel()

    @torch.no_grad()
    def prune(self, step: int, vectors: Mapping[str, Mapping[str, Tensor]] = NOTHING) -> None:
        """Prune as the plan says after ``step``; ``vectors`` are those of each layer (see `Layer`)."""
        blocks, beta = self._flat.sparse_blocks, self._flat.vector
        prune(self.plan, [Layer(beta[b.span], self.of(b), vectors.get(b.name, {})) for b in blocks], step)
        self.count()

    @torch.no_grad()
    def apply(self) -> None:
        """Set the pruned weights to zero again."""
        self._flat.vector[self._flat.sparse_start :].mul_(self.keep)

    def count(self) -> None:
        """Count the weights that are left; needed if ``keep`` was changed from outside."""
        self.kept = {b.name: int(self.of(b).sum()) for b in self._flat.sparse_blocks}
