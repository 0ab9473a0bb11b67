"""Chain health in plain words: what a user should know about a chain that runs without an error.

Each warning comes once per sampler. They are `ChainWarning`, so they can be filtered or turned into errors.
"""

import dataclasses
import math
import sys
import warnings
from collections.abc import Iterable, Mapping

from torch import Tensor

from sparse_langevin.sampling.priors import Prior, SpikeSlab
from sparse_langevin.sampling.schedules import Polynomial, Schedule

CHECK_STEPS = (100, 1000, 10_000)
OMEGA_CAP = 0.1  # what the authors of SGLD-SA use in their code
NEGLIGIBLE_SPREAD = 1e-3


class ChainWarning(UserWarning):
    """The chain runs, but its samples may not mean what the user thinks."""


@dataclasses.dataclass(frozen=True)
class Capped:
    """A schedule with an upper bound."""

    schedule: Schedule
    cap: float

    def __call__(self, step: int) -> float:
        """Return the smaller of the schedule's value and the cap."""
        return min(self.cap, self.schedule(step))


def capped_omega(omega: Schedule) -> Schedule:
    """Warn about a latent step that starts above 1, and cap it."""
    initial = omega(1)
    if not initial > 1:
        return omega
    warn(
        f"omega_1 = {initial:.3g} is above 1: the latent variables would overshoot (sigma^2 can turn negative). "
        f"omega is capped at {OMEGA_CAP}; to choose the cap yourself give the schedule one: Polynomial(..., cap=0.1)."
    )
    if isinstance(omega, Polynomial):
        return dataclasses.replace(omega, cap=OMEGA_CAP)
    return Capped(omega, OMEGA_CAP)


def check_spike_and_slab(priors: Iterable[tuple[str, Prior]]) -> None:
    """Warn when a slab is narrower than its spike at zero."""
    for name, prior in priors:
        if isinstance(prior, SpikeSlab) and prior.slab_is_narrower:
            warn(
                f"in layer {name!r} v0 = {prior.v0:g}, v1 = {prior.v1:g} make the slab the narrower component at zero, "
                "so rho is not an inclusion probability: zeros get a high rho and strong effects a low one. v0 is the "
                "spike: use a small v0 and a large v1, such as v0=0.1, v1=10."
            )
            return


class HealthMonitor:
    """Watches a running chain and speaks up at a few steps, once about each thing."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def check_memory(self, step: int, v: Tensor, step_size: float, tau: float, alpha: float, eta: float) -> None:
        """Warn when the metric changes faster than the chain relaxes, which biases the samples without Gamma.

        At stationarity the squared gradient is about h/tau, with h the curvature, plus minibatch noise; so
        eps*tau*V/(eta + sqrt(V)) is an upper estimate of the relaxation rate eps*G*h per step.
        """
        if step not in CHECK_STEPS or "memory" in self._said:
            return
        rate = step_size * tau * float((v / (v.sqrt() + eta)).median())
        if 1.0 - alpha > rate:
            self._said.add("memory")
            warn(
                f"1 - alpha = {1 - alpha:.3g} is large against the step size: the preconditioner forgets faster than "
                f"the chain relaxes (about {rate:.2g} per step), and without the Gamma correction this widens the "
                "samples by 10 % and more. Use a larger alpha (0.999, or a schedule towards 1), a larger step size, or "
                "RMSprop(correction='auto')."
            )

    def check_collapse(self, step: int, included: Mapping[str, float]) -> None:
        """Warn when less than half a weight of a layer is expected in the slab: the prior has taken them all."""
        if step != CHECK_STEPS[-1]:  # weights may need long to leave the spike
            return
        for name, expected in included.items():
            if expected < 0.5:
                warn(
                    f"after {step} steps every weight of layer {name!r} is in the spike (expected number in the slab "
                    f"{expected:.2g}). If something should be selected there, use a smaller v0, standardise the "
                    "inputs, or start in the slab: SpikeSlab(delta=0.99, b=1.0)."
                )
                return

    def check_spread(self, step: int, drift_square: float, noise_square: float, beta: Tensor) -> None:
        """Warn when a thousand steps of noise would hardly move the weights (unless they are running away)."""
        if step not in CHECK_STEPS or "spread" in self._said:
            return
        size = float(beta.norm())
        walk = math.sqrt(1000.0 * noise_square)
        if walk < NEGLIGIBLE_SPREAD * size and math.sqrt(drift_square) < size:
            self._said.add("spread")
            warn(
                "the noise is so small that the samples have no spread: a thousand steps of it move the weights by "
                f"{walk / size:.1e} of their norm. This is optimisation, not sampling: use larger steps or a lower tau."
            )


def warn(message: str) -> None:
    """Give a `ChainWarning` that points at the user's line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("sparse_langevin"):
        level, frame = level + 1, frame.f_back  # up to the user's line
    warnings.warn(message, ChainWarning, stacklevel=level)
