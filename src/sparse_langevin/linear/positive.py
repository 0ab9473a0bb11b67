r"""A chain over models whose coefficients are never negative, in one compiled loop; otherwise as `informed`.

    y = Z beta + N(0, sigma^2 I),   beta_j = |N(0, sigma^2 g)| if predictor j is in the model, else beta_j = 0,
    p(model, g) = prior[g, k] for each model of k predictors,   sigma^2 ~ InverseGamma(nu/2, nu lambda/2)

Under the constraint coefficients cannot be integrated out: they and sigma are part of the state. But where predictor j
enters with the coefficient b, the others make room for it: those of the model without j, eta, become

    beta = eta - b t,   t = (Z_m'Z_m + 1/g)^-1 Z_m'z_j.

Given eta, b is normal then, with the c_j and s_j of `informed`, as if all other coefficients had been integrated out,
but between 0 and the b at which the first of the others would be negative, h = min eta_i/t_i over t_i > 0. With Phi the
distribution function of the standard normal and w = sigma/sqrt(s_j + 1/g),

    odds_j = prior odds * 2 (1 + g s_j)^(-1/2) exp(u^2/2) (Phi(u) - Phi(u - h/w)),   u = c_j w/sigma^2,
    b/w ~ N(u, 1) on (0, h/w) if predictor j is in the model: a density f,

while predictor j cannot leave if that made some eta_i = beta_i + b t_i negative. As in `informed`, it changes its state
with the rate (P + e/p)/(2 v), where P is its probability given eta and v that of the state it is in. That is in
detailed balance: the flow in is (1 - P) f(b) (P + e/p)/(2 (1 - P)), the flow out P f(b) (P + e/p)/(2 P), the same, and
the map from eta and b to the coefficients has the determinant 1.

With the constant rate ``xi`` all else is drawn. The coefficients move along lines: along those on which they would be
independent without the constraint, and along the axes. On each, the step is normal between the points where a
coefficient would be negative. Then, with r = y - Z beta and m = (n - 1 + nu)/2, or (n + nu)/2 without an intercept,

    p(g | model, beta) ~ prior[g, k] g^(-k/2) S(g)^-(m + k/2),   S(g) = nu lambda + r'r + sum beta_j^2/g,
    sigma^2 | g, model, beta ~ InverseGamma(m + k/2, S(g)/2).
"""

import math

import numpy as np

