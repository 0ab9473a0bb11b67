r"""Counts, negative binomial with mean m = exp(s) and variance m + m^2/r (Polson, Scott and Windle, 2013).

With the logit q = s - log r the likelihood is that of a logistic regression with y + r trials, so that for
w ~ PolyaGamma(y + r, q) the response (y - r)/(2w) + log r has mean s and variance 1/w. r is one of a few values, and
drawn given the scores with w summed out.
"""

import numpy as np
from scipy.special import gammaln

from sparse_langevin.linear.families.base import INTERCEPT, Array, Hyper
from sparse_langevin.linear.polya_gamma import draw_all

R = np.exp(np.linspace(np.log(0.2), np.log(200.0), 28))
"""Dispersions: a large r means Poisson counts."""


class Counts:
    """Whole numbers from 0 on, and weights that count how often each row is there."""

    responses, known, noise = 1, True, 1.0

    def __init__(self, y: Array, weight: Array, intercept: bool = True) -> None:
        self.y, self.weight, self.tau = y, weight, INTERCEPT if intercept else np.inf
        size = weight.sum()
        self.mean = max(float(weight @ y / size), 0.5 / size)
        spread = float(weight @ (y - self.mean) ** 2 / size)
        self.r = float(np.clip(self.mean**2 / max(spread - self.mean, 1e-9), R[0], 20.0))
        self.information = float(size * self.mean * self.r / (self.mean + self.r))
        self.height = np.array([weight @ (gammaln(y + r) - gammaln(r)) for r in R]) + size * R * np.log(R)

    def start(self, rng: np.random.Generator) -> Hyper:
        """Return the dispersion that fits without any predictor."""
        return {"r": self.r}

    def intercepts(self) -> Array:
        """Return the logarithm of the mean."""
        return np.array([0.0 if np.isinf(self.tau) else np.log(self.mean)])

    def weigh(
        self, scores: Array, active: int, sigma: float, hyper: Hyper, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw r and the weights."""
        mean = np.exp(np.clip(scores[0], -50.0, 50.0))
        odds = self.height - np.array([(self.weight * (self.y + r)) @ np.log(r + mean) for r in R])
        chance = np.exp(odds - odds.max()).cumsum()
        hyper["r"] = float(R[min(int(np.searchsorted(chance, rng.random() * chance[-1])), len(R) - 1)])
        shape, kappa, offset = self.polya_gamma(scores, active, hyper)
        weights = np.empty(len(mean))
        draw_all(shape, scores[0] - offset, rng, weights)
        return weights, kappa / weights + offset

    def polya_gamma(self, scores: Array, active: int, hyper: Hyper) -> tuple[Array, Array, Array]:
        """Return b, kappa and log r."""
        r = hyper["r"]
        return self.weight * (self.y + r), 0.5 * self.weight * (self.y - r), np.full(len(self.y), np.log(r))

    def log_likelihood(self, scores: Array, hyper: Hyper) -> float:
        """Return the log-likelihood of scores, given r."""
        r = hyper["r"]
        return float(self.weight @ (self.y * scores[0] - (self.y + r) * np.logaddexp(np.log(r), scores[0])))
