r"""A chain over the coefficients of a logistic or softmax model (see `likelihood`), with sigma = 1.

If every step uses all data, the likelihood is known, and the steps are corrected by the Metropolis-Hastings rule:

1. intercepts and the coefficients that are in the slab (P(gamma = 1 | b) > 1/2) take a preconditioned Langevin step
   together; a proposal that moves a coefficient into or out of the slab is rejected;
2. a few coefficients are drawn, as in `gaussian`, from their conditional. Here it comes from the quadratic
   approximation of the log-likelihood L at the current value b: with score s and information h, c = s + h b and q = h.
   The draw b' is accepted with a ratio in which the prior cancels:

    log ratio = L(b') - L(b) + [c' b - q' b^2/2 - log Z(c', q')] - [c b' - q b'^2/2 - log Z(c, q)].

With minibatches (a random subset of the rows in each step, every subset with the same probability) all coefficients
take Langevin steps without correction, and rho_j is P(gamma_j = 1 | beta_j).
"""

import math
from typing import NamedTuple

import numpy as np

from sparse_langevin.linear.coefficient import draw, evidence, log_normaliser, logit, sigmoid, slab_probability
from sparse_langevin.linear.gaussian import (
    ADAPT_EVERY,
    LATENT_EVERY,
    SPIKE_STEP,
    STEP,
    Array,
    Hyper,
    delta_mean,
    omega_at,
    spike_width,
    unit_vector,
)
from sparse_langevin.linear.likelihood import Data, class_scores, expansion, likelihood_gradient, probabilities
from sparse_langevin.runtime.jit import compiled

INTERCEPT_VARIANCE = 100.0


class State(NamedTuple):
    """The state of a chain; its arrays are changed in place."""

    w: Array
    intercept: Array
    metric: Array
    information: Array
    """Diagonal of the likelihood's curvature, in the shape of w."""
    rho: Array
    direction: Array
    scalars: Array
    """delta, eps, the number of updates of the latent variables so far, and the step size of the corrected steps."""


DELTA, EPS, UPDATES, CORRECTED_EPS = range(4)
ACCEPTANCE = 0.57  # best for Langevin proposals in many dimensions (Roberts and Rosenthal, 1998)


def initial_state(data: Data, hyper: Hyper, rng: np.random.Generator) -> State:
    """Return the state in which no predictor has an effect and the intercepts give the classes' shares."""
    rows, p = len(data.y), data.x.shape[1]
    share = np.clip(data.y.mean(1), 1e-3, 1 - 1e-3)
    intercept = np.log(share) - np.log1p(-share) if rows == 1 else np.log(share)
    delta = hyper.a / (hyper.a + hyper.b)
    direction = unit_vector(p, rng)
    scalars = np.array([delta, 0.0, 0.0, 0.5])
    shape = rows, p
    return State(np.zeros(shape), intercept, np.ones(shape), np.ones(shape), np.full(shape, delta), direction, scalars)


