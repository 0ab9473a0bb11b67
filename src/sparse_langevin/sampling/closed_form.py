"""The gradient of a single linear layer under Gaussian noise, without automatic differentiation.

For a layer of a few hundred weights, building the graph and differentiating it would take most of the time of a step.
With r = F(x) - y the gradient of the residual sum of squares is 2 r'x for the weights and 2 sum r for the bias.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.likelihoods import BatchEvaluation, GaussianLikelihood, Likelihood


class LinearGradient:
    """Evaluates batches for a model that is one `nn.Linear`, and writes the gradient to ``flat.grad``."""

    def __init__(self, layer: nn.Linear, flat: FlatParameters) -> None:
        self._layer = layer
        views = flat.views(flat.grad)
        self._weight, self._bias = views["weight"], views.get("bias")

    @classmethod
    def of(cls, model: nn.Module, likelihood: Likelihood, flat: FlatParameters) -> "LinearGradient | None":
        """Return a `LinearGradient` if the model and the likelihood allow it, otherwise None."""
        known = type(model) is nn.Linear and type(likelihood) is GaussianLikelihood
        if not known or not all(p.requires_grad for p in model.parameters()):
            return None
        assert isinstance(model, nn.Linear)
        return cls(model, flat)

    def __call__(self, data: Any, sigma: float, scale: Callable[[int], float]) -> BatchEvaluation | None:
        """Write N/n times minus the gradient of the log-likelihood; return None if the batch is not two matrices."""
        layer = self._layer
        # A hook may change the output; only autograd can differentiate that.
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
            return None
        if type(data) not in (tuple, list) or len(data) != 2:
            return None
        x, y = data
        if not (isinstance(x, Tensor) and isinstance(y, Tensor) and x.dim() == y.dim() == 2):
            return None
        examples, outputs = y.shape  # len of a tensor takes microseconds
        if x.shape[0] != examples or not examples or outputs != layer.out_features:
            return None
        if x.dtype != self._weight.dtype or y.dtype != x.dtype:
            return None
        with torch.no_grad():
            residual = functional.linear(x, layer.weight, layer.bias).sub_(y)
            flat = residual.view(-1)
            rss = torch.dot(flat, flat)
            residual.mul_(scale(examples) / sigma**2)
            torch.mm(residual.t(), x, out=self._weight)
            if self._bias is not None:
                torch.sum(residual, 0, out=self._bias)
        return BatchEvaluation(rss * (-0.5 / sigma**2), examples, rss / y.numel(), rss, outputs)
