"""What a likelihood is to a sampler, and what those of the library share.

A likelihood evaluates a batch and returns its log-likelihood *summed* over the ``n`` examples; the sampler, and only
the sampler, scales it by N/n. To add one write one file: any object with the face of `Likelihood` will do.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor, nn


class BatchEvaluation(NamedTuple):
    """What a likelihood says of one batch."""

    log_likelihood: Tensor
    """Sum over the batch, up to terms that do not depend on the weights."""
    examples: int
    """Number of examples n in the batch."""
    loss: Tensor
    """What a user wants to watch: mean squared error, cross entropy, or mean negative log-likelihood."""
    rss: Tensor | None = None
    """Sum of squared residuals, when there are residuals."""
    residuals_per_example: int = 0
    """The dimension d of one response."""


@runtime_checkable
class Likelihood(Protocol):
    """What the sampler needs of a likelihood.

    One that learns its noise level also has ``next_sigma(residuals, weights, rss, linear, quadratic)``, see
    `GaussianLikelihood`, and gives ``rss`` in its evaluations. One whose observations are the model's output plus noise
    of deviation sigma says so with ``additive_noise = True``; predictions then include that noise.
    """

    @property
    def sigma(self) -> float:
        """Noise level to start from; 1 where there is none."""

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
            f"the model returned {type(outputs).__name__}, not a tensor: "
            "use a function (model, batch) -> log-likelihood per example as the likelihood"
        )
    return outputs


def as_pair(batch: Any) -> tuple[Any, Tensor]:
    """Insist on a batch (inputs, targets)."""
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not isinstance(batch[1], Tensor):
        raise TypeError(
            "this likelihood needs batches (inputs, targets) with targets a tensor, "
            f"got {_outline(batch)}. For other batches pass a function (model, batch) -> log-likelihood per example."
        )
    if batch[1].dim() == 0 or batch[1].numel() == 0:
        raise ValueError(f"the batch is empty: targets have shape {tuple(batch[1].shape)}")
    return batch[0], batch[1]


def _outline(batch: Any) -> str:
    if isinstance(batch, tuple | list):
        return f"{type(batch).__name__}({', '.join(type(item).__name__ for item in batch)})"
    return type(batch).__name__
