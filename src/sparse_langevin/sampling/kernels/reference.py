r"""The update in plain torch operations, on any device: the definition that the other engines must agree with.

U is the potential (minus the log posterior), so the paper's g is -dU/dbeta:

    u    = dU/dbeta                                   the caller computes the likelihood part; the prior's is added here
    step = -eps*(G*u - Gamma/tau) + sqrt(2*eps*G/tau)*z
    beta = beta + step

G and Gamma come from the metric, see `metrics`. Afterwards the prior updates its vectors with the new weights, see
`priors`.

With momentum c this is underdamped Langevin dynamics, integrated by the BAOAB splitting (Leimkuhler and Matthews,
2013). The velocity is scaled to variance 1/tau, whatever step and metric:

    w        = sqrt(2*eps*G*(1 - c)/(1 + c))          so that weights travel as far as without momentum
    velocity = velocity - w*u                         a kick by the gradient (B)
    beta     = beta + w/2*velocity                    half a step (A)
    velocity = c*velocity + sqrt((1 - c^2)/tau)*z     friction and noise (O)
    beta     = beta + w/2*velocity                    the other half (A)

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
    """The velocity, scaled to variance 1/tau, or None without momentum."""
    curvature: Tensor | None = None
    """Diagonal Hessian of minus the log-likelihood, or None without Gamma."""
    keep: Tensor | None = None
    """Mask that is False where a weight is held at zero, or None."""
    numbers: tuple[float, ...] = ()
    """The prior's numbers in this step."""
    arrays: tuple[Any, ...] = ()
    """What an engine caches between steps; the native engine keeps the tensors as NumPy arrays."""

    def vectors(self) -> dict[str, Tensor]:
        """Return the prior's and the metric's vectors by name."""
        return dict(zip(self.prior.vectors + self.metric.vectors, self.latent + self.moments, strict=True))

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


def _move(block: BlockState, u: Tensor, step: StepScalars, z: Tensor | None) -> tuple[Tensor, Tensor]:
    """Move the weights by one Langevin step; return the squared norms of the two parts of the step without momentum."""
    beta = block.beta
    inverse = block.metric.inverse(u, block.moments, step.metric)
    drift = u if inverse is None else u / inverse
    if block.velocity is None:
        _add_scaled(beta, u, -step.step_size) if inverse is None else _add_quotient(beta, u, inverse, -step.step_size)
        if block.curvature is not None and inverse is not None:
            whole = block.curvature + block.prior.curvature(beta, block.latent, block.numbers)
            correction = block.metric.gamma(u, whole, block.moments, inverse, step.metric)
            correction.div_(step.tau)
            beta.add_(correction * step.step_size)
            drift.sub_(correction)
    root = None if inverse is None else inverse.sqrt_()
    noise = None
    if z is not None:
        scale = (2.0 * step.step_size / step.tau) ** 0.5
        noise = z * scale if root is None else (z * scale).div_(root)
    if block.velocity is not None:
        _splitting_step(block, u, root, step, z)
    elif noise is not None:
        beta.add_(noise)
    if block.keep is not None:
        for vector in (beta, block.velocity):
            if vector is not None:
                vector.masked_fill_(~block.keep, 0.0)
        drift = drift * block.keep
        noise = noise * block.keep if noise is not None else None
    drift_square = torch.dot(drift, drift) * step.step_size**2
    return drift_square, torch.zeros_like(drift_square) if noise is None else torch.dot(noise, noise)


def _splitting_step(block: BlockState, u: Tensor, root: Tensor | None, step: StepScalars, z: Tensor | None) -> None:
    """One step of BAOAB; ``root`` is sqrt(1/G)."""
    velocity, c = block.velocity, step.momentum
    assert velocity is not None
    time: Any = (2.0 * step.step_size * (1.0 - c) / (1.0 + c)) ** 0.5
    width = time if root is None else time / root
    velocity.sub_(u * width)
    moved = velocity.clone()
    velocity.mul_(c)
    if z is not None:
        velocity.add_(z * ((1.0 - c * c) / step.tau) ** 0.5)
    block.beta.add_(moved.add_(velocity) * (0.5 * width))


def _add_scaled(x: Tensor, y: Tensor, factor: float) -> None:
    """Add factor*y to x, rounded as in `torch.optim` except under torch.compile, where the factor is a tensor."""
    x.add_(y * factor) if isinstance(factor, Tensor) else x.add_(y, alpha=factor)


def _add_quotient(x: Tensor, y: Tensor, z: Tensor, factor: float) -> None:
    """Add factor*y/z to x, likewise."""
    x.add_(y / z * factor) if isinstance(factor, Tensor) else x.addcdiv_(y, z, value=factor)
