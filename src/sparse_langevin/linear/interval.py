r"""Normal variables on an interval that begins at zero: probabilities without loss of digits, and draws.

With Phi the distribution function of the standard normal, M(z) = exp(z^2/2) Phi(z) as in `coefficient`, and h the end
of the interval, which may be infinite,

    log(exp(u^2/2) (Phi(u) - Phi(u - h))) = log(M(u) - exp(h u - h^2/2) M(u - h))
                                          = log(exp(h u - h^2/2) M(h - u) - M(-u))   where both terms are tails.
"""

import math

from sparse_langevin.linear.coefficient import log_mills
from sparse_langevin.runtime.jit import compiled

NARROW = 1e-4  # width of an interval, in units of its normal's scales, on which the density is constant
LARGEST_MEAN = 1e12  # of data with so many standard errors no digits are left
LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@compiled
def log_between(u, slope):
    """Return log(exp(u^2/2) (Phi(u) - Phi(u - h))), with h = 1/slope, without loss of digits."""
    whole = log_mills(u)
    if slope <= 0.0:
        return whole
    h = 1.0 / slope
    gain = h * u - 0.5 * h * h
    if h * (1.0 + abs(u)) < NARROW:
        return math.log(h) - LOG_ROOT_TWO_PI + 0.5 * gain + 0.125 * h * h
    if u > h:  # two small tails on the other side
        beyond = gain + log_mills(h - u)
        return beyond + math.log1p(-math.exp(log_mills(-u) - beyond))
    left = math.exp(gain + log_mills(u - h) - whole)
    return whole + math.log1p(-left)


@compiled
def between(mean, high, rng):
    """Draw from N(mean, 1) on (0, high) by rejection, from a uniform density, a normal or an exponential one."""
    if not (abs(mean) < LARGEST_MEAN and high > 0.0):
        raise FloatingPointError("a chain has lost all digits: leave out predictors that are copies or sums of others")
    if mean > 0.5 * high:
        return high - between_low(high - mean, high, rng)
    return between_low(mean, high, rng)


@compiled
def between_low(mean, high, rng):
    """Draw from N(mean, 1) on (0, high) with the mean in the lower half, or below."""
    peak = max(mean, 0.0)
    if high < 2.0 / (1.0 + peak - mean):
        while True:
            value = rng.random() * high
            if rng.random() < math.exp(0.5 * (peak - mean) ** 2 - 0.5 * (value - mean) ** 2):
                return value
    while True:
        value = truncated_normal(mean, rng)
        if value < high:
            return value


@compiled
def truncated_normal(mean, rng):
    """Draw from N(mean, 1) on (0, inf), as `coefficient.truncated_normal`."""
    if mean > -0.4:
        while True:
            value = mean + rng.standard_normal()
            if value > 0.0:
                return value
    rate = 0.5 * (math.sqrt(mean * mean + 4.0) - mean)
    while True:
        value = rng.standard_exponential() / rate
        if rng.random() < math.exp(-0.5 * (value - mean - rate) ** 2):
            return value