from sparse_langevin.linear.informed import EXPLORE, add_probabilities, chosen, weigh
from sparse_langevin.linear.interval import between, log_between
from sparse_langevin.linear.model_state import (
    ASKED,
    DRAWN,
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
from sparse_langevin.linear.rank_one import add_multiple, exclude, include, refresh, settle_in
from sparse_langevin.runtime.jit import compiled, reassociated

TURNS = 3  # times that the coefficients are drawn before g and sigma are
LOG_2 = math.log(2.0)


@compiled
def advance(target, state, draws, rng, steps, ask_every):
    """Take up to ``steps`` steps and return how many were taken, see `informed.advance`."""
    integers, reals = state.integers, state.reals
    integers[ASKED] = 0
    for step in range(steps):
        weigh(target, state)
        total, unit = rates(target, state)
        if not integers[HELD]:
            add_probabilities(state.odds, unit / total, state.inclusion)
            reals[TIME] += unit / total
        integers[HELD] = 0
        while reals[TIME] >= reals[NEXT]:
            if draws.taken[0] == len(draws.size):
                integers[HELD] = 1
                return step
            reals[NEXT] += reals[SPACING]
            keep(target, state, draws)
        choice = rng.random() * total
        if choice < unit * reals[XI]:
            integers[DRAWN] += 1
            if ask_every and integers[DRAWN] % ask_every == 0:
                integers[ASKED] = 1
                return step + 1
            draw_all_else(target, state, rng)
            continue
        j = chosen(state.rate, choice - unit * reals[XI])
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
    """Compute the odds of all predictors and the rates at which they change; return the sum of all rates, and a unit.

    Given sigma, odds may be larger than any number, and which of them is the largest matters: all rates are multiplied
    with a unit that keeps them finite.
    """
    k, index, guests = state.integers[SIZE], state.integers[G], state.integers[GUESTS]
    invited, explore, prior = len(state.c) - target.anchors, EXPLORE / len(state.c), target.prior[index]
    g, sigma, slope, largest = target.grid[index], state.reals[SIGMA], steepest(state), LARGEST
    more = -math.inf if k == len(state.model) else prior[k + 1] - prior[k]
    lift = math.log((target.outside - guests) / (invited - guests)) if guests < invited else -math.inf
    for j in range(len(state.c)):
        if state.place[j] < 0:
            value = more + (lift if j >= target.anchors else 0.0)
            state.odds[j] = value + log_ratio(state.c[j], state.s[j], slope[j], sigma, g)
            largest = max(largest, state.odds[j])
    unit = math.exp(max(LARGEST - largest, -LARGEST))
    total = unit * state.reals[XI]
    for j in range(len(state.c)):
        if state.place[j] < 0:
            scaled = math.exp(max(state.odds[j], -LARGEST) + LARGEST - largest)
            state.odds[j] = math.exp(min(max(state.odds[j], -LARGEST), LARGEST))
            state.rate[j] = 0.5 * (scaled + explore * (unit + scaled))
            total += state.rate[j]
    drop = math.log((target.outside - guests + 1) / (invited - guests + 1))
    for a in range(k):
        j, own = state.model[a], state.inverse[a, a]
        state.odds[j], state.rate[j] = math.exp(LARGEST), 0.0
        least, steep = without(state, a)
        if least > 0.0:
            value = prior[k] - prior[k - 1] + (drop if j >= target.anchors else 0.0)
            value += log_ratio(state.mean[a] / own, 1.0 / own - 1.0 / g, steep, sigma, g)
            state.odds[j] = math.exp(min(max(value, -LARGEST), LARGEST))
            state.rate[j] = 0.5 * unit * (1.0 + explore * (1.0 + 1.0 / state.odds[j]))
            total += state.rate[j]
    return total, unit


@compiled
def steepest(state):
    """Return the largest t_i/eta_i of all predictors that are not in the model, 1/h."""
    k, slope = state.integers[SIZE], np.zeros(len(state.c))
    for a in range(k):
        state.q[:] = 0.0
        for b in range(k):
            add_multiple(state.q, state.inverse[a, b] / state.beta[a], state.columns[state.row[state.model[b]]])
        take_larger(slope, state.q)
    return slope


@reassociated
def take_larger(vector, other):
    """Take the elements of another vector where these are larger."""
    for j in range(len(vector)):
        vector[j] = max(vector[j], other[j])


@compiled
def without(state, slot):
    """Return the smallest eta_i of the model without one predictor, and the largest t_i/eta_i if all are positive."""
    least, most = math.inf, 0.0
    for a in range(state.integers[SIZE]):
        if a != slot:
            t = -state.inverse[a, slot] / state.inverse[slot, slot]
            eta = state.beta[a] + state.beta[slot] * t
            least = min(least, eta)
            most = max(most, t / eta) if eta > 0.0 else most
    return least, most


@compiled
def log_ratio(c, s, slope, sigma, g):
    """Return the logarithm of a predictor's odds without the prior's part; ``slope`` is 1/h."""
    s = max(s, 0.0)  # by rounding it may be less
    root = math.sqrt(s + 1.0 / g)
    return LOG_2 - 0.5 * math.log(1.0 + g * s) + log_between(c / (sigma * root), slope * sigma / root)


@compiled
def enter(target, state, j, rng):
    """Put predictor j into the model: draw its coefficient, and let the others make room for it."""
    k, sigma, g = state.integers[SIZE], state.reals[SIGMA], target.grid[state.integers[G]]
    state.s[j] = max(state.s[j], 0.0)
    c, root = state.c[j], math.sqrt(state.s[j] + 1.0 / g)
    include(target, state, j)
    slope, own = 0.0, state.inverse[k, k]
    for a in range(k):
        slope = max(slope, -state.inverse[a, k] / own / state.beta[a])
    high = math.inf if slope <= 0.0 else root / (sigma * slope)
    state.beta[k] = sigma / root * between(c / (sigma * root), high, rng)
    for a in range(k):
        state.beta[a] = max(state.beta[a] + state.beta[k] * state.inverse[a, k] / own, 0.0)
    lift_zeros(state)


@compiled
def leave(target, state, j):
    """Take predictor j out of the model; the others take over."""
    slot, last = state.place[j], state.integers[SIZE] - 1
    for a in range(last + 1):
        if a != slot:
            state.beta[a] -= state.beta[slot] * state.inverse[a, slot] / state.inverse[slot, slot]
    exclude(target, state, j)
    state.beta[slot] = state.beta[last]
    lift_zeros(state)


@compiled
def lift_zeros(state):
    """Replace coefficients that are zero by rounding."""
    for a in range(state.integers[SIZE]):
        state.beta[a] = max(state.beta[a], 1e-200)


@compiled
def draw_all_else(target, state, rng):
    """Draw coefficients, g and sigma given the model; compute the inverse, c and s anew."""
    k, g = state.integers[SIZE], target.grid[state.integers[G]]
    model, beta = state.model[:k], state.beta[:k]
    precision, left = np.empty((k, k)), np.empty(k)
    for a in range(k):
        for b in range(k):
            precision[a, b] = state.columns[state.row[model[min(a, b)]], model[max(a, b)]]
    gram = precision.copy()
    for a in range(k):
        precision[a, a] += 1.0 / g
        left[a] = target.product[model[a]]
    left -= precision @ beta
    if k:
        root = np.linalg.cholesky(precision)
        lines, images = np.ascontiguousarray(np.linalg.inv(root)), np.ascontiguousarray(root.T)
        scales = np.sqrt(np.diag(precision))
        axes, slopes = np.diag(1.0 / scales), precision / scales.reshape(-1, 1)
        for _ in range(TURNS):
            for a in range(k):
                move(beta, left, lines[a], images[a], state.reals[SIGMA], rng)
            for a in range(k):
                move(beta, left, axes[a], slopes[a], state.reals[SIGMA], rng)
    lift_zeros(state)
    rest, squares = target.offset + target.total, 0.0
    for a in range(k):
        squares += beta[a] * beta[a]
        rest -= beta[a] * (target.product[model[a]] + left[a] + beta[a] / g)
    draw_scales(target, state, max(rest, target.offset), squares, rng)
    refresh(target, state, gram)


@compiled
def move(beta, left, line, image, sigma, rng):
    """Draw the coefficients on a line along which their precision is 1, with its product with all precisions.

    ``left`` is X'y without the precisions times beta.
    """
    low, high, mean = -math.inf, math.inf, 0.0
    for a in range(len(beta)):
        mean += left[a] * line[a]
        if line[a] > 0.0:
            low = max(low, -beta[a] / line[a])
        elif line[a] < 0.0:
            high = min(high, -beta[a] / line[a])
    if low > -math.inf:
        step = low + sigma * between((mean - low) / sigma, (high - low) / sigma, rng)
    else:
        step = high - sigma * between((high - mean) / sigma, math.inf, rng)
    for a in range(len(beta)):
        left[a] -= step * image[a]
        beta[a] = max(beta[a] + step * line[a], 0.0)


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
        draws.model[number, a], draws.beta[number, a] = target.members[state.model[a]], state.beta[a]
    draws.taken[0] += 1
