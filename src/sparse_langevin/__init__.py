"""Bayesian sparse learning for PyTorch models with preconditioned stochastic gradient MCMC."""

from typing import TYPE_CHECKING

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
from sparse_langevin.schedules import Constant, Cosine, OneMinus, Polynomial, Switch
from sparse_langevin.training import fit

if TYPE_CHECKING:
    from sparse_langevin.estimators import SparseBayesClassifier, SparseBayesRegressor

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
    "SparseBayesClassifier",
    "SparseBayesRegressor",
    "SpikeSlab",
    "Switch",
    "fit",
    "psgld",
    "psgld_sa",
    "sgld",
    "sgld_sa",
]


def __getattr__(name: str) -> object:
    """Load the estimators, and with them scikit-learn and Numba, when they are asked for."""
    if name in ("SparseBayesClassifier", "SparseBayesRegressor"):
        from sparse_langevin import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
