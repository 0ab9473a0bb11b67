r"""How large a step may be: from the curvature, the noise of minibatches, and the error that one can accept.

In coordinates in which the metric is 1, along a direction of curvature h in which the gradient of a minibatch has
variance C, a stationary chain with steps eps has a variance that is too large by the factor

    1 + q = (1 + eps tau C/2) / (1 - eps h/2)      plain Langevin steps
    1 + q = 1 + eps tau C/2                        with momentum; the splitting itself is exact for a Gaussian

C is about proportional to the Hessian H, and the posterior variance of weight j is at least 1/H_jj; so its error is at
most that of a direction with h = H_jj and C = C_jj. These are taken for nearly all weights (`SHARE`). Besides, the step
must be well inside the limit of stability, which depends on the largest eigenvalue of H, found by power iteration on
differences of gradients: eps h <= 1, and with momentum c a step in time of at most one over the frequency,
eps h <= (1 + c)/(2 (1 - c)).
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparse_langevin.sampling.batches import move
from sparse_langevin.sampling.curvature import SHIFT, curvature_size, prior_curvature
from sparse_langevin.sampling.sampler import Sampler

ITERATIONS = 20  # of the power method; the largest eigenvalue is then known to some percent
SHARE = 0.95  # of the weights whose deviations are to be within the error


@dataclass(frozen=True)
class StepAdvice:
    """The advice of `suggest_step_size`; print it to see the reasons."""

    step_size: float
    """The advised step size."""
    limits: dict[str, float]
    """The largest steps that stability, the error of a finite step and the noise of minibatches allow by themselves."""
    error: float
    """The error of posterior deviations that was asked for."""

    @property
    def limited_by(self) -> str:
        """What keeps the step from being larger: ``"stability"``, ``"step"`` or ``"noise"``."""
        return min(self.limits, key=self.limits.__getitem__)

    def __str__(self) -> str:
        why = {
            "stability": "stability: momentum allows larger steps",
            "step": "the error of a finite step: momentum allows larger ones",
            "noise": "the noise of the minibatches: larger batches or control variates allow larger steps",
        }[self.limited_by]
        return f"step size {self.step_size:.3g} for deviations within {self.error:.2g} of the truth, limited by {why}"


def suggest_step_size(sampler: Sampler, train: Iterable[Any], *, error: float = 0.05, batches: int = 20) -> StepAdvice:
    """Advise a step size at the sampler's present weights and noise level; the sampler is not changed.

    Call it where samples are going to be taken: after a first run, best with ``tau=math.inf`` or as a burn-in. At the
    initial weights of a network both the curvature and sigma are others than in the posterior.

    Parameters
    ----------
    sampler
        The chain.
    train
        The batches that it is going to be run on.
    error
        Wanted relative error of posterior standard deviations.
    batches
        Number of batches to look at, at most.

    Examples
    --------
    >>> x, y = torch.randn(100, 3), torch.randn(100, 1)
    >>> sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=100, step_size=1e-6)
    >>> advice = suggest_step_size(sampler, [(x, y)])
    >>> 1e-4 < advice.step_size < 1e-2
    True
    """
    if not 0 < error < 1:
        raise ValueError(f"error must be between 0 and 1, such as 0.05 for deviations within 5 %, got {error!r}")
    device = sampler.flat.vector.device
    chosen = [move(batch, device) for batch in itertools.islice(train, batches)]
    if not chosen:
        raise ValueError("the loader gave no batches, so nothing can be said about step sizes")
    scalars = sampler.timetable.at(sampler.steps + 1, sampler.preconditioner)
    tau, c, excess = min(scalars.tau, 1e30), scalars.momentum, (1.0 + error) ** 2 - 1.0
    with torch.no_grad():
        gradients = torch.stack([_with_prior(sampler, sampler.gradient(batch)) for batch in chosen])
        curvature = curvature_size(sampler.flat, lambda: sampler.gradient(chosen[0]), sampler.probes(), sampler.steps)
        for state in sampler.blocks():
            curvature[state.span] += prior_curvature(state)
        metric = _metric(sampler, gradients, curvature / tau)
        noise = _most(metric * gradients.var(0)) if len(chosen) > 1 else 0.0
        stiffest = _largest_curvature(sampler, chosen, metric.sqrt())
        each = _most(metric * curvature)
    limits = {
        "stability": (1.0 + c) / (2.0 * (1.0 - c) * stiffest) if c else 1.0 / stiffest,
        "step": math.inf if c else 2.0 * excess / (each * (1.0 + excess)),
        "noise": 2.0 * excess / (tau * noise) if noise else math.inf,
    }
    size = min(limits["stability"], 1.0 / (1.0 / limits["step"] + 1.0 / limits["noise"] + 1e-300))
    if not math.isfinite(size) or size <= 0:
        raise FloatingPointError(f"no step size can be advised: the largest curvature is {stiffest:g}")
    return StepAdvice(size, limits, error)


def _most(values: Tensor) -> float:
    """Return a bound for nearly all values."""
    return float(np.quantile(values.cpu().numpy(), SHARE))  # torch's own has a limit of 16 million values


def _with_prior(sampler: Sampler, gradient: Tensor) -> Tensor:
    """Add the prior's part to a gradient in place."""
    for state in sampler.blocks():
        state.prior.add_gradient(gradient[state.span], state.beta, state.latent, state.numbers)
    return gradient


def _metric(sampler: Sampler, gradients: Tensor, expected: Tensor) -> Tensor:
    """Return G as it would be after steps with these gradients."""
    metric = sampler.preconditioner
    vectors = tuple(sampler.vectors[name].clone() for name in metric.vectors)
    if not sampler.steps and metric.expects(1):
        metric.prepare(vectors, expected)
    inverse = None
    for number, gradient in enumerate(gradients, sampler.steps + 1):
        inverse = metric.inverse(gradient, vectors, metric.numbers(number))
    return torch.ones_like(sampler.flat.vector) if inverse is None else inverse.reciprocal()


def _largest_curvature(sampler: Sampler, batches: list[Any], root: Tensor) -> float:
    """Return the largest eigenvalue of sqrt(G) H sqrt(G), with H that of all batches together."""
    vector = sampler.flat.vector
    origin = vector.clone()
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(vector.shape, generator=generator, dtype=vector.dtype).to(vector.device)
    scale = SHIFT * (float(origin.norm()) or origin.numel() ** 0.5)

    def mean_gradient() -> Tensor:
        return torch.stack([sampler.gradient(batch) for batch in batches]).mean(0)

    here, value, prior = mean_gradient(), 0.0, torch.zeros_like(vector)
    for state in sampler.blocks():
        prior[state.span] += prior_curvature(state)
    try:
        for _ in range(ITERATIONS):
            direction /= direction.norm()
            move_by = root * direction
            shift = scale / float(move_by.norm())
            vector.copy_(origin + shift * move_by)
            product = root * ((mean_gradient() - here) / shift + prior * move_by)
            value = float(torch.dot(direction, product))
            direction = product
    finally:
        vector.copy_(origin)
    return value
