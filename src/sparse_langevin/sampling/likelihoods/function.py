"""A user's own log-likelihood, given as a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from sparse_langevin.sampling.likelihoods.base import BatchEvaluation, Likelihood

LogLikelihood = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class FunctionLikelihood:
    """A user's own log-likelihood: ``function(model, batch)`` returns one value per example."""

    function: LogLikelihood
    sigma: float = 1.0
    learn: bool = False

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> BatchEvaluation:
        """Sum the function's values over the batch."""
        values = self.function(model, batch)
        if not isinstance(values, Tensor) or values.dim() != 1 or not len(values):
            seen = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                "a log-likelihood function must return a 1-D tensor with one value per example, "
                f"so that the sampler can scale it by num_data/n; got {seen}. Do not sum or average over the batch."
            )
        total = values.sum()
        return BatchEvaluation(total, len(values), -total.detach() / len(values))


def as_likelihood(likelihood: Likelihood | LogLikelihood) -> Likelihood:
    """Wrap a plain function as a likelihood; leave a likelihood as it is."""
    if isinstance(likelihood, type):
        raise TypeError(f"the likelihood must be an instance, not a class: pass {likelihood.__name__}()")
    if isinstance(likelihood, Likelihood):
        if likelihood.learn and not callable(getattr(likelihood, "next_sigma", None)):
            raise TypeError(
                f"{type(likelihood).__name__} has learn=True but has no next_sigma(residuals, weights, rss, linear, "
                "quadratic), which learns sigma: define it, or set learn=False"
            )
        return likelihood
    if callable(likelihood):
        return FunctionLikelihood(likelihood)
    raise TypeError(
        "the likelihood must be GaussianLikelihood(), CategoricalLikelihood() or a function (model, batch) -> one "
        f"log-likelihood per example, got {likelihood!r}"
    )
