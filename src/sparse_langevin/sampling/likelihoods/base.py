"""The interface between a likelihood and a sampler, and what the likelihoods of the library share.

A likelihood evaluates a batch and returns its log-likelihood *summed* over the ``n`` examples; the sampler, and only
the sampler, scales it by N/n. A new likelihood is one file: any object with the interface of `Likelihood` will do.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


class BatchEvaluation(NamedTuple):
    """The result of evaluating one batch."""

    log_likelihood: Tensor
    """The log-likelihood summed over the batch, up to terms that do not depend on the weights."""
    examples: int
    """Number of examples n in the batch."""
    loss: Tensor
    """The loss shown to the user: mean squared error, cross entropy, or mean negative log-likelihood."""
    rss: Tensor | None = None
    """Sum of squared residuals, if there are residuals."""
    residuals_per_example: int = 0
    """The dimension d of one response."""


@runtime_checkable
class Likelihood(Protocol):
    """What the sampler needs from a likelihood.

    A likelihood whose sigma is None has ``initial_sigma(model, batch)``, with which the noise level starts from the
    first batch. One that learns its noise level has ``next_sigma(residuals, weights, rss, linear, quadratic)``, see
    `GaussianLikelihood`, and gives ``rss`` in its evaluations. If observations are the model's output plus noise of
    standard deviation sigma, it has ``additive_noise = True``, and predictions include that noise.
    """

    @property
    def sigma(self) -> float | None:
        """The initial noise level, or None to start from the data; 1 if there is none."""

    @property
    def learn(self) -> bool:
        """Whether sigma is learned."""

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> BatchEvaluation:
        """Evaluate one batch at noise level ``sigma``."""


def call_model(model: Callable[..., Any], inputs: Any) -> Tensor:
    """Call the model on one tensor, on a tuple of positional inputs or on a mapping of named ones."""
    if isinstance(inputs, Mapping):
        outputs = model(**inputs)
    elif isinstance(inputs, tuple | list):
        outputs = model(*inputs)
    else:
        outputs = model(inputs)
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"the model returned {type(outputs).__name__}, not a tensor: pass a function (model, batch) -> "
            "log-likelihood per example as the likelihood"
        )
    return outputs


def as_pair(batch: Any) -> tuple[Any, Tensor]:
    """Return a batch as (inputs, targets); raise an error if it has another form."""
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        raise TypeError(
            "this likelihood needs batches of the form (inputs, targets), where targets is a tensor; got "
            f"{_outline(batch)}. For other batches pass a function (model, batch) -> log-likelihood per example."
        )
    if batch[1].dim() == 0 or batch[1].numel() == 0:
        raise ValueError(f"the batch is empty: targets have shape {tuple(batch[1].shape)}")
    return batch[0], batch[1]


def _outline(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"{type(batch).__name__}({', '.join(type(item).__name__ for item in batch)})"
    return type(batch).__name__
