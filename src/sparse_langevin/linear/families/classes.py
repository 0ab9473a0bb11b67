r"""Two classes or more, by the augmentation of Polson, Scott and Windle (2013).

Given the scores of the others, the score s of a class has the logistic likelihood of s - c with c = log sum exp(other
scores), or c = 0 if there are only two classes and one score. With w ~ PolyaGamma(1, s - c) it is normal:

    (y - 1/2)/w + c  is a response with mean s and variance 1/w,   y = 1 in the class, 0 outside.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sparse_langevin.linear.families.base import INTERCEPT, Array, Hyper
from sparse_langevin.linear.polya_gamma import draw_all


class Classes:
    """Labels 0, 1, ... with weights that count how often each row is there."""

    known, noise = True, math.pi**2 / 3

    def __init__(self, labels: NDArray[np.intp], weight: Array, intercept: bool = True) -> None:
        self.tau = INTERCEPT if intercept else math.inf
        share = np.bincount(labels, weight) / weight.sum()
        self.responses = 1 if len(share) == 2 else len(share)
        self.inside = labels == np.arange(len(share))[-self.responses :, None]
        self.share, self.weight = share, weight
        self.information = float(weight.sum() * (share * (1 - share)).mean())

    def start(self, rng: np.random.Generator) -> Hyper:
        """There are no parameters."""
        return {}

    def intercepts(self) -> Array:
        """Return the log-odds of the second of two classes, or the logarithms of the shares."""
        if math.isinf(self.tau):
            return np.zeros(self.responses)
        if self.responses == 1:
            return np.array([math.log(self.share[1] / self.share[0])])
        logarithm: Array = np.log(self.share)
        centred: Array = logarithm - logarithm.mean()
        return centred

    def weigh(
        self, scores: Array, active: int, sigma: float, hyper: Hyper, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw the weights of the rows for the score of a class."""
        shape, kappa, others = self.polya_gamma(scores, active, hyper)
        weights = np.empty(scores.shape[1])
        draw_all(shape, scores[active] - others, rng, weights)
        return weights, kappa / weights + others

    def polya_gamma(self, scores: Array, active: int, hyper: Hyper) -> tuple[Array, Array, Array]:
        """Return b, kappa and the offset that the scores of the other classes make."""
        others = np.zeros(scores.shape[1])
        if self.responses > 1:
            others = logsumexp(np.delete(scores, active, axis=0), axis=0)
        return self.weight, self.weight * (self.inside[active] - 0.5), others

    def log_likelihood(self, scores: Array, hyper: Hyper) -> float:
        """Return the log-likelihood of scores."""
        if self.responses == 1:
            return float(self.weight @ -np.logaddexp(0.0, np.where(self.inside[0], -scores[0], scores[0])))
        return float(self.weight @ ((self.inside * scores).sum(0) - logsumexp(scores, axis=0)))
