r"""The spike-and-slab prior: a mixture of a Laplace and a Gaussian density, whose latent variables are learned.

    beta | gamma ~ (1 - gamma) Laplace(0, sigma*v0) + gamma N(0, sigma^2*v1),
    gamma ~ Bernoulli(delta),   delta ~ Beta(a, b), one delta per layer.

The chain does not sample gamma; it tracks expectations by stochastic approximation with step omega:

    r     = P(gamma = 1 | beta)                      from the weights just sampled, see `mixture.log_odds`
    rho   = (1 - omega) rho + omega r                estimates E[gamma]
    s     = (1 - omega) s + omega rho                the same average once more, so that
    kappa0 = (1 - s)/v0,  kappa1 = s/v1              are the paper's two vectors, stored as one
    delta = (1 - omega) delta + omega * target       see `SpikeSlab.delta_target`

With ``latents="summed"`` gamma is summed out instead: the drift uses r at the present weights, s = r, so that beta is
sampled from its marginal density (1 - delta) Laplace + delta Normal. Then rho is only an average of r for the user,
with weights proportional to the cube of the step, which forget the beginning: an estimate of the inclusion probability
P(gamma = 1 | data).

The drift is -(kappa0*sign(beta)/sigma + kappa1*beta/sigma^2). The weights contribute B = sum kappa0*|beta| and
C = sum kappa1*beta^2 to the equation for sigma.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from sparse_langevin.sampling.mixture import delta_mean, log_ratio_at_zero
from sparse_langevin.sampling.priors.base import NativePrior, Numbers, Prior, Scalars, Vectors

COLLAPSE_STEPS = (3000, 10_000)  # counted from the end of ``hold``
EARLY = 1000  # and this one if there is a ``hold``, at whose end the weights are in the slab


class _Numbers(NamedTuple):
    """The numbers of one step, see `SpikeSlab.numbers`."""

    spike: float
    """1/(v0*sigma)."""
    slab: float
    """1/(v1*sigma^2)."""
    log_odds: float
    """Log-odds of inclusion of a weight at zero."""


class _Summed(NamedTuple):
    """The same if gamma is summed out."""

    spike: float
    slab: float
    log_odds: float
    rate: float
    """Weight of the newest r in rho."""


@dataclass(frozen=True)
class SpikeSlab(Prior):
    r"""Laplace spike and Gaussian slab, with the inclusion probabilities learned.

    Parameters
    ----------
    v0
        Scale of the spike: Laplace(0, sigma*v0).
    v1
        Variance factor of the slab: N(0, sigma^2*v1).
    a
        First parameter of the prior delta ~ Beta(a, b).
    b
        Second parameter of that prior. ``None`` takes the layer's number of weights, as the paper does.
    delta
        Initial inclusion probability; rho and s start from it too.
    delta_update
        ``"mean"`` (default) moves delta towards its posterior mean (sum rho + a)/(a + b + p). ``"mode"`` is the
        paper's (sum rho + a - 1)/(a + b + p - 2); with a = 1 it drives delta, and with it every weight, to zero.
        ``"fixed"`` keeps delta.
    latents
        ``"summed"`` (default) samples the weights with gamma summed out; rho is the posterior probability of inclusion,
        up to the error of the chain. ``"averaged"`` is the paper's stochastic approximation: the drift of a weight uses
        an average over past weights. Its fixed point need not be unique if weights are correlated, and rho is not a
        probability then.
    scale
        What takes the place of sigma in the two scales: ``"sigma"`` (default) is the noise level, as in the paper;
        ``"fan-in"`` is one over the square root of a layer's number of inputs, as in the initial weights of networks;
        or a number. With a scale of their own the weights have no part in the equation for sigma. In a network with
        more weights than data that part would decide about sigma, and the chain collapses.
    hold
        Number of steps for which delta stays as it is. In a network that starts in the slab (``delta=0.99``) weights
        can find out what matters before any is drawn into the spike.
    """

    v0: float = 0.1
    v1: float = 10.0
    a: float = 1.0
    b: float | None = None
    delta: float = 0.5
    delta_update: Literal["mean", "mode", "fixed"] = "mean"
    latents: Literal["averaged", "summed"] = "summed"
    scale: float | Literal["sigma", "fan-in"] = "sigma"
    hold: int = 0

    vectors: ClassVar = ("rho", "s")

    def __post_init__(self) -> None:
        for name in ("v0", "v1", "a", "b"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"SpikeSlab.{name} must be a positive number, got {value!r}")
        if not 0 < self.delta < 1:
            raise ValueError(f"SpikeSlab.delta must lie strictly between 0 and 1, got {self.delta!r}")
        if self.delta_update not in ("mean", "mode", "fixed"):
            raise ValueError(f"SpikeSlab.delta_update must be 'mean', 'mode' or 'fixed', got {self.delta_update!r}")

        if self.latents not in ("averaged", "summed"):
            raise ValueError(f"SpikeSlab.latents must be 'averaged' or 'summed', got {self.latents!r}")
        named = self.scale in ("sigma", "fan-in")
        if not named and (isinstance(self.scale, str | bool) or not 0 < self.scale < math.inf):
            raise ValueError(f"SpikeSlab.scale must be 'sigma', 'fan-in' or a positive number, got {self.scale!r}")

    @classmethod
    def for_network(cls, **changes: Any) -> "SpikeSlab":
        """Return the default for networks, which starts in the slab and has the scale of initial weights.

        Its spike is narrower and its slab wider than those of `SpikeSlab`: weights that are left when most are zero
        have to be larger than initial ones.

        Parameters
        ----------
        **changes
            Parameters of `SpikeSlab` that are to be different.

        Examples
        --------
        >>> SpikeSlab.for_network(v0=0.05).scale
        'fan-in'
        """
        return replace(cls(v0=0.03, v1=100.0, b=1.0, delta=0.99, scale="fan-in", hold=1000), **changes)

    @property
    def scales_with_sigma(self) -> bool:
        """Whether sigma is the scale."""
        return self.scale == "sigma"

    def for_layer(self, shape: Sequence[int]) -> "SpikeSlab":
        """Return the prior with the scale of a layer whose weights have this shape."""
        return replace(self, scale=math.prod(shape[1:]) ** -0.5) if self.scale == "fan-in" else self

    def scalars(self) -> tuple[str, ...]:
        """Return the name of the layer's inclusion probability, and of the number of steps if gamma is summed out."""
        return ("delta", "steps") if self.latents == "summed" or self.hold else ("delta",)

    def initial(self) -> dict[str, float]:
        """Start rho, s and delta from the prior's ``delta``."""
        return dict.fromkeys(("rho", "s", "delta"), self.delta)

    def log_odds_at_zero(self, delta: float) -> float:
        """Return the log-odds of inclusion of a weight at zero; they are finite for any delta in [0, 1]."""
        tiny = 1e-300
        return log_ratio_at_zero(self.v0, self.v1) + math.log(max(delta, tiny)) - math.log(max(1.0 - delta, tiny))

    def numbers(self, sigma: float, scalars: Scalars) -> Numbers:
        """Return the factors of the spike's and the slab's gradient, and the log-odds of a weight at zero."""
        log_odds = self.log_odds_at_zero(scalars["delta"])
        if self.scale != "sigma":
            sigma = float(self.scale)
        numbers = _Numbers(1.0 / (self.v0 * sigma), 1.0 / (self.v1 * (sigma * sigma)), log_odds)
        return _Summed(*numbers, 4.0 / (scalars.get("steps", 0.0) + 4.0)) if self.latents == "summed" else numbers

    def add_gradient(self, grad: Tensor, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Add kappa0*sign(beta)/sigma + kappa1*beta/sigma^2."""
        spike, slab, *_ = numbers
        _, s = vectors
        pull = (1.0 - s).mul_(spike).mul_(beta.sign())
        return grad.add_(pull.add_((s * beta).mul_(slab)))

    def curvature(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Return the curvature of the slab; the Laplace spike has none away from zero."""
        return vectors[1] * numbers[1]

    def energy(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Return the potential of the drift: of the mixture of both densities, or at given averages s."""
        spike, slab, *_ = numbers
        if self.latents == "summed":
            return beta.abs() * spike - functional.softplus(self.log_odds(beta, numbers))
        _, s = vectors
        return (1.0 - s) * (beta.abs() * spike) + s * beta.square() * (0.5 * slab)

    def refresh(self, beta: Tensor, vectors: Vectors, numbers: Numbers) -> None:
        """Make s that of the weights, if gamma is summed out."""
        if self.latents == "summed":
            vectors[1].copy_(self.inclusion(beta, numbers))

    def log_odds(self, beta: Tensor, numbers: Numbers) -> Tensor:
        """Return the log-odds of inclusion."""
        spike, slab, log_odds_at_zero, *_ = numbers
        return beta.abs().mul_(spike).add_(log_odds_at_zero).add_(beta.square().mul_(-0.5 * slab))

    def inclusion(self, beta: Tensor, numbers: Numbers) -> Tensor:
        """Return P(gamma = 1 | beta), computed from log-odds since the quotient of densities would underflow to 0/0."""
        return torch.sigmoid_(self.log_odds(beta, numbers))

    def update(
        self, beta: Tensor, vectors: Vectors, numbers: Numbers, omega: float
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Update rho and s, and return sum rho, sum kappa0*|beta| and sum kappa1*beta^2."""
        rho, s = vectors
        if self.latents == "summed":
            s.copy_(self.inclusion(beta, numbers))
            rho.add_((s - rho) * numbers[3])
        else:
            rho.mul_(1.0 - omega).add_(self.inclusion(beta, numbers) * omega)
            s.mul_(1.0 - omega).add_(rho * omega)
        included = s if self.latents == "summed" else rho
        _, spike, slab = self.divisors
        return included.sum(), torch.dot(1.0 - s, beta.abs()) / spike, torch.dot(s, beta.square()) / slab

    @property
    def divisors(self) -> tuple[float, float, float]:
        """Divide by v0 and v1, the denominators of kappa0 and kappa1, or leave the sums out of sigma's equation."""
        return (1.0, self.v0, self.v1) if self.scale == "sigma" else (1.0, math.inf, math.inf)

    def delta_target(self, sum_rho: float, size: int, delta: float) -> float:
        """Return the value towards which the stochastic approximation moves delta."""
        b = float(size) if self.b is None else self.b
        if self.delta_update == "fixed":
            return delta
        if self.delta_update == "mean":
            return delta_mean(sum_rho, size, self.a, b)
        return (sum_rho + self.a - 1.0) / (self.a + b + size - 2.0)

    def next_scalars(self, scalars: Scalars, included: float, size: int, omega: float) -> dict[str, float]:
        """Return the next delta of the stochastic approximation."""
        delta = scalars["delta"]
        counted = {"steps": scalars["steps"] + 1.0} if "steps" in scalars else {}
        if counted and counted["steps"] <= self.hold:
            return {"delta": delta} | counted
        return {"delta": (1.0 - omega) * delta + omega * self.delta_target(included, size, delta)} | counted

    def warning(self) -> str | None:
        """Warn if the slab has the higher density at zero."""
        if log_ratio_at_zero(self.v0, self.v1) <= 0:
            return None
        return (
            f"v0 = {self.v0:g}, v1 = {self.v1:g} make the slab the narrower component at zero, so rho is not an "
            "inclusion probability: zeros get a high rho and strong effects a low one. v0 is the scale of the spike: "
            "use a small v0 and a large v1, such as v0=0.1 and v1=10."
        )

    def trouble(self, step: int, included: float) -> str | None:
        """Warn if the expected number of the layer's weights in the slab is below one half."""
        early = (EARLY,) if self.hold else ()
        if step - self.hold not in early + COLLAPSE_STEPS or included >= 0.5:
            return None
        return (
            f"every weight is in the spike after {step} steps (the expected number in the slab is {included:.2g}). If "
            "weights of this layer should be selected, use a smaller v0, standardise the inputs, or, in a network, "
            "start in the slab: SpikeSlab.for_network(hold=...) with a longer hold."
        )

    def native(self) -> NativePrior:
        """Return the same formulas for one weight."""
        return _native(self.latents == "summed")


@functools.cache
def _native(summed: bool) -> NativePrior:
    from sparse_langevin.runtime.jit import reassociated  # numba is slow to import, and may be missing
    from sparse_langevin.runtime.native_math import real, sigmoid, sign

    @reassociated
    def gradient(beta: Any, state: Any, numbers: Any) -> Any:
        spike, slab = numbers[0], numbers[1]
        s = state[1]
        return (real(s, 1.0) - s) * spike * sign(beta) + s * beta * slab

    @reassociated
    def curvature(beta: Any, state: Any, numbers: Any) -> Any:
        return state[1] * numbers[1]

    @reassociated
    def update(beta: Any, state: Any, numbers: Any, omega: Any, old: Any) -> Any:
        spike, slab, log_odds = numbers
        rho, s = state
        size, square = abs(beta), beta * beta
        rho = old * rho + omega * sigmoid(size * spike + log_odds - real(slab, 0.5) * slab * square)
        s = old * s + omega * rho
        return (rho, s), (rho, (real(s, 1.0) - s) * size, s * square)

    @reassociated
    def summed_update(beta: Any, state: Any, numbers: Any, omega: Any, old: Any) -> Any:
        spike, slab, log_odds, rate = numbers
        rho, size, square = state[0], abs(beta), beta * beta
        r = sigmoid(size * spike + log_odds - real(slab, 0.5) * slab * square)
        return (rho + rate * (r - rho), r), (r, (real(r, 1.0) - r) * size, r * square)

    return NativePrior(gradient, curvature, summed_update if summed else update)


def default_prior(sparse_layers: int) -> SpikeSlab:
    """Return the prior of models with so many sparse layers, if the user chooses none."""
    return SpikeSlab() if sparse_layers == 1 else SpikeSlab.for_network()
