r"""What a metric is to a sampler: the diagonal matrix G that scales the Langevin step.

    beta = beta - eps*(G*u - Gamma/tau) + sqrt(2*eps*G/tau)*z,   u = dU/dbeta with U the potential,   Gamma = dG/dbeta.

To add a metric write one file: a frozen dataclass that derives from `Metric`, with ``numbers``, ``inverse`` and, for
speed on the CPU, ``native``. A metric that depends on the weights biases the samples unless Gamma is added: give it
``gamma`` and a ``correction``.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

Vectors = tuple[Tensor, ...]
"""A block's vectors, in the order of `Metric.vectors`."""
Numbers = tuple[float, ...]
"""What a metric's formulas need in one step; tensors of no dimension under torch.compile."""


class NativeMetric(NamedTuple):
    """A metric's formulas for one weight, each compiled by `runtime.jit.reassociated`; rules as for `NativePrior`."""

    inverse: Callable[..., Any] | None
    """(u, state, numbers) to (new state, 1/G); None where G = 1."""
    gamma: Callable[..., Any] | None = None
    """(u, curvature, new state, 1/G, numbers) to Gamma."""


class Metric:
    """A diagonal metric: derive from it, and define what differs.

    Attributes
    ----------
    vectors : tuple of str
        Names of the vectors that it keeps, one number per weight; they begin at zero.
    correction : str or None
        How the curvature for Gamma is found, see `DiagonalHessian`; None leaves Gamma out.
    squares : bool
        Whether it uses the square of the gradient, which must then be finite too.
    """

    vectors: ClassVar[tuple[str, ...]] = ()
    squares: ClassVar[bool] = False
    correction: str | None = None

    def native(self) -> NativeMetric | None:
        """Its formulas for compiled code; without them updates run in torch, several times slower."""
        return None

    def numbers(self, step: int) -> Numbers:
        """What the formulas of step k = 1, 2, ... need."""
        return ()

    def inverse(self, u: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor | None:
        """Update the vectors in place with the gradient ``u``, and return 1/G; None where G = 1."""
        raise NotImplementedError(f"{type(self).__name__} must define inverse(u, vectors, numbers)")

    def gamma(self, u: Tensor, curvature: Tensor, vectors: Vectors, inverse: Tensor, numbers: Numbers) -> Tensor:
        """Gamma = dG/dbeta, for ``curvature`` = du/dbeta."""
        raise NotImplementedError(
            f"{type(self).__name__} must define gamma(u, curvature, vectors, inverse, numbers) to be corrected"
        )

    def trouble(self, step: int, vectors: Vectors, step_size: float, tau: float) -> str | None:
        """What a user should know about a running chain; asked after a few steps of it."""
        return None


def as_metric(value: object) -> Metric:
    """Insist on a metric."""
    if isinstance(value, Metric):
        return value
    hint = f": pass an instance, {value.__name__}()" if isinstance(value, type) else ""
    raise TypeError(
        "preconditioner must be Identity(), RMSprop(...) or a class derived from "
        f"sparse_langevin.sampling.metrics.Metric; got {value!r}{hint}"
    )
