r"""Likelihoods: how the data speak to the weights, and how the noise level sigma is learned.

A likelihood evaluates a batch and returns its log-likelihood *summed* over the ``n`` examples; the sampler, and only
the sampler, scales it by N/n. ``GaussianLikelihood`` has y_i ~ N(F(x_i; beta), sigma^2 I_d) with
sigma^2 ~ InverseGamma(nu/2, nu*lambda/2); its sigma is the positive root of A s^2 - B s - C = 0 (`sigma_root`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

LogLikelihood = Callable[[nn.Module, Any], Tensor]


class Evaluation(NamedTuple):
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
    """What the sampler needs of a likelihood."""

    @property
    def sigma(self) -> float:
        """Noise level to start from; 1 where there is none."""

    @property
    def learn(self) -> bool:
        """Whether sigma is learned."""

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> Evaluation:
        """Evaluate one batch at noise level ``sigma``."""


@dataclass(frozen=True)
class GaussianLikelihood:
    r"""Regression with Gaussian noise, y ~ N(F(x), sigma^2 I), responses of any shape.

    Parameters
    ----------
    sigma
        Noise level to start from, or to keep.
    learn
        Learn sigma by stochastic approximation (the default), or keep it fixed.
    nu, lambda_
        The prior sigma^2 ~ InverseGamma(nu/2, nu*lambda/2).
    """

    sigma: float = 1.0
    learn: bool = True
    nu: float = 1.0
    lambda_: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sigma", "nu", "lambda_"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"GaussianLikelihood.{name} must be a positive number, got {value!r}")

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> Evaluation:
        """Sum of squared residuals and the log-likelihood of a batch (inputs, targets)."""
        inputs, targets = _pair(batch)
        outputs = call_model(model, inputs)
        if outputs.shape != targets.shape:
            raise ValueError(
                f"the model's output has shape {tuple(outputs.shape)} but the targets have {tuple(targets.shape)}; "
                "they must be equal (no broadcasting): reshape the targets or the output"
            )
        rss = (outputs - targets).square().sum()
        value, examples, residuals = rss.detach(), len(targets), targets.numel()
        return Evaluation(
            log_likelihood=rss * (-0.5 / sigma**2),
            examples=examples,
            loss=value / residuals,
            rss=value,
            residuals_per_example=residuals // examples,
        )

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Second derivative of the log-likelihood with respect to each output."""
        return torch.full_like(outputs, -1.0 / sigma**2)

    def next_sigma(self, residuals: int, weights: int, rss: float, spike: float, slab: float) -> float:
        """Where sigma would go if it were optimised now.

        Parameters
        ----------
        residuals, weights
            N*d, and the number of weights under a spike-and-slab prior.
        rss
            The residual sum of squares of the whole data set, or N/n times that of a batch.
        spike, slab
            sum kappa0*|beta| and sum kappa1*beta^2.
        """
        return sigma_root(residuals + weights + self.nu, spike, rss + slab + self.nu * self.lambda_)


@dataclass(frozen=True)
class CategoricalLikelihood:
    """Classification with logits of shape (n, classes, ...) and integer targets of shape (n, ...).

    There is no noise level: sigma is 1.
    """

    @property
    def sigma(self) -> float:
        """1: the scale of the spike-and-slab prior."""
        return 1.0

    @property
    def learn(self) -> bool:
        """False: there is nothing to learn."""
        return False

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> Evaluation:
        """Negative cross entropy of a batch (inputs, targets)."""
        inputs, targets = _pair(batch)
        logits = call_model(model, inputs)
        wanted = logits.shape[:1] + logits.shape[2:]
        if logits.dim() < 2 or targets.shape != wanted or targets.is_floating_point():
            raise ValueError(
                f"logits of shape {tuple(logits.shape)} need integer targets of shape {tuple(wanted)}, "
                f"got {targets.dtype} of shape {tuple(targets.shape)}"
            )
        try:
            total = functional.cross_entropy(logits, targets.long(), reduction="sum")
        except IndexError as error:
            raise ValueError(
                f"targets run from {int(targets.min())} to {int(targets.max())}, "
                f"but the model has {logits.shape[1]} classes (0 to {logits.shape[1] - 1})"
            ) from error
        return Evaluation(-total, targets.shape[0], total.detach() / targets.numel())

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Second derivative of the log-likelihood with respect to each logit."""
        share = outputs.softmax(1)
        return share * (share - 1)


@dataclass(frozen=True)
class FunctionLikelihood:
    """A user's own log-likelihood: ``function(model, batch)`` gives one value per example."""

    function: LogLikelihood
    sigma: float = 1.0
    learn: bool = False

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> Evaluation:
        """Sum the function's values over the batch."""
        values = self.function(model, batch)
        if not isinstance(values, Tensor) or values.dim() != 1 or not len(values):
            seen = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                "a log-likelihood function must return a 1-D tensor with one value per example, "
                f"so that the sampler can scale by num_data/n; got {seen}. Do not sum or average over the batch."
            )
        total = values.sum()
        return Evaluation(total, len(values), -total.detach() / len(values))


def as_likelihood(likelihood: Likelihood | LogLikelihood) -> Likelihood:
    """Wrap a plain function; leave a likelihood as it is."""
    if isinstance(likelihood, type):
        raise TypeError(f"pass an instance, {likelihood.__name__}(), not the class")
    if isinstance(likelihood, Likelihood):
        if likelihood.learn and not isinstance(likelihood, GaussianLikelihood):
            raise TypeError(
                f"only GaussianLikelihood can learn sigma; {type(likelihood).__name__} must have learn=False"
            )
        return likelihood
    if callable(likelihood):
        return FunctionLikelihood(likelihood)
    raise TypeError(
        "the likelihood must be GaussianLikelihood(), CategoricalLikelihood() or a function (model, batch) -> one "
        f"log-likelihood per example, got {likelihood!r}"
    )


def sigma_root(a: float, b: float, c: float) -> float:
    """Positive root of ``a s^2 - b s - c = 0`` for a, c > 0 and b >= 0.

    Examples
    --------
    >>> sigma_root(1.0, 1.0, 2.0)
    2.0
    """
    return (b + math.sqrt(b * b + 4.0 * a * c)) / (2.0 * a)


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


def _pair(batch: Any) -> tuple[Any, Tensor]:
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
