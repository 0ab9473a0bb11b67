r"""What a prior is to a sampler: the one interface between them, and the only file that both know.

A prior adds -d log p(beta)/d beta to the gradient of the potential, weight by weight. It may keep vectors of one number
per weight (such as inclusion probabilities) and a few numbers per layer (such as their mean), which it updates after
each step, and it may take part in the equation for the noise level sigma:

    A s^2 - B s - C = 0,   A = residuals + weights that scale with sigma + nu,
                           B = sum linear,   C = RSS + sum quadratic + nu*lambda.

To add a prior write one file: a frozen dataclass that derives from `Prior`, with ``numbers``, ``add_gradient`` and, for
speed on the CPU, ``native``. Everything else has a default.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

Vectors = tuple[Tensor, ...]
"""A layer's vectors, in the order of `Prior.vectors`."""
Numbers = tuple[float, ...]
"""What a prior's formulas need besides the weights; tensors of no dimension under torch.compile."""
Scalars = Mapping[str, float]
"""What a prior keeps of a layer, by name."""


class NativePrior(NamedTuple):
    """A prior's formulas for one weight, each compiled by `runtime.jit.reassociated`.

    All arguments have the weights' precision; ``state`` holds the weight's entries of the vectors, ``numbers`` those of
    `Prior.numbers`. A literal such as 0.5 would be double precision and slow a loop in
    single precision down: write ``real(beta, 0.5)``, from `runtime.native_math`.
    """

    gradient: Callable[..., Any]
    """(beta, state, numbers) to the prior's part of the potential's gradient."""
    curvature: Callable[..., Any]
    """(beta, state, numbers) to its second derivative, for preconditioners with a correction."""
    update: Callable[..., Any] | None = None
    """(new beta, state, numbers, omega, 1 - omega) to (new state, (included, linear, quadratic)), as in `Prior.update`
    before `Prior.divisors`; None if there are no vectors."""


class Prior:
    """A prior over the weights of one layer: derive from it, and define what differs.

    Attributes
    ----------
    vectors : tuple of str
        Names of the vectors that it keeps. One called ``"rho"`` is taken for inclusion probabilities.
    scales_with_sigma : bool
        Whether its scale is a multiple of the noise level, so that the weights take part in the equation for sigma.
    """

    vectors: ClassVar[tuple[str, ...]] = ()
    scales_with_sigma: ClassVar[bool] = False

    def native(self) -> NativePrior | None:
        """Its formulas for compiled code; without them updates run in torch, several times slower."""
        return None

    def initial(self) -> dict[str, float]:
        """Where vectors and scalars begin, by name; those that are not named here begin at zero."""
        return {}

    def scalars(self) -> tuple[str, ...]:
        """Names of the numbers that it keeps of a layer."""
        return ()

    def numbers(self, sigma: float, scalars: Scalars) -> Numbers:
        """What the formulas of one step need."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers(sigma, scalars)")

    def add_gradient(self, grad: Tensor, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Add -d log p/d beta to ``grad`` in place, and return it."""
        raise NotImplementedError(f"{type(self).__name__} must define add_gradient(grad, beta, vectors, numbers)")

    def curvature(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor | float:
        """-d^2 log p/d beta^2, for preconditioners with a correction."""
        raise NotImplementedError(
            f"{type(self).__name__} must define curvature(beta, vectors, numbers) to be used with a correction"
        )

    def update(
        self, beta: Tensor, vectors: Vectors, numbers: Numbers, omega: float
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Update the vectors in place after a step; None if there are none.

        Returns the sums over the layer of the inclusion probabilities, and of what enters B and C of the equation for
        sigma.
        """
        return None

    @property
    def divisors(self) -> tuple[float, float, float]:
        """What the three sums of `NativePrior.update` are divided by, once per layer, to be those of `update`."""
        return 1.0, 1.0, 1.0

    def next_scalars(self, scalars: Scalars, included: float, size: int, omega: float) -> dict[str, float]:
        """What is kept of a layer of ``size`` weights after a step; ``included`` sums its inclusion probabilities."""
        return dict(scalars)

    def warning(self) -> str | None:
        """What a user should know before the chain starts, as the end of a sentence that begins with the layer."""
        return None

    def trouble(self, step: int, included: float) -> str | None:
        """What a user should know about a running chain, likewise; asked after every step."""
        return None


def as_prior(value: object, name: str) -> Prior:
    """Insist on a prior."""
    if isinstance(value, Prior):
        return value
    hint = f": pass an instance, {value.__name__}()" if isinstance(value, type) else ""
    raise TypeError(
        f"{name} must be a prior such as SpikeSlab(...) or GaussianPrior(...), or a class derived from "
        f"sparse_langevin.sampling.priors.Prior; got {value!r}{hint}"
    )
