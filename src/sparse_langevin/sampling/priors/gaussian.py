"""The Gaussian prior beta ~ N(0, sigma0^2)."""

import functools
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sparse_langevin.sampling.priors.base import NativePrior, Numbers, Prior, Scalars, Vectors

SMALLEST = 1e-150  # one over its square is still a number


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """Independent normal prior N(0, sigma0^2); ``sigma0=math.inf`` is a flat prior."""

    sigma0: float = 1.0

    def __post_init__(self) -> None:
        if not self.sigma0 > 0:
            raise ValueError(f"GaussianPrior.sigma0 must be positive (math.inf for a flat prior), got {self.sigma0!r}")
        if self.sigma0 < SMALLEST:
            raise ValueError(f"GaussianPrior.sigma0 must be at least {SMALLEST:g}, got {self.sigma0!r}")

    @property
    def precision(self) -> float:
        """One over the variance."""
        return self.sigma0**-2

    def numbers(self, sigma: float, scalars: Scalars) -> Numbers:
        """Return the precision."""
        return (self.precision,)

    def add_gradient(self, grad: Tensor, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Add precision*beta."""
        precision = numbers[0]
        return grad.add_(beta * precision) if isinstance(precision, Tensor) else grad.add_(beta, alpha=precision)

    def curvature(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> float:
        """Return the precision."""
        return numbers[0]

    def energy(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Return precision*beta^2/2."""
        return beta.square() * (0.5 * numbers[0])

    def native(self) -> NativePrior:
        """Return the same formulas for one weight."""
        return _native()


@functools.cache
def _native() -> NativePrior:
    from sparse_langevin.runtime.jit import reassociated  # numba is slow to import, and may be missing

    @reassociated
    def gradient(beta: Any, state: Any, numbers: Any) -> Any:
        return numbers[0] * beta

    @reassociated
    def curvature(beta: Any, state: Any, numbers: Any) -> Any:
        return numbers[0]

    return NativePrior(gradient, curvature)
