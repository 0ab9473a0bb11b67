"""The report of one step."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Info:
    """What happened in one step."""

    step: int
    """Number of the step, counted from 1."""
    loss: float
    """Batch loss before the step: mean squared error, cross entropy, or mean negative log-likelihood."""
    sigma: float
    """Noise level after the step."""
    inclusion: float
    """Mean of rho over all weights with a spike-and-slab prior; nan if there are none."""
    sparsity: float
    """Share of the sparse layers' weights that the last pruning set to zero."""
    drift_norm: float
    """Length of the deterministic part of the step."""
    noise_norm: float
    """Length of the random part of the step."""
    step_size: float
    """The step size used; posterior averages weight samples by it."""

    @property
    def heat(self) -> float:
        """Squared drift over squared noise: in a stationary chain, about how much too large the variance is."""
        return (self.drift_norm / self.noise_norm) ** 2 if self.noise_norm else math.inf
