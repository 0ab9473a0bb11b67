r"""The interface between a metric and a sampler: the diagonal matrix G that scales the Langevin step.

    beta = beta - eps*(G*u - Gamma/tau) + sqrt(2*eps*G/tau)*z,   u = dU/dbeta with U the potential,   Gamma = dG/dbeta.

A new metric is one file: a frozen dataclass that derives from `Metric`, with ``numbers``, ``inverse`` and, for speed on
the CPU, ``native``. A metric that depends on the weights biases the samples: let it stop changing before samples are
kept (``planned`` tells it when), or add Gamma with ``gamma`` and ``correction``.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

Vectors = tuple[Tensor, ...]
"""A block's vectors, in the order of `Metric.vectors`."""
Numbers = tuple[float, ...]
"""The numbers in a metric's formulas that hold for one step; 0-d tensors under torch.compile."""


class NativeMetric(NamedTuple):
    """A metric's formulas for one weight, each compiled by `runtime.jit.reassociated`; see also `NativePrior`."""

    inverse: Callable[..., Any] | None
    """A function (u, state, numbers) -> (new state, 1/G), or None if G = 1."""
    gamma: Callable[..., Any] | None = None
    """A function (u, curvature, new state, 1/G, numbers) -> Gamma."""


class Metric:
    """Base class of diagonal metrics; a metric overrides what differs.

    Attributes
    ----------
    vectors : tuple of str
        Names of the vectors that the metric keeps, with one number per weight; they begin at zero.
    correction : str or None
        How the curvature for Gamma is computed, see `RMSprop`; None leaves Gamma out.
    squares : bool
        Whether the metric uses the square of the gradient, which must then be finite too.
    """

    vectors: ClassVar[tuple[str, ...]] = ()
    squares: ClassVar[bool] = False
    correction: str | None = None

    def planned(self, first: int, steps: int | None, burn_in: int | None) -> "Metric":
        """Return the metric for a run; `fit` asks for it.

        Parameters
        ----------
        first
            Number of steps taken before the run.
        steps
            Length of the run in steps; None if it is not known.
        burn_in
            Number of the step after which samples are kept; None if none are.
        """
        return self

    def expects(self, step: int) -> bool:
        """Whether to call `prepare` before ``step``, the first one with noise; that costs a few more gradients."""
        return False

    def prepare(self, vectors: Vectors, expected: Tensor) -> None:
        """Change the vectors in place, given the squared gradient to expect in the posterior: curvature/tau."""

    def native(self) -> NativeMetric | None:
        """Return the formulas for compiled code; without them updates run in torch, several times slower."""
        return None

    def numbers(self, step: int) -> Numbers:
        """Return the numbers that the formulas need at ``step`` = 1, 2, ..."""
        return ()

    def inverse(self, u: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor | None:
        """Update the vectors in place with the gradient ``u``, and return 1/G, or None if G = 1."""
        raise NotImplementedError(f"{type(self).__name__} must define inverse(u, vectors, numbers)")

    def gamma(self, u: Tensor, curvature: Tensor, vectors: Vectors, inverse: Tensor, numbers: Numbers) -> Tensor:
        """Return Gamma = dG/dbeta, given ``curvature`` = du/dbeta."""
        raise NotImplementedError(
            f"{type(self).__name__} must define gamma(u, curvature, vectors, inverse, numbers) to have a correction"
        )

    def trouble(self, step: int, vectors: Vectors, step_size: float, tau: float) -> str | None:
        """Return a warning about the running chain, or None; called at a few steps only."""
        return None


def as_metric(value: object) -> Metric:
    """Return ``value``; raise an error if it is not a metric."""
    if isinstance(value, Metric):
        return value
    hint = f": pass an instance, {value.__name__}()" if isinstance(value, type) else ""
    raise TypeError(
        "preconditioner must be Identity(), RMSprop(...) or an instance of a class derived from "
        f"sparse_langevin.sampling.metrics.Metric; got {value!r}{hint}"
    )
