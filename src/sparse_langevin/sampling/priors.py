r"""Priors: the drift they give to the weights, and the latent variables of the spike and slab.

Gaussian:      beta ~ N(0, sigma0^2)
Spike-slab:    beta | gamma ~ (1 - gamma) Laplace(0, sigma*v0) + gamma N(0, sigma^2*v1),
               gamma ~ Bernoulli(delta), delta ~ Beta(a, b), one delta per layer.

The chain never sees gamma; it sees expectations, tracked by stochastic approximation with step omega:

    r     = P(gamma = 1 | beta)                      `inclusion_odds`, from the weights just sampled
    rho   = (1 - omega) rho + omega r                estimates E[gamma]
    s     = (1 - omega) s + omega rho                the same average once more, so that
    kappa0 = (1 - s)/v0,  kappa1 = s/v1              are the paper's two vectors, kept in one
    delta = (1 - omega) delta + omega * target       `SpikeSlab.delta_target`

and the drift is -(kappa0*sign(beta)/sigma + kappa1*beta/sigma^2).
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class GaussianPrior:
    """Independent normal prior N(0, sigma0^2); ``sigma0=math.inf`` is a flat prior."""

    sigma0: float = 1.0

    def __post_init__(self) -> None:
        if not self.sigma0 > 0:
            raise ValueError(f"GaussianPrior.sigma0 must be positive (math.inf for a flat prior), got {self.sigma0!r}")

    @property
    def precision(self) -> float:
        """One over the variance."""
        return self.sigma0**-2


@dataclass(frozen=True)
class SpikeSlab:
    r"""Laplace spike and Gaussian slab, with the inclusion probabilities learned.

    Parameters
    ----------
    v0
        Scale of the spike: Laplace(0, sigma*v0).
    v1
        Variance factor of the slab: N(0, sigma^2*v1).
    a, b
        The prior delta ~ Beta(a, b). ``b=None`` takes the layer's number of weights, as the paper does.
    delta
        Inclusion probability to start from; rho and s start there too.
    delta_update
        ``"mean"`` (default) moves delta towards its posterior mean (sum rho + a)/(a + b + p). ``"mode"`` is the
        paper's (sum rho + a - 1)/(a + b + p - 2), which runs to zero with a = 1 and takes every weight with it.
        ``"fixed"`` keeps delta.
    """

    v0: float = 0.1
    v1: float = 10.0
    a: float = 1.0
    b: float | None = None
    delta: float = 0.5
    delta_update: Literal["mean", "mode", "fixed"] = "mean"

    def __post_init__(self) -> None:
        for name in ("v0", "v1", "a", "b"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"SpikeSlab.{name} must be a positive number, got {value!r}")
        if not 0 < self.delta < 1:
            raise ValueError(f"SpikeSlab.delta must lie strictly between 0 and 1, got {self.delta!r}")
        if self.delta_update not in ("mean", "mode", "fixed"):
            raise ValueError(f"SpikeSlab.delta_update must be 'mean', 'mode' or 'fixed', got {self.delta_update!r}")

    @property
    def slab_is_narrower(self) -> bool:
        """Whether the slab has the higher density at zero, so that rho is no inclusion probability."""
        return self.log_ratio_at_zero > 0

    @property
    def log_ratio_at_zero(self) -> float:
        """Equals log N(0; 0, sigma^2 v1) - log Laplace(0; 0, sigma v0); sigma cancels."""
        return math.log(2.0 * self.v0) - 0.5 * math.log(2.0 * math.pi * self.v1)

    def log_odds_at_zero(self, delta: float) -> float:
        """Log-odds of inclusion of a weight at zero; finite for any delta in [0, 1]."""
        tiny = 1e-300
        return self.log_ratio_at_zero + math.log(max(delta, tiny)) - math.log(max(1.0 - delta, tiny))

    def delta_target(self, sum_rho: float, size: int, delta: float) -> float:
        """Where delta would go if it were optimised now."""
        b = float(size) if self.b is None else self.b
        if self.delta_update == "fixed":
            return delta
        if self.delta_update == "mean":
            return (sum_rho + self.a) / (self.a + b + size)
        return (sum_rho + self.a - 1.0) / (self.a + b + size - 2.0)


Prior = GaussianPrior | SpikeSlab


def spike_slab_gradient(beta: Tensor, s: Tensor, prior: SpikeSlab, sigma: float) -> Tensor:
    """Gradient of minus the log prior: kappa0*sign(beta)/sigma + kappa1*beta/sigma^2."""
    spike = (1.0 - s).mul_(1.0 / (prior.v0 * sigma)).mul_(beta.sign())
    return spike.add_((s * beta).mul_(1.0 / (prior.v1 * sigma**2)))


def inclusion_odds(beta: Tensor, prior: SpikeSlab, sigma: float, delta: float) -> Tensor:
    """P(gamma = 1 | beta) through log-odds; the quotient of densities would underflow to 0/0."""
    return inclusion_from(beta, prior, sigma, prior.log_odds_at_zero(delta))


def inclusion_from(beta: Tensor, prior: SpikeSlab, sigma: float, log_odds_at_zero: float) -> Tensor:
    """P(gamma = 1 | beta), from the log-odds of a weight at zero."""
    log_odds = beta.abs().mul_(1.0 / (sigma * prior.v0)).add_(log_odds_at_zero)
    return torch.sigmoid_(log_odds.add_(beta.square().mul_(-0.5 / (sigma**2 * prior.v1))))


def quadratic_terms(beta: Tensor, s: Tensor, prior: SpikeSlab) -> tuple[Tensor, Tensor]:
    """Return sum kappa0*|beta| and sum kappa1*beta^2, the prior's part in the equation for sigma."""
    spike = torch.dot(1.0 - s, beta.abs()) / prior.v0
    slab = torch.dot(s, beta.square()) / prior.v1
    return spike, slab
