r"""The prior of how many predictors have an effect, and how large effects are; both are learned.

Each of p predictors has an effect with probability delta, and effects are N(0, sigma^2 g). With R the share of the
variance of the response that effects explain, g p delta = R/(1 - R) on average over effects. As in Zhou, Carbonetto and
Stephens (2013), delta is uniform on the scale of its logarithm, and R is uniform on (0, 1). But effects must be such
that n observations can tell them from nothing, or data without any effect would be explained by hundreds of tiny ones:

    p(log delta, log g) ~ Logistic(log(g p delta); 0, 1) exp(-resolved/(n g)) / (1 + (p delta/(usual n))^2),

for fewest/p < delta < 1: up to one effect for four observations, all orders of magnitude are equally probable. n g is
the squared size of a typical effect in units of its standard error. Many effects that are smaller than that are the
business of `polygenic`. That no predictor has an effect, and that some have, are equally probable. delta is summed out:
what remains is a table of the probability of g and of any one model of k predictors.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Array = NDArray[np.float64]

FEWEST = 0.5  # smallest expected number of effects
RESOLVED = 40.0  # squared standard errors; with 20, chains wander longer between many effects and the polygenic part
USUAL = 0.25  # expected effects per observation up to which all orders of magnitude are equally likely
MOST_RESOLVED = 1e8  # largest n g
NODES = 200  # values of delta
LEAST = -600.0  # logarithm of what is practically impossible


def g_grid(n: float = 1.0) -> Array:
    """Return the values of g: from a millionth of the variance of the noise to a million times that.

    Copies of a predictor differ by 1/(n g) of it only: n observations leave digits for n g up to a bound. An effect is
    shrunk by the same share, so that larger values would hardly change anything else.
    """
    grid: Array = np.exp(np.arange(math.log(1e-6), math.log(1e6), 0.25))
    return grid[: max(2, int(np.searchsorted(grid, MOST_RESOLVED / n)))]


def table(p: int, n: float, most: int, grid: Array, noise: float = 1.0) -> Array:
    """Return log p(g, one model of k predictors) for all g and k = 0 ... most, up to a constant.

    ``noise`` is the variance of the noise in units of sigma^2.
    """
    low = math.log(min(FEWEST, 0.5 * p) / p)
    log_delta = low * (1 - (np.arange(NODES) + 0.5) / NODES)
    logit = np.log(grid)[:, None] + log_delta + math.log(p / noise)
    of_g = -np.abs(logit) - 2 * np.log1p(np.exp(-np.abs(logit))) - RESOLVED / (n * grid[:, None])
    of_g = np.maximum(of_g, LEAST)
    k = np.arange(most + 1.0)[:, None]
    delta = np.exp(log_delta)
    of_model = k * log_delta + (p - k) * np.log1p(-delta) - np.log1p((p * delta / (USUAL * n)) ** 2)
    top = of_model.max(1)
    found: Array = np.log(np.exp(of_g) @ np.exp(of_model - top[:, None]).T) + top
    models = gammaln(p + 1) - gammaln(k[:, 0] + 1) - gammaln(p - k[:, 0] + 1)
    found[:, 0] += logsumexp(found[:, 1:] + models[1:]) - logsumexp(found[:, 0])
    return found
