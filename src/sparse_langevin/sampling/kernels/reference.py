r"""The update in plain torch operations: readable, on any device, the definition that other engines must equal.

With U the potential (minus the log posterior), so that the paper's g is -dU/dbeta:

    u    = dU/dbeta                                             likelihood part from the caller, prior part added here
    V    = alpha V + (1 - alpha) u*u,    G = 1/(eta + sqrt(V))  (no preconditioner: G = 1)
    step = -eps*(G*u - Gamma/tau) + sqrt(2*eps*G/tau)*z
    beta = beta + step
    rho, s                                                      from the new beta, see `priors`

With momentum mu the weights move by the running average of their steps, which is underdamped Langevin dynamics:

    velocity = mu*velocity + (1 - mu)*step,    beta = beta + velocity

Gamma is divided by tau because the chain targets exp(-tau*U), and the drift that keeps this invariant under noise of
covariance 2*eps*G/tau is -G*dU + Gamma/tau. At tau = 1 it is the paper's equation.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparse_langevin.sampling.preconditioners import gamma
from sparse_langevin.sampling.priors import GaussianPrior, Prior, inclusion_from, quadratic_terms, spike_slab_gradient


@dataclass(slots=True)
class BlockState:
    """Views of one block: everything the update reads and writes."""

    prior: Prior
    beta: Tensor
    grad: Tensor
    """Gradient of minus the log-likelihood; engines may overwrite it."""
    start: int = 0
    """The block's place in the vector of all weights, which is where its noise begins."""
    v: Tensor | None = None
    """Second moments of the gradient, or None without a preconditioner."""
    velocity: Tensor | None = None
    """Running average of the steps, or None without momentum."""
    curvature: Tensor | None = None
    """Diagonal Hessian of minus the log-likelihood, when Gamma is on."""
    rho: Tensor | None = None
    s: Tensor | None = None
    log_odds: float = 0.0
    """Log-odds of inclusion of a weight at zero, see `SpikeSlab.log_odds_at_zero`."""
    keep: Tensor | None = None
    """False where a weight is held at zero."""
    arrays: tuple[Any, ...] = ()
    """What an engine keeps of the block from step to step: the native one its tensors as NumPy arrays."""

    @property
    def span(self) -> slice:
        """The block's slice of a vector of all weights."""
        return slice(self.start, self.start + len(self.beta))


class StepScalars(NamedTuple):
    """What all blocks share in one step: numbers, or 0-d tensors of float64 under torch.compile."""

    first: bool
    step_size: float
    tau: float
    omega: float
    sigma: float
    alpha: float = 0.0
    eta: float = 0.0
    momentum: float = 0.0


class Sums(NamedTuple):
    """Reductions over one block, after the update."""

    rho: float
    spike: float
    """sum kappa0*|beta|"""
    slab: float
    """sum kappa1*beta^2"""
    drift: float
    """squared norm of the deterministic part of the step"""
    noise: float
    """squared norm of the random part of the step"""


def update(block: BlockState, step: StepScalars, z: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Take one step with ``block`` in place; return its `Sums` as 0-d tensors, so that nothing waits for the device.

    ``z`` holds standard normal numbers; None at infinite tau.
    """
    drift, noise = _move(block, step, z)
    if block.rho is None or block.s is None or isinstance(block.prior, GaussianPrior):
        zero = torch.zeros_like(drift)
        return zero, zero, zero, drift, noise
    prior = block.prior
    included = inclusion_from(block.beta, prior, step.sigma, block.log_odds)
    block.rho.mul_(1.0 - step.omega).add_(included * step.omega)
    block.s.mul_(1.0 - step.omega).add_(block.rho * step.omega)
    spike, slab = quadratic_terms(block.beta, block.s, prior)
    return block.rho.sum(), spike, slab, drift, noise


def _move(block: BlockState, step: StepScalars, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Langevin step of the weights; squared norms of its two parts, before momentum."""
    beta, u = block.beta, _potential_gradient(block, step.sigma)
    moved, share = (beta, 1.0) if block.velocity is None else (block.velocity.mul_(step.momentum), 1.0 - step.momentum)
    step_size = step.step_size * share
    if block.v is None:
        drift = u
        _add_scaled(moved, u, -step_size)
    else:
        alpha = 0.0 if step.first else step.alpha
        _add_product(block.v.mul_(alpha), u, u, 1.0 - alpha)
        root = block.v.sqrt()
        inverse_metric = root + step.eta
        _add_quotient(moved, u, inverse_metric, -step_size)
        drift = u / inverse_metric
        if block.curvature is not None:
            correction = gamma(u, _posterior_curvature(block, step.sigma), root, step.eta, alpha)
            correction.div_(step.tau)
            moved.add_(correction * step_size)
            drift.sub_(correction)
    if noise is not None:
        scale = (2.0 * step.step_size / step.tau) ** 0.5
        noise = noise * scale if block.v is None else (noise * scale).div_(inverse_metric.sqrt_())
        _add_scaled(moved, noise, share)
    if block.velocity is not None:
        beta.add_(block.velocity)
    if block.keep is not None:
        for vector in (beta, block.velocity):
            if vector is not None:
                vector.masked_fill_(~block.keep, 0.0)
        drift = drift * block.keep
        noise = noise * block.keep if noise is not None else None
    drift_square = torch.dot(drift, drift) * step.step_size**2
    return drift_square, torch.zeros_like(drift_square) if noise is None else torch.dot(noise, noise)


def _potential_gradient(block: BlockState, sigma: float) -> Tensor:
    """Add the prior's part to the gradient, in place."""
    if isinstance(block.prior, GaussianPrior):
        return block.grad.add_(block.beta, alpha=block.prior.precision)
    assert block.s is not None
    return block.grad.add_(spike_slab_gradient(block.beta, block.s, block.prior, sigma))


def _posterior_curvature(block: BlockState, sigma: float) -> Tensor:
    """Diagonal Hessian of minus the log posterior; the Laplace part has none away from zero."""
    assert block.curvature is not None
    if isinstance(block.prior, GaussianPrior):
        return block.curvature + block.prior.precision
    assert block.s is not None
    return block.curvature + block.s * (1.0 / (block.prior.v1 * sigma**2))


def _add_scaled(x: Tensor, y: Tensor, factor: float) -> None:
    """Add factor*y to x, rounded as in `torch.optim`; under torch.compile, where factors are tensors, as it likes."""
    x.add_(y * factor) if isinstance(factor, Tensor) else x.add_(y, alpha=factor)


def _add_product(x: Tensor, y: Tensor, z: Tensor, factor: float) -> None:
    """Add factor*y*z to x."""
    x.add_(y * z * factor) if isinstance(factor, Tensor) else x.addcmul_(y, z, value=factor)


def _add_quotient(x: Tensor, y: Tensor, z: Tensor, factor: float) -> None:
    """Add factor*y/z to x."""
    x.add_(y / z * factor) if isinstance(factor, Tensor) else x.addcdiv_(y, z, value=factor)
