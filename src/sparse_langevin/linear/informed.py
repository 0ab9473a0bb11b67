r"""A chain over models, weighted tempered Gibbs sampling (Zanella and Roberts, 2019), in one compiled loop.

    y = X beta + N(0, sigma^2 I),   beta_j ~ N(0, sigma^2 g) if predictor j is in the model, else beta_j = 0,
    p(model, g) = prior[g, k] for each model of k predictors,   sigma^2 ~ InverseGamma(nu/2, nu lambda/2)

Coefficients and sigma are integrated out. With V = I + g X_m X_m' for the columns X_m of the model, and P = 1/V, a
model has the likelihood |V|^(-1/2) R^-m, R = nu lambda + y'Py. Known for all predictors at any time are

    c_j = x_j'Py,   s_j = x_j'Px_j,   with P of the model without j,

from which follows the probability of each predictor given all others,

    odds_j = prior odds * (1 + g s_j)^(-1/2) (1 - g c_j^2/((1 + g s_j) R))^-m.

A predictor is chosen at random with the rate (q_j + e/p)/(2 w_j), where q_j is its probability and w_j that of the
state it is in, and changes its state: whatever hardly ever changes under Gibbs sampling, as one of two strongly
correlated predictors, is chosen often. With the constant rate ``xi`` g is drawn instead, exactly, from its grid. Such
a chain stays 1/(sum of the rates) in each state, as a process in continuous time would; averages over that time are
those of the posterior. Draws are taken at equal distances in that time, so that all of them count alike.

A change of one predictor changes c and s by rank one, which takes the products of its column with all others. If there
are many predictors, few are in view at a time (as in subset wTGS, Jankowiak 2023): ``anchors``, which are always there,
and r of the N others as guests, chosen anew, uniformly among the sets that have all guests of the model in them,
whenever more than g is drawn. Jointly, model and guests then have the density p(model | y)/C(N - k, r - k) for k guests
in the model, so that the odds of a guest are (N - k)/(r - k) times those above.
"""

import math

import numpy as np

from sparse_langevin.linear.grouped import group_rates
from sparse_langevin.linear.model_state import (
    ASKED,
    DRAWN,
    GROUPS,
    GUESTS,
    HELD,
    LARGEST,
    NEXT,
    SIZE,
    SPACING,
    TIME,
    XI,
    Array,
    G,
)
from sparse_langevin.linear.rank_one import end_of, exclude, gram_of, include, refresh, settle_in
from sparse_langevin.linear.tridiagonal import weights_of_g
from sparse_langevin.runtime.jit import compiled, reassociated
from sparse_langevin.runtime.native_math import exp64, log64

EXPLORE = 1.0  # e: how much of the time goes to predictors that seem to have no effect
BLOCK = 128  # predictors whose rates are added up at a time


@compiled
def advance(target, state, draws, rng, steps, ask_every):
    """Take up to ``steps`` steps and return how many were taken.

    The loop ends before if there is no more room for draws, or if more than g is to be drawn, every ``ask_every``-th
    time (``integers[ASKED]`` says so).
    """
    integers, reals = state.integers, state.reals
    integers[ASKED] = 0
    for step in range(steps):
        rest = weigh(target, state)
        total = reals[XI] + rates(target, state, rest)
        if not integers[HELD]:
            add_probabilities(state.odds, 1.0 / total, state.inclusion)
            reals[TIME] += 1.0 / total
        integers[HELD] = 0
        while reals[TIME] >= reals[NEXT]:
            if draws.taken[0] == len(draws.size):
                integers[HELD] = 1
                return step
            reals[NEXT] += reals[SPACING]
            draw(target, state, draws, rng, rest)
        choice = rng.random() * total
        if choice < reals[XI]:
            integers[DRAWN] += 1
            if ask_every and integers[DRAWN] % ask_every == 0:
                integers[ASKED] = 1
                return step + 1
            before = integers[G]
            gram = draw_g(target, state, rng)
            if integers[G] != before:
                refresh(target, state, gram)
            continue
        j = chosen(state.rate, choice - reals[XI])
        if state.place[j] >= 0:
            for i in range(j, end_of(target, j)):
                exclude(target, state, i)
        elif integers[SIZE] + end_of(target, j) - j <= len(state.model):
            for i in range(j, end_of(target, j)):
                include(target, state, i)
    return steps


@compiled
def settle(target, state, model, rng):
    """Make ``model`` the model under a new target, and draw g."""
    settle_in(target, state, model)
    refresh(target, state, draw_g(target, state, rng))


@compiled
def weigh(target, state):
    """Update what is known of the predictors in the model; return R."""
    k = state.integers[SIZE]
    rest = target.offset + target.total
    for a in range(k):
        mean = 0.0
        for b in range(k):
            mean += state.inverse[a, b] * target.product[state.model[b]]
        state.mean[a] = mean
        j = state.model[a]
        rest -= mean * target.product[j]
        state.c[j] = state.s[j] = 0.0
    return max(rest, target.offset)


