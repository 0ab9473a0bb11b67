"""Pruning: which weights are set to zero, and when."""

from sparse_langevin.sampling.pruning.criteria import Criterion, Inclusion, Magnitude
from sparse_langevin.sampling.pruning.mask import Mask
from sparse_langevin.sampling.pruning.plan import Layer, Pruning, lowest, prune

__all__ = ["Criterion", "Inclusion", "Layer", "Magnitude", "Mask", "Pruning", "lowest", "prune"]
