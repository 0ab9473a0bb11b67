r"""Class probabilities of a posterior, and how much of their uncertainty is due to the parameters.

With weights w_s that sum to 1 and p_s = softmax(F(x; beta_s)):

    probabilities        p = sum_s w_s p_s
    entropy              H(p), all of the uncertainty about a label, in nats
    mutual information   H(p) - sum_s w_s H(p_s), the part due to the parameters, which more data could remove

All are accumulated sample by sample, so that memory does not grow with the number of samples.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sparse_langevin.posterior.classification import entropy
from sparse_langevin.posterior.encoding import Sample
from sparse_langevin.posterior.predictive import Predictive, Samples


@dataclass(frozen=True)
class Classification:
    """Predicted class probabilities at some inputs; there is no observation noise in them."""

    probabilities: Tensor
    """Mean over the posterior samples, of shape (n, classes, ...)."""
    std: Tensor
    """Their standard deviation over the samples, of the same shape."""
    classes: Tensor
    """The most probable class, of shape (n, ...)."""
    entropy: Tensor
    """Entropy of the mean probabilities in nats, of shape (n, ...)."""
    mutual_information: Tensor
    """The part of the entropy that is due to the parameters, of shape (n, ...)."""
    samples: int
    """Number of posterior samples used."""


def classify(
    samples: Samples, model: nn.Module, inputs: Any, *, batch_size: int | None = None, statistics: Any = None
) -> Classification:
    """Return the class probabilities of a model whose outputs are logits (n, classes, ...).

    Parameters
    ----------
    samples
        A `PosteriorBank`, or a list of its samples.
    model
        The model that was sampled. It is called in eval mode.
    inputs
        A tensor, a tuple of positional inputs, or a mapping of named inputs.
    batch_size
        Number of examples in one call of the model; None for all at once.
    statistics
        Training inputs for BatchNorm layers, see `Predictive`.
    """
    dtype, total, expected = torch.float32, 0.0, torch.zeros(())

    def softmax(logits: Tensor) -> Tensor:
        nonlocal dtype
        if logits.dim() < 2 or logits.shape[1] < 2:
            raise ValueError(
                f"classes need logits of shape (n, classes, ...) with two classes or more, but the model's output has "
                f"shape {tuple(logits.shape)}: give it one output per class, or use predict"
            )
        dtype = logits.dtype
        return logits.cpu().double().softmax(1)

    def observe(sample: Sample, probabilities: Tensor) -> None:
        nonlocal total, expected
        if not bool(torch.isfinite(probabilities).all()):
            raise FloatingPointError(
                f"the logits of the sample of chain {sample.chain}, step {sample.step} are not finite: check the "
                "inputs, or leave the sample out"
            )
        total += sample.weight
        expected = expected + sample.weight * torch.from_numpy(entropy(probabilities.numpy()))

    options = {"batch_size": batch_size, "statistics": statistics}
    made = Predictive(samples, model, inputs, transform=softmax, **options).moments(observe)
    assert made.std is not None
    whole = torch.from_numpy(entropy(made.mean.numpy()))
    return Classification(
        probabilities=made.mean.to(dtype),
        std=made.std.to(dtype),
        classes=made.mean.argmax(1),
        entropy=whole.to(dtype),
        mutual_information=(whole - expected / total).clamp(min=0).to(dtype),
        samples=made.samples,
    )
