r"""One coefficient given all others: closed forms that make the latent variables of a linear model exact.

If the log-likelihood of coefficient b is (c b - q b^2/2)/sigma^2 (which is exact for a Gaussian response, and of second
order otherwise), the integrals of the spike and of the slab over b are known:

    slab    S = (1 + v1 q)^(-1/2) exp(c^2/(2 sigma^2 (q + 1/v1)))     b ~ N(c/(q + 1/v1), sigma^2/(q + 1/v1))
    spike   L = (2 v0)^(-1) sqrt(2 pi/q) (M(z+) + M(z-))              |b| = (sigma/sqrt(q)) T(z+-), sign +-
            z+- = (+-c/sigma - 1/v0)/sqrt(q),   M(z) = exp(z^2/2) Phi(z),   T(z) ~ N(z, 1) on (0, inf)

and P(gamma = 1 | the others) = delta S/(delta S + (1 - delta) L).
"""

import math

import numpy as np

from sparse_langevin.runtime.jit import compiled
from sparse_langevin.sampling import mixture

log_ratio_at_zero = compiled(mixture.log_ratio_at_zero)
log_odds = compiled(mixture.log_odds)

ROOT_TWO_PI = math.sqrt(2 * math.pi)


@compiled
def log_mills(z):
    """Return the logarithm of M(z)."""
    if z > -30.0:
        return 0.5 * z * z + math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    w = 1.0 / (z * z)
    return -math.log(-z * ROOT_TWO_PI) + math.log1p(-w * (1.0 - 3.0 * w * (1.0 - 5.0 * w)))


@compiled
def evidence(c, q, sigma, v0, v1):
    """Return log S and log L, and of the spike's conditional distribution E|b| and P(b > 0)."""
    slab = -0.5 * math.log1p(v1 * q) + c * c / (2.0 * sigma**2 * (q + 1.0 / v1))
    root = math.sqrt(q)
    z_plus, z_minus = (c / sigma - 1.0 / v0) / root, (-c / sigma - 1.0 / v0) / root
    plus, minus = log_mills(z_plus), log_mills(z_minus)
    top = max(plus, minus)
    total = top + math.log(math.exp(plus - top) + math.exp(minus - top))
    positive = math.exp(plus - total)
    mean_plus, mean_minus = z_plus + math.exp(-plus) / ROOT_TWO_PI, z_minus + math.exp(-minus) / ROOT_TWO_PI
    size = sigma / root * (positive * mean_plus + (1.0 - positive) * mean_minus)
    return slab, total + math.log(ROOT_TWO_PI / (2.0 * v0 * root)), size, positive


@compiled
def draw(c, q, sigma, v0, v1, logit_delta):
    """Draw b from its exact conditional with gamma summed out; return it with the log of the normalising constant."""
    slab, spike, _, positive = evidence(c, q, sigma, v0, v1)
    odds = slab - spike + logit_delta
    log_z = log_sum(spike, odds)
    if np.random.random() < sigmoid(odds):
        precision = q + 1.0 / v1
        return c / precision + sigma / math.sqrt(precision) * np.random.standard_normal(), log_z
    side = 1.0 if np.random.random() < positive else -1.0
    return side * sigma / math.sqrt(q) * truncated_normal((side * c / sigma - 1.0 / v0) / math.sqrt(q)), log_z


@compiled
def log_normaliser(c, q, sigma, v0, v1, logit_delta):
    """Return the logarithm of (delta S + (1 - delta) L) up to log(1 - delta)."""
    slab, spike, _, _ = evidence(c, q, sigma, v0, v1)
    odds = slab - spike + logit_delta
    return log_sum(spike, odds)


@compiled
def log_sum(spike, odds):
    """Return the logarithm of exp(spike) (1 + exp(odds)), without overflow."""
    return spike + max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))


@compiled
def slab_probability(b, sigma, v0, v1, logit_delta):
    """Return P(gamma = 1 | b), the weight of the slab in the prior's gradient at b."""
    return sigmoid(log_odds(b, sigma, v0, v1, log_ratio_at_zero(v0, v1) + logit_delta))


@compiled
def truncated_normal(mean):
    """Draw from N(mean, 1) on (0, inf) by rejection, from a normal or in the tail an exponential (Robert, 1995)."""
    if mean > -0.4:
        while True:
            value = mean + np.random.standard_normal()
            if value > 0.0:
                return value
    rate = 0.5 * (math.sqrt(mean * mean + 4.0) - mean)
    while True:
        value = -math.log(1.0 - np.random.random()) / rate
        if np.random.random() < math.exp(-0.5 * (value - mean - rate) ** 2):
            return value


@compiled
def sigmoid(odds):
    """Return 1/(1 + exp(-odds)), without overflow."""
    return 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0


@compiled
def logit(delta):
    """Return log(delta/(1 - delta))."""
    return math.log(delta) - math.log1p(-delta)