@compiled
def advance(data, hyper, state, steps, thin, burn_in, seed):
    """Take ``steps`` steps; return every ``thin``-th w and intercept, and the mean of the inclusion probabilities."""
    np.random.seed(seed)
    w = state.w
    rows, p, n = w.shape[0], w.shape[1], data.x.shape[0]
    draws, intercepts = np.empty((steps // thin, rows, p)), np.empty((steps // thin, rows))
    inclusion, updates = np.zeros(p), 0
    full, order = data.batch >= n, np.arange(n)
    for k in range(steps):
        v0 = spike_width(hyper, k, burn_in)
        if k < burn_in and k % ADAPT_EVERY == 0:
            _adapt(data, hyper, state, v0, 30 if k == 0 else 3)
        if full:
            _corrected_step(data, hyper, state, v0, k < burn_in)
            if hyper.spike_slab:
                scores = class_scores(data.x, w, state.intercept)
                for _ in range(hyper.jumps):
                    _jump(data, state, scores, np.random.randint(rows), np.random.randint(p), v0, hyper.slab)
        else:
            _choose(order, data.batch)
            slope, slope_0 = likelihood_gradient(data, order[: data.batch], w, state.intercept)
            _move(slope, state, hyper, v0)
            _move_intercepts(slope_0, n, state)
        if hyper.spike_slab and k % LATENT_EVERY == 0:
            _update_latents(data, hyper, state, v0)
            inclusion += _any(state.rho)
            updates += 1
        if k % thin == thin - 1:
            draws[k // thin], intercepts[k // thin] = w, state.intercept
    return draws, intercepts, inclusion / max(updates, 1)


@compiled
def _choose(order, count):
    """Move ``count`` rows to the front of ``order``, each subset with the same probability (Fisher and Yates)."""
    for i in range(count):
        j = i + np.random.randint(len(order) - i)
        order[i], order[j] = order[j], order[i]


@compiled
def _any(rho):
    """Return the probability of each predictor that it matters for at least one class."""
    result = np.ones(rho.shape[1])
    for k in range(rho.shape[0]):
        result *= 1.0 - rho[k]
    return 1.0 - result


@compiled
def _move(gradient, state, hyper, v0):
    """Take a Langevin step of the coefficients."""
    w, metric, delta, eps = state.w, state.metric, state.scalars[DELTA], state.scalars[EPS]
    logit_delta = logit(delta)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            b, e = w[k, j], eps * metric[k, j]
            noise = math.sqrt(2.0 * e) * np.random.standard_normal()
            if not hyper.spike_slab:
                w[k, j] += e * (gradient[k, j] - b / hyper.prior_variance) + noise
                continue
            slab = slab_probability(b, 1.0, v0, hyper.slab, logit_delta)
            pull = min(e * (1.0 - slab) / v0, abs(b))
            w[k, j] += e * (gradient[k, j] - slab * b / hyper.slab) - math.copysign(pull, b) + noise


@compiled
def _move_intercepts(gradient, n, state):
    """Take a Langevin step of the intercepts, with a tenth of their largest stable step size."""
    e = 0.2 / (n / 4.0 + 1.0 / INTERCEPT_VARIANCE)
    for k in range(len(gradient)):
        drift = gradient[k] - state.intercept[k] / INTERCEPT_VARIANCE
        state.intercept[k] += e * drift + math.sqrt(2.0 * e) * np.random.standard_normal()


@compiled
def _corrected_step(data, hyper, state, v0, adapt):
    """Propose a Langevin step of intercepts and slab coefficients, and accept or reject it as a whole."""
    w, intercept, eps = state.w, state.intercept, state.scalars[CORRECTED_EPS]
    moves = _in_slab(w, hyper, state.scalars[DELTA], v0)
    value, slope, slope_0 = _log_posterior(data, hyper, w, intercept, state.scalars[DELTA], v0)
    precision = 1.0 / hyper.slab if hyper.spike_slab else 1.0 / hyper.prior_variance
    size, size_0 = eps / (state.information + precision), 4.0 * eps / (data.x.shape[0] + 1.0)
    step = np.where(moves, size * slope + np.sqrt(2.0 * size) * np.random.standard_normal(w.shape), 0.0)
    step_0 = size_0 * slope_0 + math.sqrt(2.0 * size_0) * np.random.standard_normal(len(intercept))
    new, new_0 = w + step, intercept + step_0
    accept = 0.0
    if np.all(_in_slab(new, hyper, state.scalars[DELTA], v0) == moves):
        value_new, slope_new, slope_0_new = _log_posterior(data, hyper, new, new_0, state.scalars[DELTA], v0)
        there = ((step - size * slope) ** 2 / size * moves).sum() + ((step_0 - size_0 * slope_0) ** 2).sum() / size_0
        back = ((step + size * slope_new) ** 2 / size * moves).sum()
        back += ((step_0 + size_0 * slope_0_new) ** 2).sum() / size_0
        accept = math.exp(min(0.0, value_new - value + (there - back) / 4.0))
        if np.random.random() < accept:
            w[:], intercept[:] = new, new_0
    if adapt:
        state.scalars[CORRECTED_EPS] = min(2.0, eps * math.exp(0.05 * (accept - ACCEPTANCE)))


@compiled
def _in_slab(w, hyper, delta, v0):
    """Mark the coefficients that belong to the slab rather than to the spike."""
    result = np.ones(w.shape, dtype=np.bool_)
    if hyper.spike_slab:
        logit_delta = logit(delta)
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                result[k, j] = slab_probability(w[k, j], 1.0, v0, hyper.slab, logit_delta) > 0.5
    return result


@compiled
def _log_posterior(data, hyper, w, intercept, delta, v0):
    """Return the log posterior, with gamma summed out, and its gradients.

    It is known up to a constant for each set of slab coefficients.
    """
    scores = class_scores(data.x, w, intercept)
    excess = data.y - probabilities(scores)
    slope, slope_0 = excess @ data.x, excess.sum(1) - intercept / INTERCEPT_VARIANCE
    value = (data.y * scores).sum() - 0.5 * (intercept**2).sum() / INTERCEPT_VARIANCE
    for i in range(scores.shape[1]):
        top = max(0.0, scores[:, i].max()) if len(intercept) == 1 else scores[:, i].max()
        total = math.exp(-top) if len(intercept) == 1 else 0.0
        for k in range(len(intercept)):
            total += math.exp(scores[k, i] - top)
        value -= top + math.log(total)
    if not hyper.spike_slab:
        return value - 0.5 * (w * w).sum() / hyper.prior_variance, slope - w / hyper.prior_variance, slope_0
    logit_delta = logit(delta)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            b = w[k, j]
            slab = slab_probability(b, 1.0, v0, hyper.slab, logit_delta)
            if slab > 0.5:
                value -= 0.5 * b * b / hyper.slab + math.log(slab)
            else:
                value -= abs(b) / v0 + math.log1p(-slab)
            slope[k, j] -= (1.0 - slab) * math.copysign(1.0 / v0, b) + slab * b / hyper.slab
    return value, slope, slope_0


@compiled
def _jump(data, state, scores, k, j, v0, v1):
    """Propose one coefficient from its approximate conditional, and accept or reject it."""
    b, delta = state.w[k, j], state.scalars[DELTA]
    logit_delta = logit(delta)
    c, q, before = expansion(data, scores, k, j, b)
    new, log_z = draw(c, q, 1.0, v0, v1, logit_delta)
    scores[k] += (new - b) * data.columns[j]
    c_new, q_new, after = expansion(data, scores, k, j, new)
    forward = c * new - 0.5 * q * new * new - log_z
    backward = c_new * b - 0.5 * q_new * b * b - log_normaliser(c_new, q_new, 1.0, v0, v1, logit_delta)
    if math.log(1.0 - np.random.random()) < after - before + backward - forward:
        state.w[k, j] = new
    else:
        scores[k] -= (new - b) * data.columns[j]


@compiled
def _update_latents(data, hyper, state, v0):
    """Set ``state.rho`` to the current inclusion probabilities; move delta towards its target."""
    w, rho, scalars = state.w, state.rho, state.scalars
    delta = scalars[DELTA]
    logit_delta = logit(delta)
    omega = omega_at(scalars[UPDATES])
    scalars[UPDATES] += 1.0
    full = data.batch >= data.x.shape[0]
    if full:
        shares = probabilities(class_scores(data.x, w, state.intercept))
        score, information = (data.y - shares) @ data.x, (shares * (1.0 - shares)) @ (data.x * data.x) + 1e-12
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            if full:
                c = score[k, j] + information[k, j] * w[k, j]
                slab, spike, _, _ = evidence(c, information[k, j], 1.0, v0, hyper.slab)
                rho[k, j] = sigmoid(slab - spike + logit_delta)
            else:
                rho[k, j] = slab_probability(w[k, j], 1.0, v0, hyper.slab, logit_delta)
    scalars[DELTA] += omega * (delta_mean(rho.sum(), rho.size, hyper.a, hyper.b) - delta)


@compiled
def _adapt(data, hyper, state, v0, iterations):
    """Set the preconditioner and the step size from the current curvature.

    The Hessian couples several classes; twice its block diagonal is an upper bound.
    """
    metric, rho, direction = state.metric, state.rho, state.direction
    rows, p = metric.shape
    shares = probabilities(class_scores(data.x, state.w, state.intercept))
    weights = shares * (1.0 - shares) * (1.0 if rows == 1 else 2.0)
    information = state.information
    information[:] = weights @ (data.x * data.x)
    if not hyper.precondition:
        information[:] = data.x.shape[0] / 4.0
    root, worst, least = np.zeros(p), 0.0, 1e300
    for j in range(p):
        for k in range(rows):
            prior = rho[k, j] / hyper.slab if hyper.spike_slab else 1.0 / hyper.prior_variance
            stiff = (1.0 - rho[k, j]) / v0**2 if hyper.spike_slab else 0.0
            metric[k, j] = 1.0 / (information[k, j] + prior + stiff) if hyper.precondition else 1.0 / data.x.shape[0]
            worst = max(worst, metric[k, j] * stiff)
            root[j] = max(root[j], math.sqrt(metric[k, j]))
            least = min(least, prior)
    weight, largest = np.empty(len(data.x)), 0.0
    for i in range(len(weight)):
        weight[i] = weights[:, i].max()
    for _ in range(iterations):
        scaled = root * direction
        image = root * (data.columns @ (weight * (data.x @ scaled)) + least * scaled)
        largest = math.sqrt(image @ image)
        direction[:] = image / max(largest, 1e-300)
    state.scalars[EPS] = STEP / max(largest, 1e-300)
    if worst > 0.0:
        state.scalars[EPS] = min(state.scalars[EPS], SPIKE_STEP / worst)
