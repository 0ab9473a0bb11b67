"""Predictors as they were given, dense or sparse, in any precision, treated as if they were standardised.

The standardised column is z_j = (x_j - mean_j)/std_j, so that Z'v = (X'v - mean sum(v))/std: nothing is ever copied.
Rows may have weights: each is multiplied by the square root of its own.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.runtime.jit import compiled

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Rows of predictors, of which those at ``index`` are used."""

    x: Any
    """(rows, predictors): an array, or a sparse matrix by columns."""
    mean: Array
    std: Array
    """Of the used predictors."""
    index: NDArray[np.intp] | None
    """The used predictors; None if all are."""
    root: Array | None = None
    """Square roots of the rows' weights; None if all are 1."""

    @property
    def size(self) -> int:
        """Number of predictors that are used."""
        return len(self.mean)

    def products(self, vectors: Array) -> Array:
        """Return Z'v of a vector, or of vectors side by side."""
        if self.root is not None:
            vectors = (self.root * vectors.T).T
        sums = vectors.sum(0)
        if not sparse.issparse(self.x):
            vectors = vectors.astype(self.x.dtype, copy=False)  # or a copy of all X would be made
        raw = np.asarray(self.x.T @ vectors, dtype=float)
        raw = raw if self.index is None else raw[self.index]
        found: Array = ((raw.T - np.multiply.outer(sums, self.mean)) / self.std).T
        return found

    def combine(self, coefficients: Array) -> Array:
        """Return Z b of a vector, or of vectors side by side."""
        scaled = (coefficients.T / self.std).T
        raw = scaled
        if self.index is not None:
            raw = np.zeros((self.x.shape[1], *scaled.shape[1:]))
            raw[self.index] = scaled
        if not sparse.issparse(self.x):
            raw = raw.astype(self.x.dtype, copy=False)
        found = np.asarray(self.x @ raw, dtype=float) - self.mean @ scaled
        return found if self.root is None else (self.root * found.T).T

    def sums(self, coefficients: sparse.csr_array) -> Array:
        """Return Z b of sparse coefficients, one row for each b."""
        scaled = coefficients.copy()
        scaled.data = scaled.data / self.std[scaled.indices]
        shift = np.asarray(scaled @ self.mean)
        places = scaled.indices if self.index is None else self.index[scaled.indices]
        shape = len(shift), self.x.shape[1]
        values = scaled.data if sparse.issparse(self.x) else scaled.data.astype(self.x.dtype, copy=False)
        raw = sparse.csr_array((values, places, scaled.indptr), shape=shape) @ self.x.T
        found: Array = (raw.toarray() if sparse.issparse(raw) else raw.astype(float)) - shift[:, None]
        return found if self.root is None else self.root * found

    def squares(self, weights: Array) -> Array:
        """Return sum of w z_j^2 over the rows, for all predictors."""
        weights = weights if self.root is None else weights * self.root**2
        if sparse.issparse(self.x):
            return self._sparse_squares(weights)
        places = np.arange(self.x.shape[1]) if self.index is None else self.index
        found = np.zeros(self.size)
        weighted_squares(self.x, places, self.mean, self.std, np.ascontiguousarray(weights), found)
        return found

    def _sparse_squares(self, weights: Array) -> Array:
        squared = self.x.copy()
        squared.data = squared.data**2
        raw, sums = np.asarray(squared.T @ weights, dtype=float), np.asarray(self.x.T @ weights, dtype=float)
        if self.index is not None:
            raw, sums = raw[self.index], sums[self.index]
        found: Array = (raw - 2 * self.mean * sums + self.mean**2 * weights.sum()) / self.std**2
        return found

    def columns(self, places: NDArray[Any]) -> Array:
        """Return some of the columns z_j, side by side."""
        kept = places if self.index is None else self.index[places]
        mean, std = self.mean[places], self.std[places]
        if sparse.issparse(self.x):
            found: Array = (np.asarray(self.x[:, kept].toarray(), dtype=float) - mean) / std
        else:
            found = np.empty((len(kept), self.x.shape[0])).T
            standardised(self.x, kept, mean, std, found)
        return found if self.root is None else self.root[:, None] * found


@compiled
def standardised(x, places, mean, std, found):
    """Compute some of the columns."""
    for i in range(len(x)):
        for j in range(len(places)):
            found[i, j] = (x[i, places[j]] - mean[j]) / std[j]


@compiled
def weighted_squares(x, places, mean, std, weights, found):
    """Add up w z_j^2 over the rows, in the order in which x lies in memory."""
    n, p = len(x), len(places)
    if x.strides[1] < x.strides[0]:
        for i in range(n):
            for j in range(p):
                z = (x[i, places[j]] - mean[j]) / std[j]
                found[j] += weights[i] * z * z
    else:
        for j in range(p):
            total = 0.0
            for i in range(n):
                z = x[i, places[j]] - mean[j]
                total += weights[i] * z * z
            found[j] = total / (std[j] * std[j])
