r"""Gaussian noise: y_i ~ N(F(x_i; beta), sigma^2 I_d), with sigma^2 ~ InverseGamma(nu/2, nu*lambda/2).

Sigma is the positive root of A s^2 - B s - C = 0 (see `mixture.sigma_root`), with

    A = N*d + weights that scale with sigma + nu,   B = sum linear,   C = RSS + sum quadratic + nu*lambda.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sparse_langevin.sampling.likelihoods.base import BatchEvaluation, as_pair, call_model
from sparse_langevin.sampling.mixture import sigma_root


@dataclass(frozen=True)
class GaussianLikelihood:
    r"""Regression with Gaussian noise, y ~ N(F(x), sigma^2 I), responses of any shape.

    Parameters
    ----------
    sigma
        The initial noise level, or the fixed one. None (default) starts from the data: the root mean square of the
        residuals of the first batch. If sigma is not learned, it is 1.
    learn
        Whether to learn sigma by stochastic approximation (the default) or to keep it fixed.
    nu
        Weight of the prior sigma^2 ~ InverseGamma(nu/2, nu*lambda/2), as a number of observations.
    lambda_
        The variance that this prior expects.
    """

    additive_noise: ClassVar = True

    sigma: float | None = None
    learn: bool = True
    nu: float = 1.0
    lambda_: float = 1.0

    def __post_init__(self) -> None:
        for name in ("sigma", "nu", "lambda_"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"GaussianLikelihood.{name} must be a positive number, got {value!r}")
        if self.sigma is None and not self.learn:
            object.__setattr__(self, "sigma", 1.0)

    def evaluate(self, model: nn.Module, batch: Any, sigma: float) -> BatchEvaluation:
        """Return the log-likelihood and the sum of squared residuals of a batch (inputs, targets)."""
        inputs, targets = as_pair(batch)
        outputs = call_model(model, inputs)
        if outputs.shape != targets.shape:
            raise ValueError(
                f"the model's output has shape {tuple(outputs.shape)} but the targets have shape "
                f"{tuple(targets.shape)}: reshape one of them, since they are not broadcast"
            )
        rss = (outputs - targets).square().sum()
        value, examples, residuals = rss.detach(), len(targets), targets.numel()
        return BatchEvaluation(
            log_likelihood=rss * (-0.5 / sigma**2),
            examples=examples,
            loss=value / residuals,
            rss=value,
            residuals_per_example=residuals // examples,
        )

    def initial_sigma(self, model: nn.Module, batch: Any) -> float:
        """Return the root mean square of the residuals of a batch."""
        with torch.no_grad():
            sigma = float(self.evaluate(model, batch, 1.0).loss) ** 0.5
        return sigma if 0 < sigma < math.inf else 1.0

    def output_curvature(self, outputs: Tensor, sigma: float) -> Tensor:
        """Return the second derivative of the log-likelihood with respect to each output."""
        return torch.full_like(outputs, -1.0 / sigma**2)

    def next_sigma(self, residuals: int, weights: int, rss: float, linear: float, quadratic: float) -> float:
        """Return the mode of sigma given everything else, towards which the stochastic approximation moves.

        Parameters
        ----------
        residuals
            Number of residuals N*d, where d is the dimension of one response.
        weights
            Number of weights under priors that scale with sigma.
        rss
            The sum of squared residuals of the whole data set, or N/n times that of a batch.
        linear
            The priors' contribution to B in the equation for sigma, such as sum kappa0*|beta|.
        quadratic
            The priors' contribution to C, such as sum kappa1*beta^2.
        """
        return sigma_root(residuals + weights + self.nu, linear, rss + quadratic + self.nu * self.lambda_)
