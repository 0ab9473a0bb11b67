"""What a family of responses has to say, so that chains over models can sample it; see `augmented`."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Hyper = dict[str, float]

INTERCEPT = 0.01  # precision of the prior of intercepts that are on the scale of logarithms


class Family(Protocol):
    """A likelihood that is normal given weights of the rows: responses are N(linear predictor, sigma^2/weight)."""

    responses: int
    """Number of linear predictors: one, or one per class."""
    known: bool
    """Whether sigma is known to be 1."""
    tau: float
    """Precision of the intercept's prior, in units of 1/sigma^2; infinite if there is none."""
    noise: float
    """Variance of the noise on the scale of the linear predictor: with it the prior compares that of the effects."""
    information: float
    """To how many observations with noise of variance 1 the rows amount."""

    def start(self, rng: np.random.Generator) -> Hyper:
        """Return first values of the family's own parameters."""

    def intercepts(self) -> Array:
        """Return first values of the intercepts."""

    def weigh(
        self, scores: Array, active: int, sigma: float, hyper: Hyper, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw the family's parameters (in place) and weights; return weights and responses of a linear predictor.

        ``scores`` are all linear predictors, (responses, rows).
        """

    def polya_gamma(self, scores: Array, active: int, hyper: Hyper) -> tuple[Array, Array, Array] | None:
        """Return b, kappa and c if weights are PolyaGamma(b, score - c), and responses kappa/weight + c."""

    def log_likelihood(self, scores: Array, hyper: Hyper) -> float:
        """Return the log-likelihood of linear predictors up to a constant; needed if sigma is known."""
