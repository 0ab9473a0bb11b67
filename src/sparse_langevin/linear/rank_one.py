"""Changes of the model of a chain, and what follows for c, s and the inverse; see `informed` for what these are."""

import numpy as np

from sparse_langevin.linear.grouped import change_blocks
from sparse_langevin.linear.model_state import CLOCK, GROUPS, GUESTS, SIZE, G
from sparse_langevin.runtime.jit import compiled, reassociated

DIGITS = 1e-6  # share of a predictor that the others of the model leave, below which rank one loses too many digits


@compiled
def end_of(target, j):
    """Return where the group that predictor j begins ends; zero if it begins none."""
    return target.ends[j] if len(target.ends) else j + 1


@compiled
def settle_in(target, state, model):
    """Make ``model`` the model under a new target; c, s and the inverse are still to be computed."""
    state.place[:] = -1
    state.row[:] = -1
    state.owner[:] = -1
    state.used[:] = 0
    guests = groups = 0
    for a in range(len(model)):
        state.model[a] = model[a]
        state.place[model[a]] = a
        guests += model[a] >= target.anchors
        groups += end_of(target, model[a]) > 0
    state.integers[SIZE], state.integers[GUESTS], state.integers[GROUPS] = len(model), guests, groups
    for a in range(len(model)):
        fetch(target, state, model[a])


@compiled
def refresh(target, state, gram):
    """Compute the inverse, c and s from the columns."""
    k, g = state.integers[SIZE], target.grid[state.integers[G]]
    state.c[:], state.s[:], state.blocks[:] = target.product, target.square, target.blocks
    if k == 0:
        return
    for a in range(k):
        gram[a, a] += 1.0 / g
    root = np.linalg.inv(np.linalg.cholesky(gram))  # of which the inverse is made up so that it stays positive
    state.inverse[:k, :k] = np.ascontiguousarray(root.T) @ root
    for a in range(k):
        state.q[:] = 0.0
        mean = 0.0
        for b in range(k):
            add_multiple(state.q, state.inverse[a, b], state.columns[state.row[state.model[b]]])
            mean += state.inverse[a, b] * target.product[state.model[b]]
        column = state.columns[state.row[state.model[a]]]
        add_multiple(state.c, -mean, column)
        subtract_product(state.s, state.q, column)
        change_blocks(target.ends, state.blocks, state.q, column, -1.0)


@compiled
def gram_of(state):
    """Return the products of the model's columns."""
    k = state.integers[SIZE]
    gram = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            gram[a, b] = state.columns[state.row[state.model[min(a, b)]], state.model[max(a, b)]]
    return gram


@compiled
def include(target, state, j):
    """Put predictor j into the model."""
    k, g = state.integers[SIZE], target.grid[state.integers[G]]
    fetch(target, state, j)
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
    change_blocks(target.ends, state.blocks, state.q, state.q, -factor)
    for a in range(k):
        for b in range(k):
            state.inverse[a, b] += turned[a] * turned[b] / own
        state.inverse[a, k] = state.inverse[k, a] = -turned[a] / own
    state.inverse[k, k] = 1.0 / own
    state.model[k], state.place[j] = j, k
    state.integers[SIZE] = k + 1
    state.integers[GROUPS] += end_of(target, j) > 0
    state.integers[GUESTS] += j >= target.anchors
    if not own > DIGITS * target.square[j]:
        refresh(target, state, gram_of(state))


@compiled
def exclude(target, state, j):
    """Take predictor j out of the model."""
    k, slot, g = state.integers[SIZE], state.place[j], target.grid[state.integers[G]]
    fetch(target, state, j)
    own = state.inverse[slot, slot]
    mean = 0.0
    for a in range(k):
        mean += state.inverse[slot, a] * target.product[state.model[a]]
    c, s = mean / own, 1.0 / own - 1.0 / g
    state.q[:] = 0.0
    for a in range(k):
        add_multiple(state.q, state.inverse[a, slot] / g, state.columns[state.row[state.model[a]]])
    change(state.c, state.s, state.q, g * c, g * g / own)
    change_blocks(target.ends, state.blocks, state.q, state.q, g * g / own)
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
    state.integers[GROUPS] -= end_of(target, j) > 0
    state.integers[GUESTS] -= j >= target.anchors
    if not own * DIGITS * target.square[j] < 1.0:
        refresh(target, state, gram_of(state))


@compiled
def fetch(target, state, j):
    """See to it that the column of predictor j is there, in place of the one that was not used for longest."""
    state.integers[CLOCK] += 1
    if state.row[j] < 0:
        best = -1
        for row in range(len(state.owner)):
            owner = state.owner[row]
            if owner < 0:
                best = row
                break
            if state.place[owner] < 0 and (best < 0 or state.used[row] < state.used[best]):
                best = row
        if state.owner[best] >= 0:
            state.row[state.owner[best]] = -1
        state.owner[best], state.row[j] = j, best
        state.columns[best] = target.rows @ target.rows[j]
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
