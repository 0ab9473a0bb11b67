r"""A metric of your own in one class: RMSprop whose average is frozen after a while, so that the sampler is exact.

    V_k = average of u*u over the first ``freeze`` steps, then constant;      G = 1/(eta + sqrt(V)).

A metric that follows the weights for ever widens the samples unless its derivative is added to the drift. One that
is constant does not. The target is a Gaussian whose curvatures span four decades.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sparse_langevin import GaussianPrior, Metric, RMSprop, Sampler
from sparse_langevin.runtime.jit import reassociated
from sparse_langevin.sampling.metrics import NativeMetric

CURVATURES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
COPIES = 400
STEPS, BURN_IN = 6000, 2000


@dataclass(frozen=True)
class FrozenRMSprop(Metric):
    """RMSprop whose V is the average over the first ``freeze`` steps, and constant after them."""

    freeze: int = 500
    eta: float = 1e-3

    vectors: ClassVar = ("v",)
    squares: ClassVar = True

    def numbers(self, step: int) -> tuple[float, ...]:
        """Return the weights of the old V and of the new square, and eta."""
        fresh = 1.0 / step if step <= self.freeze else 0.0
        return 1.0 - fresh, fresh, self.eta

    def inverse(self, u: Tensor, vectors: tuple[Tensor, ...], numbers: tuple) -> Tensor:
        """Update V and return 1/G, in torch."""
        memory, fresh, eta = numbers
        return vectors[0].mul_(memory).add_(u * u * fresh).sqrt() + eta

    def native(self) -> NativeMetric:
        """Return the formula for one weight, which is compiled into the loop over all weights."""
        return NativeMetric(native_inverse)


@reassociated
def native_inverse(u, state, numbers):
    """Return the new V, and 1/G."""
    v = numbers[0] * state[0] + numbers[1] * (u * u)
    return (v,), math.sqrt(v) + numbers[2]


class Target(nn.Module):
    """A point, whose log density takes the place of the log-likelihood of one example."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(len(CURVATURES) * COPIES, dtype=torch.float64))
        self.register_buffer("curvature", torch.tensor(CURVATURES, dtype=torch.float64).repeat_interleave(COPIES))


def log_density(model: Target, batch: Tensor) -> Tensor:
    """Return the log density of N(0, 1/curvature)."""
    return -0.5 * (model.curvature * model.weight.square()).sum()[None]


def deviations(metric: Metric, step_size: float = 0.02, engine: str = "native") -> np.ndarray:
    """Return the sampled standard deviation times sqrt(curvature) for each curvature; 1 is exact."""
    model = Target()
    flat = GaussianPrior(math.inf)
    options = {"prior": flat, "dense_prior": flat, "preconditioner": metric, "engine": engine}
    sampler = Sampler(model, log_density, num_data=1, step_size=step_size, **options)
    squares = torch.zeros(len(CURVATURES), dtype=torch.float64)
    for k in range(STEPS):
        sampler.step(torch.zeros(1))
        if k >= BURN_IN:
            squares += model.weight.detach().square().view(len(CURVATURES), COPIES).mean(1) / (STEPS - BURN_IN)
    return squares.sqrt().numpy() * np.sqrt(CURVATURES)


if __name__ == "__main__":
    for name, metric in (("frozen", FrozenRMSprop()), ("RMSprop, alpha = 0.9", RMSprop(alpha=0.9))):
        print(f"{name}: deviation over the exact one: {', '.join(f'{d:.3f}' for d in deviations(metric))}")
