r"""Noise with heavy tails: y = a + Z beta + sigma t_nu, which is normal noise with a variance sigma^2/w of each row.

w ~ Gamma(nu/2, rate nu/2), and given the residuals e it is Gamma((nu + 1)/2, rate (nu + e^2/sigma^2)/2). nu is one of a
few values, and drawn given the residuals with w summed out.
"""

import numpy as np
from scipy.special import gammaln

from sparse_langevin.linear.families.base import Array, Hyper

NU = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 40.0])
"""Degrees of freedom, all of the same prior probability: from Cauchy's to practically normal noise."""


class Student:
    """Responses with Student's noise, and weights that count how often each row is there."""

    responses, known, noise = 1, False, 1.0

    def __init__(self, y: Array, weight: Array, intercept: bool = True) -> None:
        self.y, self.weight, self.tau = y, weight, 0.0 if intercept else np.inf
        self.information = float(weight.sum())
        self.height = gammaln((NU + 1) / 2) - gammaln(NU / 2) - 0.5 * np.log(NU)

    def start(self, rng: np.random.Generator) -> Hyper:
        """Return degrees of freedom in the middle."""
        return {"nu": 4.0}

    def intercepts(self) -> Array:
        """Return the median, which outliers hardly move."""
        return np.array([0.0 if self.tau else float(np.median(self.y))])

    def weigh(
        self, scores: Array, active: int, sigma: float, hyper: Hyper, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw nu and the weights."""
        square = ((self.y - scores[0]) / sigma) ** 2
        density = self.height - 0.5 * (NU + 1) * np.log1p(square[:, None] / NU)
        odds = self.weight @ density
        chance = np.exp(odds - odds.max()).cumsum()
        nu = hyper["nu"] = float(NU[min(int(np.searchsorted(chance, rng.random() * chance[-1])), len(NU) - 1)])
        return rng.standard_gamma(0.5 * self.weight * (nu + 1)) / (0.5 * (nu + square)), self.y

    def polya_gamma(self, scores: Array, active: int, hyper: Hyper) -> None:
        """Weights are gamma variables."""

    def log_likelihood(self, scores: Array, hyper: Hyper) -> float:
        """There is none without sigma, which is not known."""
        return 0.0
