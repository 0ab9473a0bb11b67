"""Bayesian sparse learning for PyTorch models with preconditioned stochastic gradient MCMC."""

from typing import TYPE_CHECKING

from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.linear.classifier import SparseBayesClassifier
    from sparse_langevin.linear.counts import SparseBayesCountRegressor
    from sparse_langevin.linear.regressor import SparseBayesRegressor
    from sparse_langevin.posterior import PosteriorBank
    from sparse_langevin.runtime.interrupts import Interrupted
    from sparse_langevin.sampling.algorithms import psgld, psgld_sa, sgld, sgld_sa
    from sparse_langevin.sampling.batches import Batches
    from sparse_langevin.sampling.chains import fit_chains
    from sparse_langevin.sampling.health import ChainWarning
    from sparse_langevin.sampling.info import Info
    from sparse_langevin.sampling.likelihoods import CategoricalLikelihood, GaussianLikelihood
    from sparse_langevin.sampling.metrics import Identity, Metric, RMSprop
    from sparse_langevin.sampling.priors import GaussianPrior, Prior, SpikeSlab
    from sparse_langevin.sampling.pruning import Inclusion, Magnitude, Pruning
    from sparse_langevin.sampling.replicas import ReplicaExchange
    from sparse_langevin.sampling.sampler import Sampler
    from sparse_langevin.sampling.schedules import Constant, Cosine, OneMinus, Polynomial, Switch
    from sparse_langevin.sampling.step_size import suggest_step_size
    from sparse_langevin.sampling.training import fit

__all__ = [
    "Batches",
    "CategoricalLikelihood",
    "ChainWarning",
    "Constant",
    "Cosine",
    "GaussianLikelihood",
    "GaussianPrior",
    "Identity",
    "Inclusion",
    "Info",
    "Interrupted",
    "Magnitude",
    "Metric",
    "OneMinus",
    "Polynomial",
    "PosteriorBank",
    "Prior",
    "Pruning",
    "RMSprop",
    "ReplicaExchange",
    "Sampler",
    "SparseBayesClassifier",
    "SparseBayesCountRegressor",
    "SparseBayesRegressor",
    "SpikeSlab",
    "Switch",
    "fit",
    "fit_chains",
    "psgld",
    "psgld_sa",
    "sgld",
    "sgld_sa",
    "suggest_step_size",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sampling.algorithms": ("psgld", "psgld_sa", "sgld", "sgld_sa"),
        "sampling.batches": ("Batches",),
        "sampling.chains": ("fit_chains",),
        "linear.classifier": ("SparseBayesClassifier",),
        "linear.counts": ("SparseBayesCountRegressor",),
        "linear.regressor": ("SparseBayesRegressor",),
        "sampling.health": ("ChainWarning",),
        "runtime.interrupts": ("Interrupted",),
        "sampling.likelihoods": ("CategoricalLikelihood", "GaussianLikelihood"),
        "posterior": ("PosteriorBank",),
        "sampling.metrics": ("Identity", "Metric", "RMSprop"),
        "sampling.priors": ("GaussianPrior", "Prior", "SpikeSlab"),
        "sampling.pruning": ("Inclusion", "Magnitude", "Pruning"),
        "sampling.info": ("Info",),
        "sampling.replicas": ("ReplicaExchange",),
        "sampling.sampler": ("Sampler",),
        "sampling.schedules": ("Constant", "Cosine", "OneMinus", "Polynomial", "Switch"),
        "sampling.step_size": ("suggest_step_size",),
        "sampling.training": ("fit",),
    },
)
