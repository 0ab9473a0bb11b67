"""Priors: one file each. A new one derives from `Prior`; nothing else need change."""

from sparse_langevin.sampling.priors.base import NativePrior, Prior, as_prior
from sparse_langevin.sampling.priors.gaussian import GaussianPrior
from sparse_langevin.sampling.priors.spike_slab import SpikeSlab, default_prior

__all__ = ["GaussianPrior", "NativePrior", "Prior", "SpikeSlab", "as_prior", "default_prior"]
