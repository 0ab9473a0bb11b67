"""Chain health in plain words: what a user should know about a chain that runs without an error.

Each warning comes once per sampler. They are `ChainWarning`, so they can be filtered or turned into errors.
"""

import dataclasses
import math
import sys
import warnings
from collections.abc import Mapping

from torch import Tensor

from sparse_langevin.sampling.priors import Prior
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


def check_priors(priors: Mapping[str, Prior]) -> None:
    """Warn of priors that do not mean what a user may think, once."""
    for name, prior in priors.items():
        if (message := prior.warning()) is not None:
            warn(f"in layer {name!r} {message}")
            return


class HealthMonitor:
    """Watches a running chain and speaks up at a few steps, once about each thing."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def listens(self, step: int, about: str) -> bool:
        """Whether it would tell something about this now."""
        return step in CHECK_STEPS and about not in self._said

    def tell(self, message: str | None, start: str = "", about: str = "prior") -> None:
        """Pass a message on, if there is one and it is the first about this."""
        if message is not None and about not in self._said:
            self._said.add(about)
            warn(start + message)

    def check_spread(self, step: int, drift_square: float, noise_square: float, beta: Tensor) -> None:
        """Warn when a thousand steps of noise would hardly move the weights (unless they are running away)."""
        if not self.listens(step, "spread"):
            return
        size = float(beta.norm())
        walk = math.sqrt(1000.0 * noise_square)
        if walk < NEGLIGIBLE_SPREAD * size and math.sqrt(drift_square) < size:
            self.tell(
                "the noise is so small that the samples have no spread: a thousand steps of it move the weights by "
                f"{walk / size:.1e} of their norm. This is optimisation, not sampling: use larger steps or a lower "
                "tau.",
                about="spread",
            )


def warn(message: str) -> None:
    """Give a `ChainWarning` that points at the user's line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("sparse_langevin"):
        level, frame = level + 1, frame.f_back  # up to the user's line
    warnings.warn(message, ChainWarning, stacklevel=level)
