"""Draws of coefficients as one row each, dense or sparse: mean, deviation and quantiles without more memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.design import Array
from sparse_langevin.linear.moments import Scale
from sparse_langevin.linear.polygenic import SmallEffects

Samples = Any  # an array, a sparse array by rows, or Mixed
BLOCK = 1 << 22  # numbers that are made dense at a time


@dataclass(frozen=True)
class Mixed:
    """Draws of sparse effects with small effects of all predictors beside them, which are never kept all at once."""

    effects: sparse.csr_array
    small: SmallEffects
    there: NDArray[np.intp]
    """The draws that have small effects."""
    mean: Array
    """Posterior mean of all coefficients."""
    places: NDArray[np.intp]
    """Where the predictors that are used stand among all."""
    factor: Array
    """What the coefficients of those are multiplied with."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of draws and of predictors."""
        return int(self.effects.shape[0]), len(self.mean)

    def blocks(self) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Return some predictors and the draws of their coefficients, one block after the other."""
        by_column = self.effects.tocsc()
        for own, small in self.small.blocks():
            found = by_column[:, own].toarray()
            found[self.there] += small
            yield self.places[own], found * self.factor[own]

    def __getitem__(self, part: slice) -> Array:
        """Return some of the draws."""
        some = np.arange(self.shape[0])[part]
        found = np.zeros((len(some), self.shape[1]))
        for places, block in self.blocks():
            found[:, places] = block[some]
        return found

    def in_units(self, scale: Scale) -> "Mixed":
        """Return coefficients in the user's units."""
        factor, mean = scale.y_std / scale.x_std[scale.used], np.zeros(len(scale.x_mean))
        mean[scale.used] = self.mean * factor
        return replace(self, mean=mean, places=np.flatnonzero(scale.used), factor=factor)


def in_units(samples: Samples, scale: Scale) -> Samples:
    """Turn coefficients of the used predictors, standardised, into those of all predictors in the user's units."""
    if isinstance(samples, Mixed):
        return samples.in_units(scale)
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
    if isinstance(samples, Mixed):
        return _linear(samples, x)
    found = samples @ x.T if sparse.issparse(samples) or not sparse.issparse(x) else (x @ samples.T).T
    dense: Array = found.toarray() if sparse.issparse(found) else np.asarray(found)
    return dense


def _linear(samples: Mixed, x: Any) -> Array:
    by_column = x.tocsc() if sparse.issparse(x) else x
    found = np.zeros((samples.shape[0], x.shape[0]))
    for places, block in samples.blocks():
        found += (by_column[:, places] @ block.T).T
    return found


def scores(samples: Sequence[Samples], intercepts: Array, x: Any) -> Iterator[Array]:
    """Yield linear predictors (draws, rows, responses) of some draws at a time; there is one array per response."""
    size = max(1, BLOCK // (max(1, x.shape[0]) * len(samples)))
    for start in range(0, len(intercepts), size):
        part = slice(start, start + size)
        yield np.stack([linear(own[part], x) for own in samples], axis=2) + intercepts[part, None, :]


def dense(samples: Samples) -> Array:
    """Return draws as an array."""
    found: Array = samples.toarray() if sparse.issparse(samples) else samples[:]
    return found


def moments_of(samples: Samples) -> tuple[Array, Array]:
    """Return mean and standard deviation of each coefficient."""
    if isinstance(samples, Mixed):
        deviation = np.zeros(samples.shape[1])
        for places, block in samples.blocks():
            deviation[places] = block.std(0)
        return samples.mean, deviation
    if not sparse.issparse(samples):
        return samples.mean(0), samples.std(0)
    mean = np.asarray(samples.mean(0)).ravel()
    square = np.asarray(samples.power(2).mean(0)).ravel()
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def quantiles(samples: Samples, probabilities: Sequence[float]) -> Array:
    """Return quantiles of each coefficient, (probabilities, coefficients)."""
    if isinstance(samples, Mixed):
        bounds = np.zeros((len(probabilities), samples.shape[1]))
        for places, block in samples.blocks():
            bounds[:, places] = np.quantile(block, probabilities, axis=0)
        return bounds
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


def quantiles_in_models(samples: Samples, probabilities: Sequence[float]) -> Array:
    """Return quantiles of each coefficient over the draws whose model has its predictor; NaN if there are none."""
    found = np.full((len(probabilities), samples.shape[1]), np.nan)
    for place, values in _in_models(samples):
        found[:, place] = np.quantile(values, probabilities)
    return found


def _in_models(samples: Samples) -> Iterator[tuple[int, Array]]:
    """Yield each predictor that is in some models, with its coefficients there."""
    by_column = samples.effects.tocsc() if isinstance(samples, Mixed) else sparse.csc_array(samples)
    ends = by_column.indptr
    if not isinstance(samples, Mixed):
        for place in np.flatnonzero(np.diff(ends)):
            yield int(place), by_column.data[ends[place] : ends[place + 1]]
        return
    for places, block in samples.blocks():
        for place, own, values in zip(places, np.searchsorted(samples.places, places), block.T, strict=True):
            draws = by_column.indices[ends[own] : ends[own + 1]]
            if len(draws):
                yield int(place), values[draws]
