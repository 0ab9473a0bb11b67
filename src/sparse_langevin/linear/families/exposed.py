r"""Counts of rows that were watched for different times, or over different areas: the mean is exposure exp(s).

The logarithm o of the exposure is added to the linear predictor s, and what `Counts` says about s + o is told of s.
"""

import numpy as np

from sparse_langevin.linear.families.base import Array, Hyper
from sparse_langevin.linear.families.counts import Counts


class Exposed:
    """Counts, and the exposure of each row."""

    responses, known, noise = Counts.responses, Counts.known, Counts.noise

    def __init__(self, y: Array, exposure: Array, weight: Array, intercept: bool = True) -> None:
        self.counts, self.shift = Counts(y, weight, intercept), np.log(exposure)
        self.tau, self.information = self.counts.tau, self.counts.information
        self.rate = float(np.log(weight @ exposure / weight.sum()))

    def start(self, rng: np.random.Generator) -> Hyper:
        """Return the dispersion that fits without any predictor."""
        return self.counts.start(rng)

    def intercepts(self) -> Array:
        """Return the logarithm of the mean count per exposure."""
        return self.counts.intercepts() - (0.0 if np.isinf(self.tau) else self.rate)

    def weigh(
        self, scores: Array, active: int, sigma: float, hyper: Hyper, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw r and the weights."""
        weights, response = self.counts.weigh(scores + self.shift, active, sigma, hyper, rng)
        return weights, response - self.shift

    def polya_gamma(self, scores: Array, active: int, hyper: Hyper) -> tuple[Array, Array, Array]:
        """Return b, kappa and log r less the logarithm of the exposure."""
        shape, kappa, offset = self.counts.polya_gamma(scores + self.shift, active, hyper)
        return shape, kappa, offset - self.shift

    def log_likelihood(self, scores: Array, hyper: Hyper) -> float:
        """Return the log-likelihood of scores, given r."""
        return self.counts.log_likelihood(scores + self.shift, hyper)
