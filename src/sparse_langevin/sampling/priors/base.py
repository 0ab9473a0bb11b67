r"""The interface between a prior and a sampler.

A prior adds -d log p(beta)/d beta to the gradient of the potential, weight by weight. It may keep vectors with one
number per weight (such as inclusion probabilities) and a few scalars per layer (such as their mean), which it updates
after each step, and it may contribute to the equation for the noise level sigma:

    A s^2 - B s - C = 0,   A = residuals + weights that scale with sigma + nu,
                           B = sum linear,   C = RSS + sum quadratic + nu*lambda.

A new prior is one file: a frozen dataclass that derives from `Prior`, with ``numbers``, ``add_gradient`` and, for speed
on the CPU, ``native``. Everything else has a default.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

Vectors = tuple[Tensor, ...]
"""A layer's vectors, in the order of `Prior.vectors`."""
Numbers = tuple[float, ...]
"""The numbers in a prior's formulas that hold for one step and layer; 0-d tensors under torch.compile."""
Scalars = Mapping[str, float]
"""The scalars that a prior keeps for a layer, by name."""


class NativePrior(NamedTuple):
    """A prior's formulas for one weight, each compiled by `runtime.jit.reassociated`.

    All arguments have the weights' precision. ``state`` holds the weight's entries of the vectors; ``numbers`` comes
    from `Prior.numbers`. A literal such as 0.5 has double precision and would slow down a loop in single precision:
    write ``real(beta, 0.5)``, from `runtime.native_math`, instead.
    """

    gradient: Callable[..., Any]
    """A function (beta, state, numbers) -> the prior's part of the potential's gradient."""
    curvature: Callable[..., Any]
    """A function (beta, state, numbers) -> the derivative of ``gradient``, for preconditioners with a correction."""
    update: Callable[..., Any] | None = None
    """A function (new beta, state, numbers, omega, 1 - omega) -> (new state, (included, linear, quadratic)), as in
    `Prior.update` but without the division by `Prior.divisors`; None if there are no vectors."""


class Prior:
    """Base class of priors for the weights of one layer; a prior overrides what differs.

    Attributes
    ----------
    vectors : tuple of str
        Names of the vectors that the prior keeps. A vector called ``"rho"`` holds inclusion probabilities.
    """

    vectors: ClassVar[tuple[str, ...]] = ()

    @property
    def scales_with_sigma(self) -> bool:
        """Whether the prior's scale is a multiple of the noise level, so that its weights are in sigma's equation."""
        return False

    def for_layer(self, shape: Sequence[int]) -> "Prior":
        """Return the prior for a layer whose weights have this shape."""
        return self

    def native(self) -> NativePrior | None:
        """Return the formulas for compiled code; without them updates run in torch, several times slower."""
        return None

    def initial(self) -> dict[str, float]:
        """Return the initial values of vectors and scalars, by name; those that are not named begin at zero."""
        return {}

    def scalars(self) -> tuple[str, ...]:
        """Return the names of the scalars that the prior keeps for a layer."""
        return ()

    def numbers(self, sigma: float, scalars: Scalars) -> Numbers:
        """Return the numbers that the formulas need in one step."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers(sigma, scalars)")

    def add_gradient(self, grad: Tensor, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Add -d log p/d beta to ``grad`` in place, and return it."""
        raise NotImplementedError(f"{type(self).__name__} must define add_gradient(grad, beta, vectors, numbers)")

    def curvature(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor | float:
        """Return -d^2 log p/d beta^2, for preconditioners with a correction."""
        raise NotImplementedError(
            f"{type(self).__name__} must define curvature(beta, vectors, numbers) to be used with a correction"
        )

    def energy(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Return -log p of each weight, up to terms that do not depend on it, for the exchange of replicas."""
        raise NotImplementedError(
            f"{type(self).__name__} must define energy(beta, vectors, numbers) to be used with replicas"
        )

    def refresh(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> None:
        """Bring vectors that belong to the present weights up to date in place, after weights were replaced."""

    def update(
        self, beta: Tensor, vectors: Vectors, numbers: Numbers, omega: float
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Update the vectors in place after a step, and return three sums over the layer; None without vectors.

        They are the sum of the inclusion probabilities and the contributions to B and C in the equation for sigma.
        """
        return None

    @property
    def divisors(self) -> tuple[float, float, float]:
        """The divisors that turn the three sums of `NativePrior.update` into those of `update`."""
        return 1.0, 1.0, 1.0

    def next_scalars(self, scalars: Scalars, included: float, size: int, omega: float) -> dict[str, float]:
        """Return the scalars of a layer of ``size`` weights after a step; ``included`` is the sum of its rho."""
        return dict(scalars)

    def warning(self) -> str | None:
        """Return a warning to give before the chain starts, or None; it continues "in layer 'name' ..."."""
        return None

    def trouble(self, step: int, included: float) -> str | None:
        """Return a warning about the running chain in the same form, or None; called after every step."""
        return None


def as_prior(value: object, name: str) -> Prior:
    """Return ``value``; raise an error if it is not a prior."""
    if isinstance(value, Prior):
        return value
    hint = f": pass an instance, {value.__name__}()" if isinstance(value, type) else ""
    raise TypeError(
        f"{name} must be a prior such as SpikeSlab(...) or GaussianPrior(...), or an instance of a class derived from "
        f"sparse_langevin.sampling.priors.Prior; got {value!r}{hint}"
    )
