"""Bayesian sparse learning for PyTorch models with preconditioned stochastic gradient MCMC."""

from typing import TYPE_CHECKING

from sparse_langevin.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.algorithms import psgld, psgld_sa, sgld, sgld_sa
    from sparse_langevin.batches import Batches
    from sparse_langevin.estimators import SparseBayesClassifier, SparseBayesRegressor
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

__getattr__, __dir__ = lazily(
    __name__,
    {
        "algorithms": ("psgld", "psgld_sa", "sgld", "sgld_sa"),
        "batches": ("Batches",),
        "estimators": ("SparseBayesClassifier", "SparseBayesRegressor"),
        "health": ("ChainWarning",),
        "interrupts": ("Interrupted",),
        "likelihoods": ("CategoricalLikelihood", "GaussianLikelihood"),
        "posterior": ("PosteriorBank",),
        "preconditioners": ("Identity", "RMSprop"),
        "priors": ("GaussianPrior", "SpikeSlab"),
        "pruning": ("Pruning",),
        "sampler": ("Info", "Sampler"),
        "schedules": ("Constant", "Cosine", "OneMinus", "Polynomial", "Switch"),
        "training": ("fit",),
    },
)
