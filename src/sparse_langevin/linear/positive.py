r"""A chain over models whose coefficients are never negative, in one compiled loop; otherwise as `informed`.

    y = Z beta + N(0, sigma^2 I),   beta_j = |N(0, sigma^2 g)| if predictor j is in the model, else beta_j = 0,
    p(model, g) = prior[g, k] for each model of k predictors,   sigma^2 ~ InverseGamma(nu/2, nu lambda/2)

Under the constraint coefficients cannot be integrated out: they and sigma are part of the state. With the residual
r = y - Z beta, known for all predictors at any time is z_j'r, and from it c_j = z_j'r + q_j beta_j and q_j = z_j'z_j,
the product with the residual without j. Given all else, with Phi the distribution function of the standard normal,

    odds_j = prior odds * 2 (1 + g q_j)^(-1/2) exp(u_j^2/2) Phi(u_j),   u_j = c_j/(sigma sqrt(q_j + 1/g)),
    beta_j sqrt(q_j + 1/g)/sigma ~ N(u_j, 1) on (0, inf) if predictor j is in the model: a density f.

As in `informed`, predictor j changes its state with the rate (P_j + e/p)/(2 w_j), where P_j is its probability and w_j
that of the state it is in. If it enters, its coefficient b is drawn from f. That is in detailed balance: in one
direction the flow is (1 - P_j) (P_j + e/p)/(2 (1 - P_j)) f(b), in the other P_j f(b) (P_j + e/p)/(2 P_j), which is the
same. With the constant rate ``xi`` all else is drawn: in turns the coefficients of the model, one after the other, and

    p(g | model, beta) ~ prior[g, k] g^(-k/2) S(g)^-(m + k/2),   S(g) = nu lambda + r'r + sum beta_j^2/g,
    sigma^2 | g, model, beta ~ InverseGamma(m + k/2, S(g)/2),   m = (n - 1 + nu)/2, or (n + nu)/2 without an intercept.
"""

import math

import numpy as np

from sparse_langevin.linear.coefficient import log_mills
from sparse_langevin.linear.informed import EXPLORE, add_probabilities, chosen
from sparse_langevin.linear.model_state import (
    ASKED,
    DRAWN,
    GROUPS,
    GUESTS,
    HELD,
    LARGEST,
    NEXT,
    SIGMA,
    SIZE,
    SPACING,
    TIME,
    XI,
    G,
)
from sparse_langevin.linear.rank_one import add_multiple, fetch, settle_in
from sparse_langevin.runtime.jit import compiled

TURNS = 3  # times that coefficients, g and sigma are drawn in turns; cheap beside a step
LOG_2 = math.log(2.0)


@compiled
def advance(target, state, draws, rng, steps, ask_every):
    """Take up to ``steps`` steps and return how many were taken, see `informed.advance`."""
    integers, reals = state.integers, state.reals
    integers[ASKED] = 0
    for step in range(steps):
        total = reals[XI] + rates(target, state)
        if not integers[HELD]:
            add_probabilities(state.odds, 1.0 / total, state.inclusion)
            reals[TIME] += 1.0 / total
        integers[HELD] = 0
        while reals[TIME] >= reals[NEXT]:
            if draws.taken[0] == len(draws.size):
                integers[HELD] = 1
                return step
            reals[NEXT] += reals[SPACING]
            keep(target, state, draws)
        choice = rng.random() * total
        if choice < reals[XI]:
            integers[DRAWN] += 1
            if ask_every and integers[DRAWN] % ask_every == 0:
                integers[ASKED] = 1
                return step + 1
            draw_all_else(target, state, rng)
            continue
        j = chosen(state.rate, choice - reals[XI])
        if state.place[j] >= 0:
            leave(target, state, j)
        elif integers[SIZE] < len(state.model):
            enter(target, state, j, rng)
    return steps


@compiled
def settle(target, state, model, rng):
    """Make ``model`` the model under a new target, with the coefficients as they are, and draw all else."""
    settle_in(target, state, model)
    draw_all_else(target, state, rng)


@compiled
def rates(target, state):
    """Compute the odds of all predictors and the rates at which they change; return the sum of the rates."""
    k, index, guests = state.integers[SIZE], state.integers[G], state.integers[GUESTS]
    g, sigma, p, invited = target.grid[index], state.reals[SIGMA], len(state.c), len(state.c) - target.anchors
    prior, explore, total = target.prior[index], EXPLORE / len(state.c), 0.0
    more = -LARGEST if k == len(state.model) else prior[k + 1] - prior[k]
    fewer = prior[k] - prior[k - 1] if k else 0.0
    lift = math.log((target.outside - guests) / (invited - guests)) if guests < invited else -LARGEST
    drop = math.log((target.outside - guests + 1) / (invited - guests + 1))
    for j in range(p):
        a, guest = state.place[j], j >= target.anchors
        c, value = state.c[j], more + (lift if guest else 0.0)
        if a >= 0:
            c, value = c + target.square[j] * state.mean[a], fewer + (drop if guest else 0.0)
        precision = target.square[j] + 1.0 / g
        value += LOG_2 - 0.5 * math.log(g * precision) + log_mills(c / (sigma * math.sqrt(precision)))
        odds = math.exp(min(max(value, -LARGEST), LARGEST))
        state.odds[j] = odds
        state.rate[j] = 0.5 * (1.0 + explore * (1.0 + 1.0 / odds) if a >= 0 else odds + explore * (1.0 + odds))
        total += state.rate[j]
    return total


