"""The state of a chain over models, see `informed`: what is known of the data, the model, and all other predictors."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

NOTHING, ASKED = -1, -2  # what a chain waits for, besides columns


class Target(NamedTuple):
    """The data and the prior."""

    square: Array
    """x_j'x_j."""
    product: Array
    """x_j'y."""
    total: float
    """y'y."""
    half: float
    """m: half of the degrees of freedom of R."""
    offset: float
    """nu lambda."""
    grid: Array
    """The values of g."""
    prior: Array
    """(values of g, sizes): logarithm of the prior of g and of one model of that size."""


class State(NamedTuple):
    """The state of a chain; its arrays are changed in place."""

    integers: Indices
    """Size of the model; index of g; predictor that waits for its column, or -1; whether time has passed already; how
    often hyperparameters were drawn; clock of the columns."""
    reals: Array
    """Rate xi; time; time of the next draw; time between draws."""
    model: Indices
    """The predictors of the model, in the first places."""
    place: Indices
    """For each predictor its place in the model, or -1."""
    columns: Array
    """Products X'x of some predictors, one per row."""
    row: Indices
    """For each predictor its row in ``columns``, or -1."""
    owner: Indices
    """For each row its predictor, or -1."""
    used: Indices
    """For each row when it was used last."""
    inverse: Array
    """(1/g + X_m'X_m)^-1."""
    own: Array
    """(2, places): c and s of the predictors in the model."""
    c: Array
    s: Array
    """Of all other predictors; zero for those in the model."""
    odds: Array
    rate: Array
    q: Array
    inclusion: Array
    """Sum over the time of the probability of each predictor."""


SIZE, G, WAITING, HELD, DRAWN, CLOCK = range(6)
XI, TIME, NEXT, SPACING = range(4)


class Draws(NamedTuple):
    """Room for draws; the first ``taken[0]`` are there."""

    taken: Indices
    size: Indices
    model: NDArray[np.int32]
    beta: Array
    sigma: Array
    g: Array


def initial_state(target: Target, most: int, columns: Array) -> State:
    """Return the state of the empty model, with room for models of ``most`` predictors and for some columns."""
    rows, p = columns.shape
    return State(
        integers=np.array([0, len(target.grid) // 2, -1, 0, 0, 0]),
        reals=np.array([1.0, 0.0, math.inf, math.inf]),
        model=np.zeros(most, np.int64),
        place=np.full(p, -1),
        columns=columns,
        row=np.full(p, -1),
        owner=np.full(rows, -1),
        used=np.zeros(rows, np.int64),
        inverse=np.zeros((most, most)),
        own=np.zeros((2, most)),
        c=target.product.copy(),
        s=target.square.copy(),
        odds=np.empty(p),
        rate=np.empty(p),
        q=np.empty(p),
        inclusion=np.zeros(p),
    )
