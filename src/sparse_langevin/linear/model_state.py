"""The state of a chain over models, see `informed`: what it knows of the data, the model and the predictors."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

LARGEST = 600.0  # log odds beyond which nothing changes
SPARE = 64  # columns that are kept beyond those of the largest model


class Target(NamedTuple):
    """The data, as far as they are in view, and the prior."""

    rows: Array
    """(predictors in view, n): the columns of the design, one per row, such that P of the empty model is I."""
    square: Array
    """x_j'x_j."""
    product: Array
    """x_j'y."""
    total: float
    """y'y, and what is left of the response outside of these rows."""
    half: float
    """m: half of the degrees of freedom of R."""
    offset: float
    """nu lambda."""
    grid: Array
    """The values of g."""
    prior: Array
    """(values of g, sizes): logarithm of the prior of g and of one model of so many predictors, or groups of them."""
    members: Indices
    """The predictors in view: anchors first, then guests."""
    anchors: int
    """Number of anchors."""
    outside: int
    """Number of predictors that are no anchors, in view or not."""
    ends: Indices
    """For each predictor in view that begins a group the end of the group, for others zero; empty without groups."""
    blocks: Array
    """X_a'X_a of all groups."""


class State(NamedTuple):
    """The state of a chain; its arrays are changed in place. Predictors are counted among those in view."""

    integers: Indices
    """Size of the model; index of g; whether more than g is to be drawn; whether time has passed already; how often
    hyperparameters were drawn; clock of the columns; number of guests in the model; number of groups in the model,
    which is its size if there are no groups."""
    reals: Array
    """Rate xi; time; time of the next draw; time between draws; sigma, if it is not integrated out."""
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
    mean: Array
    """Posterior means of the coefficients of the model, in the same places."""
    beta: Array
    """The coefficients of the model, if they are not integrated out."""
    c: Array
    s: Array
    """Of all other predictors; zero for those in the model."""
    blocks: Array
    """X_a'PX_a of all groups that are not in the model."""
    odds: Array
    rate: Array
    q: Array
    inclusion: Array
    """Sum over the time of the probability of each predictor."""


SIZE, G, ASKED, HELD, DRAWN, CLOCK, GUESTS, GROUPS = range(8)
XI, TIME, NEXT, SPACING, SIGMA = range(5)


class Draws(NamedTuple):
    """Room for draws; the first ``taken[0]`` are there."""

    taken: Indices
    size: Indices
    model: NDArray[np.int32]
    beta: Array
    sigma: Array
    g: Array


def initial_state(in_view: int, most: int, g: int, blocks: int) -> State:
    """Return the state of the empty model, with room for ``most`` predictors, some columns, and blocks of groups."""
    kept = min(in_view, most + SPARE)
    return State(
        integers=np.array([0, g, 0, 0, 0, 0, 0, 0]),
        reals=np.array([1.0, 0.0, math.inf, math.inf, 1.0]),
        model=np.zeros(most, np.int64),
        place=np.full(in_view, -1),
        columns=np.empty((kept, in_view)),
        row=np.full(in_view, -1),
        owner=np.full(kept, -1),
        used=np.zeros(kept, np.int64),
        inverse=np.zeros((most, most)),
        mean=np.zeros(most),
        beta=np.zeros(most),
        c=np.zeros(in_view),
        s=np.zeros(in_view),
        blocks=np.zeros(blocks),
        odds=np.empty(in_view),
        rate=np.empty(in_view),
        q=np.empty(in_view),
        inclusion=np.zeros(in_view),
    )


def room_for(count: int, most: int) -> Draws:
    """Return room for draws."""
    return Draws(
        taken=np.zeros(1, np.int64),
        size=np.zeros(count, np.int64),
        model=np.zeros((count, most), np.int32),
        beta=np.zeros((count, most)),
        sigma=np.zeros(count),
        g=np.zeros(count),
    )
