"""A Gaussian target for any sampler, and the stationary law of its discretised chain.

With target N(mu, 1/lambda) a Langevin step with metric G is beta' = beta - eps*G*lambda*(beta - mu) + sqrt(2*eps*G) z:
an autoregression with mean mu, variance 1/(lambda*(1 - eps*G*lambda/2)) and correlation 1 - eps*G*lambda.
"""

import math

import numpy as np
import torch
from torch import nn


class Vector(nn.Module):
    """A model that is nothing but a vector of parameters."""

    def __init__(self, start):
        super().__init__()
        self.beta = nn.Parameter(torch.as_tensor(start, dtype=torch.float64).clone())


def gaussian_log_density(mean, precision):
    """A log-likelihood for a `Vector`: independent normals, one 'example'."""
    return lambda model, batch: -0.5 * (precision * (model.beta - mean).square()).sum().reshape(1)


def stationary_variance(precision, step_size, metric=1.0):
    return 1 / (precision * (1 - step_size * metric * precision / 2))


def assert_moments(draws, mean, variance, correlation):
    """Mean and variance within 4 Monte Carlo standard errors and within 2 %.

    ``draws`` has a row per kept step and a column per independent chain; ``correlation`` is that of consecutive rows.
    """
    draws = np.asarray(draws)
    error = (draws.mean() - mean) / math.sqrt(variance)
    bound = min(0.02, 4 / math.sqrt(independent_draws(draws.shape, correlation)))
    assert abs(error) < bound, f"mean off by {error:.2%} of a standard deviation, bound {bound:.2%}"
    error = np.mean((draws - mean) ** 2) / variance - 1
    bound = min(0.02, 4 * math.sqrt(2 / independent_draws(draws.shape, correlation**2)))
    assert abs(error) < bound, f"variance off by {error:.2%}, bound {bound:.2%}"


def independent_draws(shape, correlation):
    """How many independent draws an autoregression is worth: rows are times, columns are chains."""
    rows, columns = shape
    lags = np.arange(1, rows)
    return rows * columns / (1 + 2 * np.sum((1 - lags / rows) * correlation**lags))
