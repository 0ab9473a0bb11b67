r"""The spike and slab in closed form: the formulas that every sampler and estimator with this prior uses.

    beta | gamma ~ (1 - gamma) Laplace(0, sigma v0) + gamma N(0, sigma^2 v1),   gamma ~ Bernoulli(delta),
    delta ~ Beta(a, b),   sigma^2 ~ InverseGamma(nu/2, nu lambda/2)

These are plain functions of numbers, without torch or Numba. Compiled code uses them through
``sigma_root = compiled(mixture.sigma_root)``.
"""

import math

# Scale, offset, exponent and cap of `omega_at`, in the order of `Polynomial`'s parameters. The offset and the exponent
# are the paper's; the cap is the one in the code published by the authors of SGLD-SA.
OMEGA = (10.0, 100.0, 0.7, 0.1)


def omega_at(k: float) -> float:
    """Return the default step omega_k of the stochastic approximation: min(cap, scale * (k + offset)^-exponent).

    Examples
    --------
    >>> omega_at(1), round(omega_at(1e4), 6)
    (0.1, 0.015739)
    """
    scale, offset, exponent, cap = OMEGA
    return min(cap, scale * math.pow(k + offset, -exponent))


def log_ratio_at_zero(v0: float, v1: float) -> float:
    """Return the logarithm of N(0; 0, sigma^2 v1) / Laplace(0; 0, sigma v0); sigma cancels."""
    return math.log(2.0 * v0) - 0.5 * math.log(2.0 * math.pi * v1)


def log_odds(beta: float, sigma: float, v0: float, v1: float, log_odds_at_zero: float) -> float:
    """Return the log-odds of gamma = 1 given beta.

    ``log_odds_at_zero`` are those at beta = 0: `log_ratio_at_zero` + log(delta/(1 - delta)).
    """
    return log_odds_at_zero + abs(beta) / (sigma * v0) - beta * beta / (2.0 * sigma**2 * v1)


def delta_mean(sum_rho: float, size: int, a: float, b: float) -> float:
    """Return the posterior mean of delta, given the sum of ``size`` inclusion probabilities."""
    return (sum_rho + a) / (a + b + size)


def sigma_root(a: float, b: float, c: float) -> float:
    """Return the positive root of a s^2 - b s - c = 0 for a, c > 0 and b >= 0: the mode of sigma.

    Examples
    --------
    >>> sigma_root(1.0, 1.0, 2.0)
    2.0
    """
    return (b + math.sqrt(b * b + 4.0 * a * c)) / (2.0 * a)
