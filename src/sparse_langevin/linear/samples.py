"""Draws of coefficients as one row each, dense or sparse: mean, deviation and quantiles without more memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sparse_langevin.linear.design import Array
from sparse_langevin.linear.moments import Scale

Samples = Any  # an array, or a sparse array by rows
BLOCK = 1 << 22  # numbers that are made dense at a time


def in_units(samples: Samples, scale: Scale) -> Samples:
    """Turn coefficients of the used predictors, standardised, into those of all predictors in the user's units."""
    factor, p = scale.y_std / scale.x_std[scale.used], len(scale.x_mean)
    if sparse.issparse(samples):
        place = np.flatnonzero(scale.used)[samples.indices]
        values = samples.data * factor[samples.indices]
        return sparse.csr_array((values, place, samples.indptr), shape=(samples.shape[0], p))
    found = np.zeros((len(samples), p))
    found[:, scale.used] = samples * factor
    return found


def linear(samples: Samples, x: Any) -> Array:
    """Return the sums of predictors times coefficients, (draws, rows)."""
    found = samples @ x.T if sparse.issparse(samples) or not sparse.issparse(x) else (x @ samples.T).T
    dense: Array = found.toarray() if sparse.issparse(found) else np.asarray(found)
    return dense


def scores(samples: Sequence[Samples], intercepts: Array, x: Any) -> Iterator[Array]:
    """Yield linear predictors (draws, rows, responses) of some draws at a time; there is one array per response."""
    size = max(1, BLOCK // (max(1, x.shape[0]) * len(samples)))
    for start in range(0, len(intercepts), size):
        part = slice(start, start + size)
        yield np.stack([linear(own[part], x) for own in samples], axis=2) + intercepts[part, None, :]


def dense(samples: Samples) -> Array:
    """Return draws as an array."""
    found: Array = samples.toarray() if sparse.issparse(samples) else samples
    return found


def moments_of(samples: Samples) -> tuple[Array, Array]:
    """Return mean and standard deviation of each coefficient."""
    if not sparse.issparse(samples):
        return samples.mean(0), samples.std(0)
    mean = np.asarray(samples.mean(0)).ravel()
    square = np.asarray(samples.power(2).mean(0)).ravel()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def quantiles(samples: Samples, probabilities: Sequence[float]) -> Array:
    """Return quantiles of each coefficient, (probabilities, coefficients)."""
    if not sparse.issparse(samples):
        found: Array = np.quantile(samples, probabilities, axis=0)
        return found
    draws, p = samples.shape
    by_column, found = samples.tocsc(), np.zeros((len(probabilities), p))
    filled = np.flatnonzero(np.diff(by_column.indptr))  # of the others, all draws are zero
    for start in range(0, len(filled), max(1, BLOCK // draws)):
        some = filled[start : start + max(1, BLOCK // draws)]
        found[:, some] = np.quantile(by_column[:, some].toarray(), probabilities, axis=0)
    return found


def interval(samples: Samples, level: float) -> tuple[Array, Array]:
    """Return the equal-tailed interval of each coefficient."""
    lower, upper = quantiles(samples, [(1 - level) / 2, (1 + level) / 2])
    return lower, upper
