"""Warnings about a chain that runs without an error, but not as its user probably meant.

Each warning is given once per sampler. All are of the class `ChainWarning`, so that they can be filtered or turned into
errors.
"""

import dataclasses
import math
from collections.abc import Mapping

from torch import Tensor

from sparse_langevin.runtime import warn as warnings
from sparse_langevin.sampling.kernels import StepScalars
from sparse_langevin.sampling.layout import VELOCITY
from sparse_langevin.sampling.metrics import Metric
from sparse_langevin.sampling.mixture import OMEGA
from sparse_langevin.sampling.priors import Prior
from sparse_langevin.sampling.schedules import Polynomial, Schedule

CHECK_STEPS = (100, 1000, 10_000)
HEAT_STEPS = (1000, 10_000)  # steps after which the temperature is judged, over the last WINDOW steps
WINDOW = 100
HOT = 1.21  # deviations that are too large by a tenth
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
    """Watches a running chain and warns at a few steps, once about each subject.

    Parameters
    ----------
    priors
        The priors that select weights, by the name of their layer.
    momentum
        The chain's momentum.
    """

    def __init__(self, priors: Mapping[str, Prior], momentum: float) -> None:
        self.burn_in: int | None = None
        """Number of the step after which samples are kept, if it is known."""
        self._priors, self._momentum = priors, momentum
        self._said: set[str] = set()
        self._largest_step = 0.0
        self._drift, self._noise, self._warmth = 0.0, 0.0, 0.0  # running averages

    def check(
        self,
        step: int,
        scalars: StepScalars,
        included: Mapping[str, float],
        moved: tuple[float, float],
        beta: Tensor,
        metric: Metric,
        vectors: Mapping[str, Tensor],
    ) -> None:
        """Look at the chain after a step.

        Parameters
        ----------
        step
            Number of the step.
        scalars
            The scalars of the step.
        included
            Expected number of weights in the slab, by layer.
        moved
            Squared lengths of the deterministic and of the random part of the step.
        beta
            The weights.
        metric
            The metric.
        vectors
            The vectors of the chain, by name.
        """
        for name, prior in self._priors.items():
            self.tell(prior.trouble(step, included[name]), f"in layer {name!r} ")
        self._largest_step = max(self._largest_step, scalars.step_size)
        if math.isinf(scalars.tau) or scalars.step_size < 0.01 * self._largest_step:
            return  # this is optimisation, or the end of an annealed schedule
        if step in CHECK_STEPS:
            self._check_spread(*moved, beta)
            moments = tuple(vectors[name] for name in metric.vectors)
            self.tell(metric.trouble(step, moments, scalars.step_size, scalars.tau), about="metric")
        self._check_temperature(step, scalars.tau, *moved, vectors)

    def tell(self, message: str | None, start: str = "", about: str = "prior") -> None:
        """Give a warning, if there is a message and it is the first about this subject."""
        if message is not None and about not in self._said:
            self._said.add(about)
            warn(start + message)

    def _check_spread(self, drift_square: float, noise_square: float, beta: Tensor) -> None:
        """Warn if a thousand steps of noise would hardly move the weights, unless the drift is as large as they are."""
        size = float(beta.norm())
        walk = math.sqrt(1000.0 * noise_square)
        if walk < NEGLIGIBLE_SPREAD * size and math.sqrt(drift_square) < size:
            self.tell(
                "the noise is so small that the samples have no spread: in a thousand steps it moves the weights by "
                f"{walk / size:.1e} of their norm. This is optimisation, not sampling: use a larger step size or a "
                "lower tau.",
                about="spread",
            )

    def _check_temperature(
        self, step: int, tau: float, drift_square: float, noise_square: float, vectors: Mapping[str, Tensor]
    ) -> None:
        """Warn if the gradient's noise, or too large a step, heats the chain.

        Without momentum the variance of the samples is larger by about drift^2/noise^2, once the chain is stationary;
        with momentum the velocity has the variance 1/tau, and shows how much warmer the chain is.
        """
        since = step - (self.burn_in or 0)
        checks = HEAT_STEPS if self.burn_in is None else (WINDOW, *HEAT_STEPS)
        until = next((check - since for check in checks if check >= since), WINDOW)
        if until >= WINDOW or since <= 0 or "temperature" in self._said:
            self._drift = self._noise = self._warmth = 0.0
            return
        self._drift, self._noise = self._drift + drift_square, self._noise + noise_square
        uncertainty = 0.0
        if self._momentum:
            velocity, square = vectors[VELOCITY], self._momentum**2
            moving = max(1, int((velocity != 0).sum()))
            self._warmth += tau * float(velocity.square().sum()) / (moving * WINDOW)
            uncertainty = math.sqrt(2.0 * (1.0 + square) / (moving * WINDOW * (1.0 - square)))
        if until or not self._noise:
            return
        warmth = self._warmth if self._momentum else 1.0 + self._drift / self._noise
        if warmth > HOT + 3.0 * uncertainty:
            cause = "velocity" if self._momentum else "gradient"
            self.tell(
                f"the chain is too warm by a factor of {warmth:.3g}, as its {cause} shows: the noise of minibatches, "
                "or too large a step, adds to the chain's own noise, and the samples are up to about "
                f"{math.sqrt(warmth):.2g} times as wide as the posterior. Use smaller steps or larger batches; in "
                "Python, suggest_step_size finds a step, and fit(..., control_variates=1) removes most of the noise.",
                about="temperature",
            )


def warn(message: str) -> None:
    """Give a `ChainWarning` that points at the user's line of code."""
    warnings.warn(message, ChainWarning)