@compiled
def enter(target, state, j, rng):
    """Put predictor j into the model and draw its coefficient."""
    k = state.integers[SIZE]
    fetch(target, state, j)
    state.mean[k] = draw_coefficient(target, state, j, state.c[j], rng)
    add_multiple(state.c, -state.mean[k], state.columns[state.row[j]])
    state.model[k], state.place[j] = j, k
    state.integers[SIZE] = state.integers[GROUPS] = k + 1
    state.integers[GUESTS] += j >= target.anchors


@compiled
def leave(target, state, j):
    """Take predictor j out of the model."""
    last, slot = state.integers[SIZE] - 1, state.place[j]
    fetch(target, state, j)
    add_multiple(state.c, state.mean[slot], state.columns[state.row[j]])
    state.model[slot], state.mean[slot] = state.model[last], state.mean[last]
    state.place[state.model[slot]] = slot
    state.place[j] = -1
    state.integers[SIZE] = state.integers[GROUPS] = last
    state.integers[GUESTS] -= j >= target.anchors


@compiled
def draw_coefficient(target, state, j, c, rng):
    """Draw the coefficient of predictor j in the model given all else."""
    root = math.sqrt(target.square[j] + 1.0 / target.grid[state.integers[G]])
    sigma = state.reals[SIGMA]
    return sigma / root * truncated_normal(c / (sigma * root), rng)


@compiled
def truncated_normal(mean, rng):
    """Draw from N(mean, 1) on (0, inf), as `coefficient.truncated_normal`."""
    if mean > -0.4:
        while True:
            value = mean + rng.standard_normal()
            if value > 0.0:
                return value
    rate = 0.5 * (math.sqrt(mean * mean + 4.0) - mean)
    while True:
        value = rng.standard_exponential() / rate
        if rng.random() < math.exp(-0.5 * (value - mean - rate) ** 2):
            return value


@compiled
def draw_all_else(target, state, rng):
    """Draw coefficients, g and sigma given the model; compute the products with the residual anew."""
    k = state.integers[SIZE]
    model, beta = state.model[:k], state.mean[:k]
    gram, left = np.empty((k, k)), np.empty(k)
    for a in range(k):
        left[a] = target.product[model[a]]
        for b in range(k):
            gram[a, b] = state.columns[state.row[model[min(a, b)]], model[max(a, b)]]
            left[a] -= gram[a, b] * beta[b]
    for _ in range(TURNS):
        rest, squares = target.total, 0.0
        for a in range(k):
            value = draw_coefficient(target, state, model[a], left[a] + gram[a, a] * beta[a], rng)
            left -= (value - beta[a]) * gram[a]
            beta[a] = value
            squares += value * value
        for a in range(k):
            rest -= beta[a] * (target.product[model[a]] + left[a])
        draw_scales(target, state, target.offset + max(rest, 0.0), squares, rng)
    state.c[:] = target.product
    for a in range(k):
        add_multiple(state.c, -beta[a], state.columns[state.row[model[a]]])


@compiled
def draw_scales(target, state, rest, squares, rng):
    """Draw g and sigma given the coefficients, from nu lambda + r'r and the sum of their squares."""
    k, grid = state.integers[SIZE], target.grid
    half = target.half + 0.5 * k
    weight = target.prior[:, k].copy()
    for i in range(len(grid)):
        weight[i] -= 0.5 * k * math.log(grid[i]) + half * math.log(rest + squares / grid[i])
    weight = np.cumsum(np.exp(weight - weight.max()))
    index = min(np.searchsorted(weight, rng.random() * weight[-1]), len(weight) - 1)
    state.integers[G] = index
    state.reals[SIGMA] = math.sqrt(0.5 * (rest + squares / grid[index]) / rng.standard_gamma(half))


@compiled
def keep(target, state, draws):
    """Keep the model, its coefficients, g and sigma as a draw."""
    k, number = state.integers[SIZE], draws.taken[0]
    draws.size[number], draws.sigma[number] = k, state.reals[SIGMA]
    draws.g[number] = target.grid[state.integers[G]]
    for a in range(k):
        draws.model[number, a], draws.beta[number, a] = target.members[state.model[a]], state.mean[a]
    draws.taken[0] += 1
