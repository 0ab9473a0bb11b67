r"""Schedules: step sizes and memories as functions of the step k = 1, 2, 3, ...

Everything in an algorithm that changes with the step is a schedule: the step size eps_k, the preconditioner's memory
alpha_k, the step omega_k of the stochastic approximation and the inverse temperature tau_k. A schedule is any function
of the step number that returns a float. Those below cover the usual cases, and their ``repr`` records in a checkpoint
which one a run was started with.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """The same value at every step.

    Examples
    --------
    >>> Constant(0.1)(7)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        _require(not math.isnan(self.value), "Constant.value", self.value, "a number")

    def __call__(self, step: int) -> float:
        """Return the value."""
        return self.value


@dataclass(frozen=True)
class Polynomial:
    r"""Polynomial decay ``min(cap, scale * (offset + k) ** -exponent)``.

    Decreasing step sizes that sum to infinity (``exponent <= 1``) are the condition under which
    Langevin and stochastic approximation averages converge.

    Examples
    --------
    >>> Polynomial(1.0, 0.0, 0.5)(4)
    0.5
    >>> Polynomial(100, 100, 0.7, cap=0.1)(1)
    0.1
    """

    scale: float
    offset: float = 0.0
    exponent: float = 1 / 3
    cap: float = math.inf

    def __post_init__(self) -> None:
        _require(0 <= self.scale < math.inf, "Polynomial.scale", self.scale, "a finite number >= 0")
        _require(self.offset > -1, "Polynomial.offset", self.offset, "greater than -1, as steps count from 1")
        _require(self.exponent >= 0, "Polynomial.exponent", self.exponent, ">= 0, or the schedule would grow")
        _require(self.cap >= 0, "Polynomial.cap", self.cap, "a number >= 0")

    def __call__(self, step: int) -> float:
        """Return the value at ``step``."""
        return min(self.cap, self.scale * math.pow(self.offset + step, -self.exponent))


@dataclass(frozen=True)
class Cosine:
    r"""Half a cosine from ``initial`` down to ``final`` over ``steps`` steps, ``cycles`` times.

    Each cycle takes ``steps // cycles`` steps; after the last one the value stays at ``final``. More than one cycle
    restarts the step size, which lets a chain visit several modes (Zhang et al., Cyclical stochastic gradient MCMC,
    2020).
    During the first ``warmup`` steps the value grows linearly from zero: a preconditioned chain moves every weight by a
    full step from the beginning, when the gradient says least about the posterior.

    Examples
    --------
    >>> Cosine(1.0, 100)(50)
    0.5
    """

    initial: float
    steps: int
    final: float = 0.0
    cycles: int = 1
    warmup: int = 0

    def __post_init__(self) -> None:
        _require(0 <= self.initial < math.inf, "Cosine.initial", self.initial, "a finite number >= 0")
        _require(0 <= self.final < math.inf, "Cosine.final", self.final, "a finite number >= 0")
        _require(self.steps >= 1, "Cosine.steps", self.steps, "at least 1")
        _require(1 <= self.cycles <= self.steps, "Cosine.cycles", self.cycles, "between 1 and steps")
        _require(0 <= self.warmup <= self.steps, "Cosine.warmup", self.warmup, "between 0 and steps")

    def __call__(self, step: int) -> float:
        """Return the value at ``step``."""
        end = self.steps // self.cycles * self.cycles
        if step >= end:
            return self.final
        phase = step * self.cycles / end
        phase -= max(0, math.ceil(phase) - 1)  # the last step of a cycle has phase 1, not phase 0 of the next cycle
        value = self.final + (self.initial - self.final) * (1 + math.cos(math.pi * phase)) / 2
        return value * min(1.0, step / self.warmup) if self.warmup else value


@dataclass(frozen=True)
class Switch:
    """``before`` up to step ``at`` and ``after`` from then on; with a ``period``, again in each of ``cycles`` periods.

    After the last period, if the number of ``cycles`` is given, the value stays at ``after``, as a `Cosine` stays at
    ``final``. As the inverse temperature, ``Switch(math.inf, 1.0, at)`` leaves out the noise while the chain moves to a
    mode (Zhang et al., Cyclical stochastic gradient MCMC, 2020).

    Examples
    --------
    >>> [Switch(math.inf, 1.0, 2)(k) for k in (1, 2, 3)]
    [inf, inf, 1.0]
    """

    before: float
    after: float
    at: int
    period: int | None = None
    cycles: int | None = None

    def __post_init__(self) -> None:
        _require(not math.isnan(self.before), "Switch.before", self.before, "a number")
        _require(not math.isnan(self.after), "Switch.after", self.after, "a number")
        _require(self.at >= 0, "Switch.at", self.at, "a step >= 0")
        _require(self.period is None or self.period >= 1, "Switch.period", self.period, "at least 1, or None")
        _require(self.cycles is None or self.cycles >= 1, "Switch.cycles", self.cycles, "at least 1, or None")

    def __call__(self, step: int) -> float:
        """Return the value at ``step``."""
        if self.period is not None and self.cycles is not None and step > self.period * self.cycles:
            return self.after
        within = step if self.period is None else (step - 1) % self.period + 1
        return self.before if within <= self.at else self.after


@dataclass(frozen=True)
class OneMinus:
    """One minus another schedule, for a memory that approaches 1: ``alpha_k = 1 - c1 * (c2 + k) ** -g``.

    Examples
    --------
    >>> OneMinus(Polynomial(1.0, 0.0, 1.0))(4)
    0.75
    """

    schedule: Schedule

    def __call__(self, step: int) -> float:
        """Return ``1 - schedule(step)``."""
        return 1.0 - self.schedule(step)


def as_schedule(value: float | Schedule, name: str) -> Schedule:
    """Turn a number into a `Constant`; leave a callable as it is."""
    if callable(value):
        return value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number or a schedule (a callable step -> float), got {value!r}")
    return Constant(float(value))


def value_at(schedule: Schedule, step: int, name: str, *, low: float = 0.0, high: float = math.inf) -> float:
    """Return the value of ``schedule`` at ``step``, which must satisfy ``low <= value <= high``."""
    value = float(schedule(step))
    if not low <= value <= high:
        raise ValueError(
            f"{name} is {value:g} at step {step}, but must lie in [{low:g}, {high:g}]. "
            f"Change the schedule {describe(schedule)}, for example with a cap or a decreasing form."
        )
    return value


def describe(schedule: object) -> str:
    """Return a text for a schedule that is the same in every process (without memory addresses)."""
    if type(schedule).__repr__ is not object.__repr__ and not callable(getattr(schedule, "__code__", None)):
        text = repr(schedule)
        if " at 0x" not in text:
            return text
    return f"{getattr(schedule, '__module__', '')}.{getattr(schedule, '__qualname__', type(schedule).__name__)}"


def _require(condition: bool, name: str, value: object, wanted: str) -> None:
    if not condition:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
