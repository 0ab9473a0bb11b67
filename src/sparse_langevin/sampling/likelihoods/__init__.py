"""Likelihoods of the data given the weights: one file each."""

from sparse_langevin.sampling.likelihoods.base import BatchEvaluation, Likelihood, call_model
from sparse_langevin.sampling.likelihoods.categorical import CategoricalLikelihood
from sparse_langevin.sampling.likelihoods.function import FunctionLikelihood, LogLikelihood, as_likelihood
from sparse_langevin.sampling.likelihoods.gaussian import GaussianLikelihood

__all__ = [
    "BatchEvaluation",
    "CategoricalLikelihood",
    "FunctionLikelihood",
    "GaussianLikelihood",
    "Likelihood",
    "LogLikelihood",
    "as_likelihood",
    "call_model",
]
