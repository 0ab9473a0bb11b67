r"""RMSprop: each weight's step is scaled by the running size of its gradient, the metric of PSGLD.

    V_k = alpha_k V_(k-1) + (1 - alpha_k) u*u,     G = 1/(eta + sqrt(V)),     V_1 = V_0 + u*u.

**The end.** While V follows the weights, the samples are biased. V therefore stops before samples are kept: from step
``freeze`` on G is a constant metric, which biases nothing.

**The start.** In the posterior E[u*u] = h/tau, with h the curvature, plus the noise of minibatches. V_0 = h/tau, so
that a chain that starts at an optimum, where u is 0, is not thrown off it. The paper's V_0 is 0.

**Gamma.** For alpha = 0 the missing term is Gamma = dG/dbeta = -u h/(|u| (eta + |u|)^2) with h = du/dbeta. A V with a
memory depends on all earlier weights as well; differentiating its newest part alone, as is usual, removes only a share
1 - alpha of the bias, so ``correction`` is refused for alpha > 0.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from sparse_langevin.sampling.metrics.base import Metric, NativeMetric, Numbers, Vectors
from sparse_langevin.sampling.schedules import Constant, OneMinus, Polynomial, Schedule, as_schedule, value_at

ALPHA = OneMinus(Polynomial(1.0, 100.0, 0.7))  # the paper's form, with the exponent and offset of its omega
SETTLED = 1000  # step from which on a schedule of alpha is considered settled
BRIEF = 100  # steps that V has at least before it stops, if the samples begin earlier than that


class _Numbers(NamedTuple):
    """The numbers of one step."""

    memory: float
    """alpha; 1 at the first step and once V has stopped."""
    fresh: float
    """1 - alpha; 1 at the first step, 0 once V has stopped."""
    eta: float


@dataclass(frozen=True)
class RMSprop(Metric):
    r"""Scale each weight's step by a running average of its gradient's size.

    Parameters
    ----------
    alpha
        Memory of V: a number in [0, 1] or a schedule. The default 1 - (100 + k)^-0.7 has the paper's form. It starts at
        0.96 and approaches 1, and is independent of omega.
    eta
        Regularisation in G = 1/(eta + sqrt(V)); 1e-3 is the paper's value.
    correction
        ``None`` leaves Gamma out. ``"auto"`` adds it, with the exact diagonal of the Hessian if the model is one
        ``nn.Linear`` with one of the library's likelihoods, and with Hutchinson's estimate (one Hessian-vector product
        per step) otherwise. ``"exact"`` and ``"hutchinson"`` choose one of the two. Only for ``alpha=0``, and with an
        ``eta`` of the size of the gradients: Gamma grows as 1/eta^2 where the gradient vanishes.
    freeze
        When V stops: a number of steps; a share in (0, 1) of the run that `fit` makes; ``"burn-in"`` (default) when the
        bank that `fit` fills takes its first samples, and never in a loop of your own; or None for never.
    start
        ``"curvature"`` (default) starts V from the curvature, which four more gradients at the first step with noise
        measure. ``"gradient"`` starts it from the first gradient alone, as the paper does.
    """

    alpha: float | Schedule = ALPHA
    eta: float = 1e-3
    correction: Literal["auto", "exact", "hutchinson"] | None = None
    freeze: float | Literal["burn-in"] | None = "burn-in"
    start: Literal["curvature", "gradient"] = "curvature"

    vectors: ClassVar = ("v",)
    squares: ClassVar = True

    def __post_init__(self) -> None:
        if not 0 < self.eta < math.inf:
            raise ValueError(f"RMSprop.eta must be a positive number, got {self.eta!r}")
        if not callable(self.alpha) and not 0 <= self.alpha <= 1:
            raise ValueError(f"RMSprop.alpha must lie in [0, 1], got {self.alpha!r}")
        if self.correction not in (None, "auto", "exact", "hutchinson"):
            raise ValueError(
                f"RMSprop.correction must be None, 'auto', 'exact' or 'hutchinson', got {self.correction!r}"
            )
        if self.correction is not None and self.alpha not in (0, Constant(0.0)):
            raise ValueError(
                "RMSprop.correction is right only for alpha=0: for a V with a memory the usual Gamma leaves most of "
                f"the bias, got alpha={self.alpha!r}. Let V stop instead: RMSprop(freeze=STEP), without a correction"
            )
        if self.freeze not in (None, "burn-in"):
            if self.correction is not None:
                raise ValueError(f"RMSprop takes a correction or freeze, got {self.correction!r} and {self.freeze!r}")
            _require_freeze(self.freeze)
        if self.start not in ("curvature", "gradient"):
            raise ValueError(f"RMSprop.start must be 'curvature' or 'gradient', got {self.start!r}")
        object.__setattr__(self, "_alpha", as_schedule(self.alpha, "alpha"))

    @classmethod
    def as_printed(cls, alpha: float | Schedule = ALPHA, eta: float = 1e-3) -> "RMSprop":
        """Return the paper's metric: V starts from the first gradient, and never stops."""
        return cls(alpha, eta, freeze=None, start="gradient")

    def planned(self, first: int, steps: int | None, burn_in: int | None) -> "RMSprop":
        """Return the metric with the step at which V stops in a run."""
        if self.correction is not None or self.freeze is None or isinstance(self.freeze, int):
            return self
        if self.freeze == "burn-in":
            return self if burn_in is None else replace(self, freeze=max(burn_in, first + BRIEF))
        if steps is None:
            raise ValueError(
                f"RMSprop(freeze={self.freeze!r}) is a share of a run whose length is not known: give a number of steps"
            )
        return replace(self, freeze=first + max(1, round(self.freeze * steps)))

    def expects(self, step: int) -> bool:
        """Whether V is to start from the curvature: also if it has stopped, before there was noise."""
        return self.start == "curvature" and self.correction is None

    def prepare(self, vectors: Vectors, expected: Tensor) -> None:
        """Let V be at least the squared gradient that is expected in the posterior."""
        torch.maximum(vectors[0], expected, out=vectors[0])

    def stopped(self, step: int) -> bool:
        """Whether V no longer changes at ``step``."""
        return isinstance(self.freeze, int) and step > self.freeze

    def numbers(self, step: int) -> Numbers:
        """Return the factors of V and of the squared gradient, and eta."""
        alpha = value_at(self._alpha, step, "alpha", high=1.0)  # type: ignore[attr-defined]
        if step == 1:
            return _Numbers(1.0, 1.0, float(self.eta))
        if self.stopped(step):
            return _Numbers(1.0, 0.0, float(self.eta))
        return _Numbers(alpha, 1.0 - alpha, float(self.eta))

    def inverse(self, u: Tensor, vectors: Vectors, numbers: Numbers) -> Tensor:
        """Update V and return eta + sqrt(V)."""
        memory, fresh, eta = numbers
        v = vectors[0].mul_(memory)
        # Rounded as in `torch.optim`, except under torch.compile, where the factor is a tensor.
        v.add_(u * u * fresh) if isinstance(fresh, Tensor) else v.addcmul_(u, u, value=fresh)
        return v.sqrt() + eta

    def gamma(self, u: Tensor, curvature: Tensor, vectors: Vectors, inverse: Tensor, numbers: Numbers) -> Tensor:
        """Return Gamma for G = 1/(eta + sqrt(V)); it is zero where V is, since the gradient is zero there."""
        root = vectors[0].sqrt()
        value = u * curvature * -numbers[1] / inverse.square().mul_(root)
        return value.masked_fill_(root == 0, 0.0)

    def trouble(self, step: int, vectors: Vectors, step_size: float, tau: float) -> str | None:
        """Warn if V changes faster than the chain relaxes and is not going to stop, which biases the samples.

        At stationarity the squared gradient is about h/tau, where h is the curvature, plus minibatch noise. Therefore
        eps*tau*V/(eta + sqrt(V)) is an upper estimate of the relaxation rate eps*G*h per step.
        """
        alpha: Schedule = self._alpha  # type: ignore[attr-defined]
        if self.correction is not None or isinstance(self.freeze, int):
            return None
        if not (isinstance(alpha, Constant) or step >= SETTLED):
            return None
        v, forgotten = vectors[0], 1.0 - alpha(step)
        rate = step_size * tau * float((v / (v.sqrt() + self.eta)).median())
        if forgotten <= rate:
            return None
        return (
            f"1 - alpha = {forgotten:.3g} is large compared with the step size: the preconditioner follows the weights "
            f"faster than the chain relaxes (about {rate:.2g} per step), which widens the spread of the samples by "
            "10 % or more. Let it stop before you keep samples: RMSprop(freeze=STEP), or fit(..., "
            "bank=PosteriorBank(burn_in=...)), which does it by itself."
        )

    def native(self) -> NativeMetric:
        """Return the same formulas for one weight."""
        return _native()


def _require_freeze(value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(
            f"RMSprop.freeze must be a number of steps, a share in (0, 1), 'burn-in' or None, got {value!r}"
        )
    if isinstance(value, float) and not value < 1:
        raise ValueError(f"RMSprop.freeze must be a whole number of steps or a share below 1, got {value!r}")


@functools.cache
def _native() -> NativeMetric:
    import numpy as np

    from sparse_langevin.runtime.jit import reassociated  # numba is slow to import, and may be missing
    from sparse_langevin.runtime.native_math import real

    @reassociated
    def inverse(u: Any, state: Any, numbers: Any) -> Any:
        memory, fresh, eta = numbers
        v = memory * state[0] + fresh * (u * u)
        return (v,), np.sqrt(v) + eta

    @reassociated
    def gamma(u: Any, curvature: Any, state: Any, inverse: Any, numbers: Any) -> Any:
        root, zero = np.sqrt(state[0]), real(u, 0.0)
        value = -numbers[1] * u * curvature / (inverse * inverse * root)
        return value if root != zero else zero

    return NativeMetric(inverse, gamma)
