"""Predictors as they were given, dense or sparse, in any precision, treated as if they were standardised.

The standardised column is z_j = (x_j - mean_j)/std_j, so that Z'v = (X'v - mean sum(v))/std: nothing is ever copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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

    @property
    def size(self) -> int:
        """Number of predictors that are used."""
        return len(self.mean)

    def products(self, vectors: Array) -> Array:
        """Return Z'v of a vector, or of vectors side by side."""
        sums = vectors.sum(0)
        if not sparse.issparse(self.x):
            vectors = vectors.astype(self.x.dtype, copy=False)  # or a copy of all X would be made
        raw = np.asarray(self.x.T @ vectors, dtype=float)
        raw = raw if self.index is None else raw[self.index]
        found: Array = ((raw.T - np.multiply.outer(sums, self.mean)) / self.std).T
        return found

    def combine(self, coefficients: Array) -> Array:
        """Return Z b."""
        scaled = coefficients / self.std
        raw = np.zeros(self.x.shape[1])
        raw[slice(None) if self.index is None else self.index] = scaled
        if not sparse.issparse(self.x):
            raw = raw.astype(self.x.dtype, copy=False)
        return np.asarray(self.x @ raw, dtype=float) - float(self.mean @ scaled)

    def columns(self, places: NDArray[Any]) -> Array:
        """Return some of the columns z_j, side by side."""
        kept = places if self.index is None else self.index[places]
        raw = self.x[:, kept].toarray() if sparse.issparse(self.x) else self.x[:, kept]
        found: Array = (np.asarray(raw, dtype=float) - self.mean[places]) / self.std[places]
        return found
