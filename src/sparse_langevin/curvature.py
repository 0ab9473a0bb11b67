r"""The diagonal of the Hessian of minus the log-likelihood, for the Gamma correction.

For one linear layer o = W x + b it is exact and cheap: h_(cj) = -sum_i x_ij^2 d^2 l_i/d o_ic^2. For anything else
Hutchinson's estimate z*(Hz), with z of random signs, is unbiased and costs one Hessian-vector product.
"""

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class HasOutputCurvature(Protocol):
    """A likelihood that knows its second derivative with respect to the model's outputs."""

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Second derivative of the log-likelihood with respect to each output."""


def choose_method(wanted: str, model: nn.Module, likelihood: object) -> Literal["exact", "hutchinson"]:
    """Pick the exact diagonal where it is available."""
    possible = isinstance(model, nn.Linear) and isinstance(likelihood, HasOutputCurvature)
    if wanted == "exact" and not possible:
        raise ValueError(
            "correction='exact' needs a model that is one nn.Linear and a Gaussian or categorical likelihood, got "
            f"{type(model).__name__} and {type(likelihood).__name__}: use correction='hutchinson'"
        )
    return "exact" if possible and wanted != "hutchinson" else "hutchinson"


def linear_diagonal(
    model: nn.Linear,
    likelihood: HasOutputCurvature,
    inputs: Tensor,
    sigma: float,
    parameters: Sequence[Tensor],
) -> list[Tensor]:
    """Exact diagonal for the weight and the bias of one linear layer, in the order of ``parameters``."""
    with torch.no_grad():
        second = -likelihood.output_curvature(model(inputs), sigma)
        weight = torch.einsum("...c,...j->cj", second, inputs.square())
        bias = second.reshape(-1, second.shape[-1]).sum(0)
    return [weight if parameter is model.weight else bias for parameter in parameters]


def hutchinson_diagonal(
    gradients: Sequence[Tensor], parameters: Sequence[Tensor], probe: Sequence[Tensor]
) -> list[Tensor]:
    """Estimate the diagonal as probe * (Hessian @ probe); ``gradients`` must carry their graph."""
    product: Any = torch.zeros((), dtype=probe[0].dtype, device=probe[0].device)
    for gradient, sign in zip(gradients, probe, strict=True):
        if gradient.requires_grad:
            product = product + (gradient * sign).sum()
    if not product.requires_grad:
        return [torch.zeros_like(sign) for sign in probe]
    columns = torch.autograd.grad(product, list(parameters), materialize_grads=True, allow_unused=True)
    return [column * sign for column, sign in zip(columns, probe, strict=True)]
