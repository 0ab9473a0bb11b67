r"""Preconditioners: the diagonal metric G of the Langevin step.

Identity:  G = 1 (SGLD).
RMSprop:   V_k = alpha_k V_(k-1) + (1 - alpha_k) g*g (first step: V = g*g),  G = 1/(eta + sqrt(V))  (PSGLD).

G depends on the weights through g, so an exact Riemannian step adds Gamma = dG/dbeta to the drift:

    Gamma_i = -(1 - alpha_k) g_i h_i / (sqrt(V_i) (eta + sqrt(V_i))^2),   h_i = dg_i/dbeta_i.

Leaving it out (the default, as in the paper) biases the samples by an amount that depends on (1 - alpha)/eps.
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from sparse_langevin.sampling.schedules import OneMinus, Polynomial, Schedule

ALPHA = OneMinus(Polynomial(1.0, 100.0, 0.7))  # the paper's form, with the exponent and offset of its omega


@dataclass(frozen=True)
class Identity:
    """No preconditioner: the same step for every weight."""


@dataclass(frozen=True)
class RMSprop:
    r"""Scale each weight's step by the running size of its gradient.

    Parameters
    ----------
    alpha
        Memory of V: a number in [0, 1] or a schedule. The default 1 - (100 + k)^-0.7 starts at 0.96 and approaches 1,
        the paper's form, so that the bias of leaving out Gamma vanishes; it is independent of omega.
    eta
        Regularisation in G = 1/(eta + sqrt(V)); 1e-3 is the paper's value.
    correction
        ``None`` leaves Gamma out. ``"auto"`` adds it, with the exact diagonal of the Hessian when the model is one
        ``nn.Linear`` under one of the library's likelihoods, and Hutchinson's estimate (one Hessian-vector product a
        step) otherwise. ``"exact"`` and ``"hutchinson"`` insist on one of the two.
    """

    alpha: float | Schedule = ALPHA
    eta: float = 1e-3
    correction: Literal["auto", "exact", "hutchinson"] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.eta < math.inf:
            raise ValueError(f"RMSprop.eta must be a positive number, got {self.eta!r}")
        if not callable(self.alpha) and not 0 <= self.alpha <= 1:
            raise ValueError(f"RMSprop.alpha must lie in [0, 1], got {self.alpha!r}")
        if self.correction not in (None, "auto", "exact", "hutchinson"):
            raise ValueError(
                f"RMSprop.correction must be None, 'auto', 'exact' or 'hutchinson', got {self.correction!r}"
            )


Preconditioner = Identity | RMSprop


def gamma(gradient: Tensor, curvature: Tensor, root_v: Tensor, eta: float, alpha: float) -> Tensor:
    """Gamma = dG/dbeta for G = 1/(eta + sqrt(V)).

    Gradient and curvature may both be those of the log posterior or both those of minus the log posterior:
    only their product enters. Where V is zero, so is the gradient, and Gamma is taken as zero.
    """
    metric = (root_v + eta).square_().mul_(root_v)
    value = gradient * curvature * (alpha - 1.0) / metric
    return value.masked_fill_(root_v == 0, 0.0)
