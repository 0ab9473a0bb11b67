"""Means and deviations of columns, and rows that have given products of columns."""

from typing import Any

import numpy as np
from scipy import sparse

from sparse_langevin.linear.design import Array


def orthogonal_rows(gram: Array) -> Array:
    """Return Z with Z'Z as given, whose rows are orthogonal."""
    values, vectors = np.linalg.eigh(gram)
    vectors = with_signs(vectors)
    good = values > values[-1] * len(values) * np.finfo(float).eps
    found: Array = np.asfortranarray(np.sqrt(values[good])[:, None] * vectors[:, good].T)
    return found


def with_signs(vectors: Array) -> Array:
    """Give eigenvectors the sign that makes their largest component positive, whatever rounding made of it."""
    largest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])]
    found: Array = vectors * np.where(largest < 0, -1.0, 1.0)
    return found


def mean_and_std(x: Any, weight: Array, centred: bool = True) -> tuple[Array, Array]:
    """Return means and standard deviations of columns in double precision, some columns at a time."""
    share, even = weight / weight.sum(), bool((weight == 1).all())
    if sparse.issparse(x):
        mean = np.asarray(x.T @ share, dtype=float) * centred
        missed = 1 - np.asarray((x != 0).T @ share, dtype=float)
        excess = x.astype(float).tocsc(copy=True)
        excess.data -= np.repeat(mean, np.diff(excess.indptr))
        excess.data **= 2
        return mean, np.sqrt(np.maximum(np.asarray(excess.T @ share) + missed * mean**2, 0.0))
    mean, std = np.empty(x.shape[1]), np.empty(x.shape[1])
    width = max(1, (1 << 22) // len(x))
    for start in range(0, x.shape[1], width):
        block = x[:, start : start + width].astype(float)
        centre = (block.mean(0) if even else share @ block) if centred else np.zeros(block.shape[1])
        mean[start : start + width] = centre
        spread = block.std(0) if even and centred else np.sqrt(share @ (block - centre) ** 2)
        std[start : start + width] = spread
    return mean, std
