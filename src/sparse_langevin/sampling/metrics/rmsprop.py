r"""RMSprop: each weight's step is scaled by the running size of its gradient, the metric of PSGLD.

    V_k = alpha_k V_(k-1) + (1 - alpha_k) u*u  (first step: V = u*u),     G = 1/(eta + sqrt(V)).

G depends on the weights through u, so an exact Riemannian step adds Gamma = dG/dbeta to the drift:

    Gamma_i = -(1 - alpha_k) u_i h_i / (sqrt(V_i) (eta + sqrt(V_i))^2),   h_i = du_i/dbeta_i.

Leaving it out (the default, as in the paper) biases the samples by an amount that depends on (1 - alpha)/eps.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from sparse_langevin.sampling.metrics.base import Metric, NativeMetric, Numbers, Vectors
from sparse_langevin.sampling.schedules import Constant, OneMinus, Polynomial, Schedule, as_schedule, value_at

ALPHA = OneMinus(Polynomial(1.0, 100.0, 0.7))  # the paper's form, with the exponent and offset of its omega
SETTLED = 1000  # step from which on a schedule of alpha is considered settled


class _Numbers(NamedTuple):
    """The numbers of one step."""

    memory: float
    """alpha, or 0 at the first step."""
    fresh: float
    """1 - memory."""
    eta: float


@dataclass(frozen=True)
class RMSprop(Metric):
    r"""Scale each weight's step by a running average of its gradient's size.

    Parameters
    ----------
    alpha
        Memory of V: a number in [0, 1] or a schedule. The default 1 - (100 + k)^-0.7 has the paper's form. It starts at
        0.96 and approaches 1, so that the bias of leaving out Gamma vanishes; it is independent of omega.
    eta
        Regularisation in G = 1/(eta + sqrt(V)); 1e-3 is the paper's value.
    correction
        ``None`` leaves Gamma out. ``"auto"`` adds it, with the exact diagonal of the Hessian if the model is one
        ``nn.Linear`` with one of the library's likelihoods, and with Hutchinson's estimate (one Hessian-vector product
        per step) otherwise. ``"exact"`` and ``"hutchinson"`` choose one of the two.
    """

    alpha: float | Schedule = ALPHA
    eta: float = 1e-3
    correction: Literal["auto", "exact", "hutchinson"] | None = None

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
        object.__setattr__(self, "_alpha", as_schedule(self.alpha, "alpha"))

    def numbers(self, step: int) -> Numbers:
        """Return the memory of V, one minus the memory, and eta."""
        alpha = value_at(self._alpha, step, "alpha", high=1.0)  # type: ignore[attr-defined]
        memory = 0.0 if step == 1 else alpha
        return _Numbers(memory, 1.0 - memory, float(self.eta))

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
        """Warn if the metric changes faster than the chain relaxes, which biases the samples without Gamma.

        At stationarity the squared gradient is about h/tau, where h is the curvature, plus minibatch noise. Therefore
        eps*tau*V/(eta + sqrt(V)) is an upper estimate of the relaxation rate eps*G*h per step.
        """
        alpha: Schedule = self._alpha  # type: ignore[attr-defined]
        if self.correction is not None or not (isinstance(alpha, Constant) or step >= SETTLED):
            return None
        v, forgotten = vectors[0], 1.0 - alpha(step)
        rate = step_size * tau * float((v / (v.sqrt() + self.eta)).median())
        if forgotten <= rate:
            return None
        return (
            f"1 - alpha = {forgotten:.3g} is large compared with the step size: the preconditioner forgets faster than "
            f"the chain relaxes (about {rate:.2g} per step). Without the Gamma correction this widens the spread of "
            "the samples by 10 % or more. Use a larger alpha (0.999, or a schedule that approaches 1), a larger step "
            "size, or RMSprop(correction='auto')."
        )

    def native(self) -> NativeMetric:
        """Return the same formulas for one weight."""
        return _native()


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
