r"""The update in plain torch operations, on any device: the definition that the other engines must agree with.

U is the potential (minus the log posterior), so the paper's g is -dU/dbeta:

    u    = dU/dbeta                                   the caller computes the likelihood part; the prior's is added here
    step = -eps*(G*u - Gamma/tau) + sqrt(2*eps*G/tau)*z
    beta = beta + step

G and Gamma come from the metric, see `metrics`. Afterwards the prior updates its vectors with the new weights, see
`priors`.

With momentum mu the weights move by the running average of their steps, which is underdamped Langevin dynamics:

    velocity = mu*velocity + (1 - mu)*step,    beta = beta + velocity

Gamma is divided by tau because the chain targets exp(-tau*U), and the drift that leaves this invariant under noise of
covariance 2*eps*G/tau is -G*dU + Gamma/tau. For tau = 1 this is the paper's equation.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparse_langevin.sampling.metrics import Metric
from sparse_langevin.sampling.priors import Prior


@dataclass(slots=True)
class BlockState:
    """Everything that the update of one block reads and writes, as views."""

    prior: Prior
    metric: Metric
    beta: Tensor
    grad: Tensor
    """Gradient of minus the log-likelihood; engines may overwrite it."""
    start: int = 0
    """Index of the block's first weight among all weights, where the block's noise begins too."""
    latent: tuple[Tensor, ...] = ()
    """The prior's vectors, in its order."""
    moments: tuple[Tensor, ...] = ()
    """The metric's vectors, in its order."""
    velocity: Tensor | None = None
    """Running average of the steps, or None without momentum."""
    curvature: Tensor | None = None
    """Diagonal Hessian of minus the log-likelihood, or None without Gamma."""
    keep: Tensor | None = None
    """Mask that is False where a weight is held at zero, or None."""
    numbers: tuple[float, ...] = ()
    """The prior's numbers in this step."""
    arrays: tuple[Any, ...] = ()
    """What an engine caches between steps; the native engine keeps the tensors as NumPy arrays."""

    @property
    def span(self) -> slice:
        """The block's slice of a vector of all weights."""
        return slice(self.start, self.start + len(self.beta))


class StepScalars(NamedTuple):
    """The scalars of one step, shared by all blocks: numbers, or 0-d float64 tensors under torch.compile."""

    step_size: float
    tau: float
    omega: float
    momentum: float = 0.0
    metric: tuple[float, ...] = ()
    """The metric's numbers."""


class Sums(NamedTuple):
    """Sums over one block, after the update."""

    included: float
    """Sum of the inclusion probabilities."""
    linear: float
    """The prior's contribution to B in the equation for sigma."""
    quadratic: float
    """The prior's contribution to C."""
    drift: float
    """Squared norm of the deterministic part of the step."""
    noise: float
    """Squared norm of the random part of the step."""


def update(block: BlockState, step: StepScalars, z: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Update ``block`` in place by one step; return its `Sums` as 0-d tensors, so that nothing waits for the device.

    ``z`` holds standard normal numbers; it is None at infinite tau.
    """
    u = block.prior.add_gradient(block.grad, block.beta, block.latent, block.numbers)
    drift, noise = _move(block, u, step, z)
    sums = block.prior.update(block.beta, block.latent, block.numbers, step.omega)
    if sums is None:
        zero = torch.zeros_like(drift)
        sums = zero, zero, zero
    return *sums, drift, noise


def _move(block: BlockState, u: Tensor, step: StepScalars, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Move the weights by one Langevin step; return the squared norms of its two parts, before momentum."""
    beta = block.beta
    moved, share = (beta, 1.0) if block.velocity is None else (block.velocity.mul_(step.momentum), 1.0 - step.momentum)
    step_size = step.step_size * share
    inverse = block.metric.inverse(u, block.moments, step.metric)
    if inverse is None:
        drift = u
        _add_scaled(moved, u, -step_size)
    else:
        _add_quotient(moved, u, inverse, -step_size)
        drift = u / inverse
        if block.curvature is not None:
            whole = block.curvature + block.prior.curvature(beta, block.latent, block.numbers)
            correction = block.metric.gamma(u, whole, block.moments, inverse, step.metric)
            correction.div_(step.tau)
            moved.add_(correction * step_size)
            drift.sub_(correction)
    if noise is not None:
        scale = (2.0 * step.step_size / step.tau) ** 0.5
        noise = noise * scale if inverse is None else (noise * scale).div_(inverse.sqrt_())
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


def _add_scaled(x: Tensor, y: Tensor, factor: float) -> None:
    """Add factor*y to x, rounded as in `torch.optim` except under torch.compile, where the factor is a tensor."""
    x.add_(y * factor) if isinstance(factor, Tensor) else x.add_(y, alpha=factor)


def _add_quotient(x: Tensor, y: Tensor, z: Tensor, factor: float) -> None:
    """Add factor*y/z to x, likewise."""
    x.add_(y / z * factor) if isinstance(factor, Tensor) else x.addcdiv_(y, z, value=factor)
