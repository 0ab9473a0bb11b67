"""Scales of the components of a data set, computed in pieces that fit into memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.problems.arrays.layouts import Variable
from sparse_langevin.problems.arrays.sources import PIECE
from sparse_langevin.surrogates.problem import Array

Mask = NDArray[np.bool_]


def statistics_of(
    inputs: Variable, outputs: Variable, x: NDArray[Any], y: NDArray[Any], train: Mask
) -> dict[str, list[float]]:
    """Numbers that an `ArraysProblem` needs to know of its training data.

    ``rms`` is the root mean square of each component of the outputs. ``std`` is its deviation from the mean, which is
    taken point by point. ``logs`` says for each component of the inputs whether its logarithm is taken: if it is
    positive in all samples and skewed, so that a few large values would hide the others, and its logarithm is far more
    symmetric.
    """
    count = int(train.sum())
    square, mean = 0.0, np.zeros((outputs.components, outputs.points))
    for piece in _pieces(y, outputs, train):
        mean += piece.sum(0) / count
        square = square + np.square(piece).mean(2).sum(0) / count
    variance = sum(np.square(piece - mean).mean(2).sum(0) / count for piece in _pieces(y, outputs, train))
    positive = np.all([(piece > 0).all((0, 2)) for piece in _pieces(x, inputs, np.ones_like(train))], axis=0)
    skewed = np.abs(_skewness(x, inputs, train))
    if (positive & (skewed > 1)).any():
        logs = positive & (skewed > 1)
        logs &= np.abs(_skewness(x, inputs, train, lambda v: np.log(np.where(v > 0, v, 1)))) < 0.5 * skewed
    else:
        logs = np.zeros_like(positive)
    return {"rms": np.sqrt(square).tolist(), "std": np.sqrt(variance).tolist(), "logs": logs.tolist()}


def _pieces(array: NDArray[Any], variable: Variable, chosen: Mask) -> Iterator[Array]:
    """Chosen examples, some at a time, as (n, components, points) in double precision."""
    step = max(1, PIECE // (8 * variable.size))
    for start in range(0, len(array), step):
        rows = array[start : start + step][chosen[start : start + step]]
        if len(rows):
            yield variable.parts(np.asarray(rows, dtype=np.float64))


def _skewness(
    x: NDArray[Any], variable: Variable, train: Mask, change: Callable[[Array], Array] = lambda values: values
) -> Array:
    """Third moment of each component's standardised values; 0 for a constant."""
    count = int(train.sum())
    mean = sum(change(piece).mean(2).sum(0) for piece in _pieces(x, variable, train)) / count
    moments = np.zeros((2, variable.components))
    for piece in _pieces(x, variable, train):
        centred = change(piece) - np.asarray(mean)[:, None]
        moments += [np.square(centred).mean(2).sum(0) / count, (centred**3).mean(2).sum(0) / count]
    variance = np.where(moments[0] > 1e-24 * np.square(mean), moments[0], np.inf)
    skewness: Array = moments[1] / variance**1.5
    return skewness