@compiled
def rates(target, state, rest):
    """Compute the odds of all predictors and the rates at which they change; return the sum of the rates."""
    if len(target.ends):
        return group_rates(target, state, rest, EXPLORE / np.count_nonzero(target.ends))
    k, index, guests = state.integers[SIZE], state.integers[G], state.integers[GUESTS]
    g, anchors, explore = target.grid[index], target.anchors, EXPLORE / len(state.c)
    invited = len(state.c) - anchors
    more = -LARGEST if k == len(state.model) else target.prior[index, k + 1] - target.prior[index, k]
    total = all_rates(state, 0, anchors, g, rest, target.half, more, explore)
    if invited:
        lift = math.log((target.outside - guests) / (invited - guests)) if guests < invited else -LARGEST
        total += all_rates(state, anchors, len(state.c), g, rest, target.half, more + lift, explore)
    if k:
        fewer = target.prior[index, k] - target.prior[index, k - 1]
        for a in range(k):
            j = state.model[a]
            own = state.inverse[a, a]  # g/(1 + g s)
            gain = state.mean[a] * state.mean[a] / own
            value = fewer + 0.5 * math.log(own / g) + target.half * math.log1p(gain / rest)
            if j >= anchors:
                value += math.log((target.outside - guests + 1) / (invited - guests + 1))
            odds = math.exp(min(max(value, -LARGEST), LARGEST))
            total -= state.rate[j]
            state.odds[j] = odds
            state.rate[j] = 0.5 * (1.0 + explore * (1.0 + 1.0 / odds))
            total += state.rate[j]
    return total


@compiled
def all_rates(state, start, stop, g, rest, half, more, explore):
    """Compute odds and rates of some as if no predictor were in the model; return the sum of the rates.

    Where a loop writes, machine code looks whether arrays overlap, and goes the slow way in doubt: places that begin
    anywhere are in doubt for arrays side by side in memory, and sums are others then. So the parts are cut out before,
    and a sum has a loop of its own, which writes nothing.
    """
    odds, rate = state.odds[start:stop], state.rate[start:stop]
    fill_odds(state.c[start:stop], state.s[start:stop], odds, g, g / rest, half, more)
    fill_rates(odds, rate, explore)
    return sum_of(rate)


@reassociated
def fill_odds(c, s, odds, g, scale, half, more):
    """Compute odds as if no predictor were in the model.

    s is not negative, and c^2 is at most s R: only rounding can say anything else, of predictors that are sums of those
    in the model, and it must not make them certain.
    """
    for j in range(len(c)):
        wide = max(1.0 + g * s[j], 1.0)
        left = max(1.0 - scale * c[j] * c[j] / wide, 1.0 / wide)
        value = more - 0.5 * log64(wide) - half * log64(left)
        odds[j] = exp64(min(max(value, -LARGEST), LARGEST))


@reassociated
def fill_rates(odds, rate, explore):
    """Compute the rates at which predictors enter the model from their odds."""
    for j in range(len(odds)):
        rate[j] = 0.5 * (odds[j] + explore * (1.0 + odds[j]))


@reassociated
def sum_of(values):
    """Return the sum."""
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    return total


@compiled
def chosen(rate, mark):
    """Return the predictor in whose part of the sum of rates ``mark`` lies."""
    p = len(rate)
    for start in range(0, p, BLOCK):
        stop = min(start + BLOCK, p)
        part = 0.0
        for j in range(start, stop):
            part += rate[j]
        if mark < part or stop == p:
            for j in range(start, stop):
                mark -= rate[j]
                if mark < 0.0:
                    return j
        else:
            mark -= part
    return p - 1  # by rounding


@reassociated
def add_probabilities(odds, stay, inclusion):
    """Add the probabilities, weighted with a time, to their sums."""
    for j in range(len(odds)):
        inclusion[j] += stay * (odds[j] / (1.0 + odds[j]))


@compiled
def draw(target, state, draws, rng, rest):
    """Draw sigma and the coefficients of the model as it is."""
    k, number = state.integers[SIZE], draws.taken[0]
    variance = 0.5 * rest / rng.standard_gamma(target.half)
    draws.size[number], draws.sigma[number] = k, math.sqrt(variance)
    draws.g[number] = target.grid[state.integers[G]]
    if k:
        root = np.linalg.cholesky(state.inverse[:k, :k].copy())
        normal = np.empty(k)
        for a in range(k):
            normal[a] = math.sqrt(variance) * rng.standard_normal()
        for a in range(k):
            value = 0.0
            for b in range(k):
                value += state.inverse[a, b] * target.product[state.model[b]]
            for b in range(a + 1):
                value += root[a, b] * normal[b]
            draws.model[number, a], draws.beta[number, a] = target.members[state.model[a]], value
    draws.taken[0] += 1


@compiled
def draw_g(target, state, rng):
    """Draw g given the model; return the products of the model's columns."""
    k = state.integers[SIZE]
    gram, product = gram_of(state), np.empty(k)
    for a in range(k):
        product[a] = target.product[state.model[a]]
    rest = target.offset + target.total
    weight = weights_of_g(
        gram, product, target.grid, target.prior[:, state.integers[GROUPS]], rest, target.half, target.offset
    )
    weight = np.cumsum(np.exp(weight - weight.max()))
    state.integers[G] = min(np.searchsorted(weight, rng.random() * weight[-1]), len(weight) - 1)
    return gram


def likelihood_ratios(c: Array, s: Array, g: float, rest: float, half: float) -> Array:
    """Return the logarithms of odds without the prior's part."""
    wide = 1.0 + g * s
    found: Array = -0.5 * np.log(wide) - half * np.log(np.maximum(1.0 - g * c * c / (wide * rest), 1e-300))
    return found
