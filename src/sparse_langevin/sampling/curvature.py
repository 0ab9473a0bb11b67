r"""The curvature of minus the log-likelihood at each weight.

For the Gamma correction, the diagonal of the Hessian. For one linear layer o = W x + b it is cheap and exact:
h_(cj) = -sum_i x_ij^2 d^2 l_i/d o_ic^2. For any other model Hutchinson's estimate z*(Hz), with a vector z of random
signs, is unbiased and costs one Hessian-vector product.

For the start of a metric, its size: the root mean square of (Hz)_i over a few z, from differences of gradients. That is
the length of a row of H, at least the diagonal, for any model that has a gradient.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.kernels import BlockState
from sparse_langevin.sampling.noise import CounterNoise

PROBES = 4
SHIFT = 1e-2  # of the weights, relative to their root mean square: the gradient's rounding is far smaller


@runtime_checkable
class HasOutputCurvature(Protocol):
    """A likelihood that knows its second derivative with respect to the model's outputs."""

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Return the second derivative of the log-likelihood with respect to each output."""


class DiagonalHessian:
    """The diagonal for one model and likelihood, by the method ``wanted`` (see `RMSprop`)."""

    def __init__(self, wanted: str, model: nn.Module, likelihood: object, probes: CounterNoise) -> None:
        possible = type(model) is nn.Linear and isinstance(likelihood, HasOutputCurvature)
        if wanted == "exact" and not possible:
            raise ValueError(
                "correction='exact' needs a model that is one nn.Linear and a Gaussian or categorical likelihood, "
                f"got {type(model).__name__} and {type(likelihood).__name__}: use correction='hutchinson'"
            )
        self.exact = possible and wanted != "hutchinson"
        """Whether the diagonal is exact; if not, gradients must keep their graph."""
        self._model, self._likelihood, self._probes = model, likelihood, probes

    def __call__(
        self, flat: FlatParameters, gradients: Sequence[Tensor], scale: float, data: Any, sigma: float, step: int
    ) -> Tensor:
        """Return the diagonal for minus ``scale`` times the batch's log-likelihood, whose ``gradients`` are given."""
        if self.exact:
            assert isinstance(self._model, nn.Linear) and isinstance(self._likelihood, HasOutputCurvature)
            if not isinstance(data[0], Tensor) or data[0].dim() != 2:
                raise ValueError("the exact curvature needs inputs of shape (n, features): use correction='hutchinson'")
            columns = linear_diagonal(self._model, self._likelihood, data[0], sigma, flat.parameters)
            columns = [scale * column for column in columns]
        else:
            probe = list(flat.views(self._probes.rademacher(step)).values())
            columns = hutchinson_diagonal(gradients, flat.parameters, probe)
        return torch.cat([column.detach().reshape(-1) for column in columns])


def linear_diagonal(
    model: nn.Linear, likelihood: HasOutputCurvature, inputs: Tensor, sigma: float, parameters: Sequence[Tensor]
) -> list[Tensor]:
    """Return the exact diagonal for the weight and the bias of one linear layer, in the order of ``parameters``."""
    with torch.no_grad():
        second = -likelihood.output_curvature(model(inputs), sigma)
        weight = torch.einsum("...c,...j->cj", second, inputs.square())
        bias = second.reshape(-1, second.shape[-1]).sum(0)
    return [weight if parameter is model.weight else bias for parameter in parameters]


def hutchinson_diagonal(
    gradients: Sequence[Tensor], parameters: Sequence[Tensor], probe: Sequence[Tensor]
) -> list[Tensor]:
    """Estimate the diagonal as probe * (Hessian @ probe); ``gradients`` must have kept their graph."""
    terms = [(gradient * sign).sum() for gradient, sign in zip(gradients, probe, strict=True) if gradient.requires_grad]
    if not terms:
        return [torch.zeros_like(sign) for sign in probe]
    product = torch.stack(terms).sum()
    columns = torch.autograd.grad(product, list(parameters), materialize_grads=True, allow_unused=True)
    return [column * sign for column, sign in zip(columns, probe, strict=True)]


def curvature_size(flat: FlatParameters, gradient: Callable[[], Tensor], probes: CounterNoise, step: int) -> Tensor:
    """Return the size of the curvature at each weight.

    Parameters
    ----------
    flat
        The weights; they are moved, and moved back.
    gradient
        Returns the gradient at the current weights, with the same dropout every time.
    probes
        Gives the random signs.
    step
        Number of the step.
    """
    origin = flat.vector.clone()
    shift = SHIFT * (float(origin.norm()) / origin.numel() ** 0.5 or 1.0)
    try:
        with torch.no_grad():
            here, total = gradient(), torch.zeros_like(origin)
            for number in range(PROBES):
                flat.vector.add_(probes.rademacher(step + number), alpha=shift)
                total += ((gradient() - here) / shift).square()
                flat.vector.copy_(origin)
    finally:
        flat.vector.copy_(origin)
    return (total / PROBES).sqrt().nan_to_num_(posinf=0.0)  # a probe may overflow where the weights themselves do not


def prepare_metric(states: Sequence[BlockState], curvature: Tensor, tau: float) -> None:
    """Tell the metric the squared gradient to expect in the posterior: curvature/tau, that of the prior included."""
    for state in states:
        state.metric.prepare(state.moments, (curvature[state.span] + prior_curvature(state)) / tau)


def prior_curvature(state: BlockState) -> Tensor | float:
    """Return the curvature of a block's prior; 0 if it does not know it."""
    with suppress(NotImplementedError):
        return state.prior.curvature(state.beta, state.latent, state.numbers)
    return 0.0
