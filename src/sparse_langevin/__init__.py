"""Bayesian sparse learning for PyTorch models with preconditioned stochastic gradient MCMC."""

from sparse_langevin.algorithms import psgld, psgld_sa, sgld, sgld_sa
from sparse_langevin.batches import Batches
from sparse_langevin.health import ChainWarning
from sparse_langevin.interrupts import Interrupted
from sparse_langevin.likelihoods import CategoricalLikelihood, GaussianLikelihood
from sparse_langevin.posterior import PosteriorBank
from sparse_langevin.preconditioners import Identity, RMSprop
from sparse_langevin.priors import GaussianPrior, SpikeSlab
from sparse_langevin.pruning import Pruning
from sparse_langevin.sampler import Info, Sampler
from sparse_langevin.schedules import Constant, Cosine, OneMinus, Polynomial
from sparse_langevin.training import fit

__all__ = [
    "Batches",
    "CategoricalLikelihood",
    "ChainWarning",
    "Constant",
    "Cosine",
    "GaussianLikelihood",
    "GaussianPrior",
    "Identity",
    "Info",
    "Interrupted",
    "OneMinus",
    "Polynomial",
    "PosteriorBank",
    "Pruning",
    "RMSprop",
    "Sampler",
    "SpikeSlab",
    "fit",
    "psgld",
    "psgld_sa",
    "sgld",
    "sgld_sa",
]
