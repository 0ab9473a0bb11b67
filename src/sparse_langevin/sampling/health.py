"""Warnings about a chain that runs without an error, but not as its user probably meant.

Each warning is given once per sampler. All are of the class `ChainWarning`, so that they can be filtered or turned into
errors.
"""

import dataclasses
import math
import sys
import warnings
from collections.abc import Mapping

from torch import Tensor

from sparse_langevin.sampling.mixture import OMEGA
from sparse_langevin.sampling.priors import Prior
from sparse_langevin.sampling.schedules import Polynomial, Schedule

CHECK_STEPS = (100, 1000, 10_000)
OMEGA_CAP = OMEGA[-1]
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
    """Return ``omega``; if it starts above 1, warn and cap it."""
    initial = omega(1)
    if not initial > 1:
        return omega
    warn(
        f"omega_1 = {initial:.3g} is above 1: the latent variables would overshoot (sigma^2 can turn negative). "
        f"omega is capped at {OMEGA_CAP}; to choose the cap yourself, use Polynomial(..., cap=0.1)."
    )
    if isinstance(omega, Polynomial):
        return dataclasses.replace(omega, cap=OMEGA_CAP)
    return Capped(omega, OMEGA_CAP)


def check_priors(priors: Mapping[str, Prior]) -> None:
    """Give the first warning that a prior has."""
    for name, prior in priors.items():
        if (message := prior.warning()) is not None:
            warn(f"in layer {name!r} {message}")
            return


class HealthMonitor:
    """Watches a running chain and warns at a few steps, once about each subject."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def listens(self, step: int, about: str) -> bool:
        """Whether a warning about this subject could be given at ``step``."""
        return step in CHECK_STEPS and about not in self._said

    def tell(self, message: str | None, start: str = "", about: str = "prior") -> None:
        """Give a warning, if there is a message and it is the first about this subject."""
        if message is not None and about not in self._said:
            self._said.add(about)
            warn(start + message)

    def check_spread(self, step: int, drift_square: float, noise_square: float, beta: Tensor) -> None:
        """Warn if a thousand steps of noise would hardly move the weights, unless the drift is as large as they are."""
        if not self.listens(step, "spread"):
            return
        size = float(beta.norm())
        walk = math.sqrt(1000.0 * noise_square)
        if walk < NEGLIGIBLE_SPREAD * size and math.sqrt(drift_square) < size:
            self.tell(
                "the noise is so small that the samples have no spread: in a thousand steps it moves the weights by "
                f"{walk / size:.1e} of their norm. This is optimisation, not sampling: use a larger step size or a "
                "lower tau.",
                about="spread",
            )


def warn(message: str) -> None:
    """Give a `ChainWarning` that points at the user's line of code."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("sparse_langevin"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, ChainWarning, stacklevel=level)
