"""Changes of the model of a chain, and what follows for c, s and the inverse; see `informed` for what these are."""

import numpy as np

from sparse_langevin.linear.model_state import CLOCK, SIZE, G
from sparse_langevin.runtime.jit import compiled, reassociated

BLOCK = 512  # predictors that are treated at a time, for the sake of the processor's cache


@compiled
def refresh(target, state, gram):
    """Compute the inverse, c and s from the columns."""
    k, g, p = state.integers[SIZE], target.grid[state.integers[G]], len(state.c)
    state.c[:], state.s[:] = target.product, target.square
    if k == 0:
        return
    for a in range(k):
        gram[a, a] += 1.0 / g
    inverse = np.linalg.inv(gram)
    for a in range(k):
        for b in range(k):
            state.inverse[a, b] = 0.5 * (inverse[a, b] + inverse[b, a])
    for start in range(0, p, BLOCK):
        stop = min(start + BLOCK, p)
        q = state.q[start:stop]
        for a in range(k):
            q[:] = 0.0
            mean = 0.0
            for b in range(k):
                add_multiple(q, state.inverse[a, b], state.columns[state.row[state.model[b]], start:stop])
                mean += state.inverse[a, b] * target.product[state.model[b]]
            column = state.columns[state.row[state.model[a]], start:stop]
            add_multiple(state.c[start:stop], -mean, column)
            subtract_product(state.s[start:stop], q, column)


@compiled
def include(target, state, j):
    """Put predictor j into the model."""
    k, g = state.integers[SIZE], target.grid[state.integers[G]]
    touch(state, j)
    cross, turned = np.empty(k), np.zeros(k)
    own = 1.0 / g + target.square[j]
    for a in range(k):
        cross[a] = state.columns[state.row[j], state.model[a]]
    for a in range(k):
        for b in range(k):
            turned[a] += state.inverse[a, b] * cross[b]
        own -= turned[a] * cross[a]
    state.q[:] = state.columns[state.row[j]]
    for a in range(k):
        add_multiple(state.q, -turned[a], state.columns[state.row[state.model[a]]])
    factor = g / (1.0 + g * state.s[j])
    change(state.c, state.s, state.q, -factor * state.c[j], -factor)
    for a in range(k):
        for b in range(k):
            state.inverse[a, b] += turned[a] * turned[b] / own
        state.inverse[a, k] = state.inverse[k, a] = -turned[a] / own
    state.inverse[k, k] = 1.0 / own
    state.model[k], state.place[j] = j, k
    state.integers[SIZE] = k + 1


@compiled
def exclude(target, state, j):
    """Take predictor j out of the model."""
    k, slot, g = state.integers[SIZE], state.place[j], target.grid[state.integers[G]]
    touch(state, j)
    own = state.inverse[slot, slot]
    c, s = state.own[0, slot], state.own[1, slot]
    state.q[:] = 0.0
    for a in range(k):
        add_multiple(state.q, state.inverse[a, slot] / g, state.columns[state.row[state.model[a]]])
    change(state.c, state.s, state.q, g * c, g * g / own)
    state.c[j], state.s[j] = c, s
    column = state.inverse[:k, slot].copy()
    for a in range(k):
        for b in range(k):
            state.inverse[a, b] -= column[a] * column[b] / own
    last = k - 1
    if slot != last:
        state.inverse[slot, :k] = state.inverse[last, :k]
        state.inverse[:k, slot] = state.inverse[:k, last]
        state.inverse[slot, slot] = state.inverse[last, last]
        state.model[slot] = state.model[last]
        state.place[state.model[slot]] = slot
    state.place[j] = -1
    state.integers[SIZE] = last


@compiled
def touch(state, j):
    """Note that the column of predictor j is in use."""
    state.integers[CLOCK] += 1
    state.used[state.row[j]] = state.integers[CLOCK]


@reassociated
def add_multiple(vector, factor, other):
    """Add a multiple of another vector."""
    for j in range(len(vector)):
        vector[j] += factor * other[j]


@reassociated
def subtract_product(vector, one, other):
    """Subtract the products of the elements of two vectors."""
    for j in range(len(vector)):
        vector[j] -= one[j] * other[j]


@reassociated
def change(c, s, q, of_c, of_s):
    """Change c and s by rank one."""
    for j in range(len(c)):
        c[j] += of_c * q[j]
        s[j] += of_s * q[j] * q[j]
