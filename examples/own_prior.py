r"""A prior of your own in one class: Student's t, with its formulas compiled, checked against quadrature.

    p(beta) ~ (1 + beta^2/(nu s^2))^(-(nu + 1)/2),      -d log p/d beta = (nu + 1) beta/(nu s^2 + beta^2).

Heavy tails shrink noise and leave strong effects alone. Here 4000 weights see one observation each, y ~ N(beta, 1), so
that every posterior mean and deviation can be computed by numerical integration; the sampler must find the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sparse_langevin import GaussianLikelihood, Prior, Sampler
from sparse_langevin.runtime.jit import reassociated
from sparse_langevin.sampling.priors import NativePrior

OBSERVED, COPIES = (0.0, 1.0, 3.0, 6.0), 1000
STEPS, BURN_IN = 6000, 1000


@dataclass(frozen=True)
class Student(Prior):
    """Student's t with ``nu`` degrees of freedom and scale ``s``."""

    nu: float = 3.0
    s: float = 0.5

    def numbers(self, sigma: float, scalars: Mapping[str, float]) -> tuple[float, ...]:
        """Return what the formulas need: nu + 1 and nu s^2."""
        return self.nu + 1.0, self.nu * self.s**2

    def add_gradient(self, grad: Tensor, beta: Tensor, vectors: tuple[Tensor, ...], numbers: tuple) -> Tensor:
        """Add -d log p/d beta to ``grad``, in torch, for any device."""
        power, width = numbers
        return grad.add_(beta * power / (beta.square() + width))

    def native(self) -> NativePrior:
        """Return the formulas for one weight, which are compiled into the loop over all weights."""
        return NativePrior(native_gradient, native_curvature)


@reassociated
def native_gradient(beta, state, numbers):
    """Return (nu + 1) beta/(nu s^2 + beta^2)."""
    return numbers[0] * beta / (beta * beta + numbers[1])


@reassociated
def native_curvature(beta, state, numbers):
    """Return its derivative."""
    below = beta * beta + numbers[1]
    return numbers[0] * (numbers[1] - beta * beta) / (below * below)


class Weights(nn.Module):
    """One weight for each observation."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(count))

    def forward(self, inputs: Tensor) -> Tensor:
        """Multiply each input by its weight."""
        return inputs * self.weight


def sampled(prior: Student, engine: str = "native") -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and deviations for the observed values, by Langevin dynamics."""
    model = Weights(len(OBSERVED) * COPIES)
    y = torch.tensor(OBSERVED).repeat_interleave(COPIES)[None]
    likelihood = GaussianLikelihood(sigma=1.0, learn=False)
    options = {"prior": prior, "sparse": ["weight"], "momentum": 0.9, "engine": engine}
    sampler = Sampler(model, likelihood, num_data=1, step_size=0.1, **options)
    total, squares = 0.0, 0.0
    for k in range(STEPS):
        sampler.step(torch.ones_like(y), y)
        if k >= BURN_IN:
            beta = model.weight.detach().double().view(len(OBSERVED), COPIES)
            total, squares = total + beta.mean(1), squares + beta.square().mean(1)
    mean, square = total / (STEPS - BURN_IN), squares / (STEPS - BURN_IN)
    return mean.numpy(), (square - mean**2).sqrt().numpy()


def exact(prior: Student) -> tuple[np.ndarray, np.ndarray]:
    """Return the same by quadrature."""
    grid = np.linspace(-10, 15, 100_001)
    log_prior = -(prior.nu + 1) / 2 * np.log1p(grid**2 / (prior.nu * prior.s**2))
    weights = np.exp(log_prior - (np.array(OBSERVED)[:, None] - grid) ** 2 / 2)
    mean = weights @ grid / weights.sum(1)
    return mean, np.sqrt(weights @ grid**2 / weights.sum(1) - mean**2)


if __name__ == "__main__":
    (means, stds), (true_means, true_stds) = sampled(Student()), exact(Student())
    for i, y in enumerate(OBSERVED):
        print(f"observed {y}: {means[i]:.3f} +- {stds[i]:.3f}, exactly {true_means[i]:.3f} +- {true_stds[i]:.3f}")
