"""Groups of predictors, which are in the model together or not at all.

The predictors of a group stand side by side. Its odds, rate and inclusion have the place of the first one, with zeros
in those of the others. Of a group that is not in the model, S = X_a'PX_a is kept beside c = X_a'Py, and changes with
it; see `informed` for P and R. The likelihood ratio of the model with the group is

    |I + g S|^(-1/2) (1 - g c'(I + g S)^-1 c/R)^-m.
"""

import math

import numpy as np

from sparse_langevin.linear.model_state import GROUPS, LARGEST, SIZE, G
from sparse_langevin.runtime.jit import compiled


@compiled
def blocks_of(rows, ends):
    """Return X_a'X_a of all groups, one after the other."""
    total = 0
    for j in range(len(ends)):
        total += (ends[j] - j) ** 2 if ends[j] else 0
    blocks, at = np.empty(total), 0
    for j in range(len(ends)):
        for a in range(j, ends[j]):
            for b in range(j, ends[j]):
                blocks[at] = rows[a] @ rows[b]
                at += 1
    return blocks


@compiled
def change_blocks(ends, blocks, one, other, factor):
    """Add a multiple of the product of two vectors to the matrices of all groups."""
    at = 0
    for j in range(len(ends)):
        for a in range(j, ends[j]):
            for b in range(j, ends[j]):
                blocks[at] += factor * one[a] * other[b]
                at += 1


@compiled
def group_rates(target, state, rest, explore):
    """Compute the odds of all groups and the rates at which they change; return the sum of the rates."""
    size, count, index = state.integers[SIZE], state.integers[GROUPS], state.integers[G]
    g, ends, prior = target.grid[index], target.ends, target.prior[index]
    state.odds[:], state.rate[:] = 0.0, 0.0
    total, at = 0.0, 0
    for j in range(len(ends)):
        if ends[j] == 0:
            continue
        m, inside = ends[j] - j, state.place[j] >= 0
        if inside:
            places = state.place[j : ends[j]]
            ratio = log_ratio_inside(state.inverse, state.mean, places, g, rest, target.half)
            value = prior[count] - prior[count - 1] + ratio
        elif size + m <= len(state.model):
            block = state.blocks[at : at + m * m].reshape(m, m)
            value = prior[count + 1] - prior[count] + log_ratio(state.c[j : ends[j]], block, g, rest, target.half)
        else:
            value = -LARGEST
        at += m * m
        odds = math.exp(min(max(value, -LARGEST), LARGEST))
        change = 1.0 if inside else odds
        state.odds[j], state.rate[j] = odds, 0.5 * change * (1.0 + explore * (1.0 + 1.0 / odds))
        total += state.rate[j]
    return total


@compiled
def log_ratio_inside(inverse, mean, places, g, rest, half):
    """Return the logarithm of the likelihood ratio of a part of the model with respect to the rest of it.

    ``inverse`` is (1/g + X_m'X_m)^-1, and ``mean`` its product with X_m'y. Its block of the part, divided by g, is the
    inverse of I + gS; without the part, R is larger by the part's mean times the inverse of that block times the mean.
    """
    m = len(places)
    own, solved, value, gain = np.empty((m, m)), np.empty(m), 0.0, 0.0
    for a in range(m):
        for b in range(m):
            own[a, b] = inverse[places[a], places[b]] / g
    root = np.linalg.cholesky(own)
    for a in range(m):
        left = mean[places[a]]
        for b in range(a):
            left -= root[a, b] * solved[b]
        solved[a] = left / root[a, a]
        gain += solved[a] * solved[a] / g
        value += math.log(root[a, a])
    return value + half * math.log1p(gain / rest)


@compiled
def log_ratio(c, block, g, rest, half):
    """Return the logarithm of the likelihood ratio of coefficients with variance sigma^2 g."""
    m = len(c)
    if m == 1:
        wide = max(1.0 + g * block[0, 0], 1.0)
        return -0.5 * math.log(wide) - half * math.log(max(1.0 - g * c[0] * c[0] / (wide * rest), 1.0 / wide))
    root = np.eye(m) + g * block
    solved, value, gain = np.empty(m), 0.0, 0.0
    for a in range(m):
        left = c[a]
        for b in range(a):
            for i in range(b):
                root[a, b] -= root[a, i] * root[b, i]
            root[a, b] /= root[b, b]
            root[a, a] -= root[a, b] * root[a, b]
            left -= root[a, b] * solved[b]
        root[a, a] = math.sqrt(max(root[a, a], 1.0))  # as it is but for rounding
        solved[a] = left / root[a, a]
        gain += g * solved[a] * solved[a]
        value -= math.log(root[a, a])
    return value - half * math.log(max(1.0 - gain / rest, math.exp(2.0 * value)))  # see `informed.fill_odds`
