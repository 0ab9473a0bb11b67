"""What the schedules of a chain say at each step."""

import math

from sparse_langevin.sampling.health import capped_omega
from sparse_langevin.sampling.kernels import StepScalars
from sparse_langevin.sampling.metrics import Metric
from sparse_langevin.sampling.schedules import Schedule, as_schedule, describe, value_at


class Timetable:
    """The schedules of a chain; see `Sampler` for their meaning."""

    def __init__(
        self, step_size: float | Schedule, tau: float | Schedule, omega: float | Schedule, momentum: float
    ) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {momentum!r}; 0.9 is usual")
        self._step_size = as_schedule(step_size, "step_size")
        self._tau = as_schedule(tau, "tau")
        self._omega = capped_omega(as_schedule(omega, "omega"))
        self.momentum = float(momentum)

    def at(self, k: int, metric: Metric) -> StepScalars:
        """Return all values at step k, each checked."""
        tau = value_at(self._tau, k, "tau")
        if tau == 0:
            raise ValueError(f"tau is 0 at step {k}: an inverse temperature must be positive")
        if self.momentum and metric.correction is not None:
            raise ValueError(f"Gamma corrects plain Langevin steps: use momentum=0, got {self.momentum:g}")
        return StepScalars(
            step_size=value_at(self._step_size, k, "step_size"),
            tau=tau,
            omega=value_at(self._omega, k, "omega", high=1.0),
            momentum=self.momentum,
            metric=tuple(metric.numbers(k)),
        )

    def noise_begins(self, k: int) -> bool:
        """Whether step k is the first one with noise, or the first one after steps without."""
        return math.isfinite(self._tau(k)) and (k == 1 or math.isinf(self._tau(k - 1)))

    def settings(self) -> dict[str, str]:
        """Return the schedules as text."""
        schedules = {"step_size": self._step_size, "tau": self._tau, "omega": self._omega}
        momentum = {"momentum": str(self.momentum)} if self.momentum else {}
        return {name: describe(schedule) for name, schedule in schedules.items()} | momentum
