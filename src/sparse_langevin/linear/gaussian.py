r"""A chain over the coefficients of a Gaussian linear model: PSGLD-SA in one compiled loop.

    y = X beta + N(0, sigma^2 I),   beta_j ~ (1 - gamma_j) Laplace(0, sigma v0) + gamma_j N(0, slab),
    gamma_j ~ Bernoulli(delta),     sigma^2 ~ InverseGamma(nu/2, nu lambda/2)

with standardised X and y. The slab is that of the general model with sigma^2 v1 = slab held fixed: effects are of the
order of the response, and with a slab that grows with the noise, strong effects would increase sigma. In one step:

1. all coefficients take a preconditioned Langevin step on the log posterior with gamma summed out,
   beta += eps G g + sqrt(2 eps G) z, where the pull of the spike never carries a coefficient across zero;
2. a few coefficients, chosen at random, are drawn from their exact conditional (see `coefficient`): Langevin steps
   alone would take very long to carry a coefficient out of a narrow spike;
3. every few steps rho_j = P(gamma_j = 1 | all other coefficients) is computed, and delta and sigma take a step of
   stochastic approximation, with beta_j integrated out of rho_j and of the spike's |beta_j|.

With gamma summed out, and delta and sigma at their limits, the chain targets the exact posterior. With the averaged
latent variables of the general sampler the prior would be the product of a Laplace and a Gaussian density, in which an
uncertain coefficient is neither in nor out. During burn-in the spike narrows from ``V0_START`` to v0, and the
preconditioner G = 1/(curvature) and the step size adapt; afterwards both are fixed, so that no correction term Gamma is
needed.

With a Gaussian prior (``spike_slab`` false) beta_j ~ N(0, prior_variance), and only sigma is learned.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.coefficient import draw, evidence, logit, sigmoid, slab_probability
from sparse_langevin.runtime.jit import compiled
from sparse_langevin.sampling import mixture

Array = NDArray[np.float64]

omega_at = compiled(mixture.omega_at)
delta_mean = compiled(mixture.delta_mean)
sigma_root = compiled(mixture.sigma_root)

V0_START = 0.1  # width of the spike at the beginning, in units of sigma
STEP = 0.3  # eps times the largest curvature: gives a bias of a few per cent in the stiffest direction
SPIKE_STEP = 0.1  # largest eps times G, in units of the squared width of a spike
LATENT_EVERY = 5  # steps between updates of the latent variables
ADAPT_EVERY = 50  # steps between updates of the step size during burn-in


class Hyper(NamedTuple):
    """The settings of the prior and of the algorithm, for the compiled loops."""

    v0: float
    """Scale of the spike in units of sigma."""
    slab: float
    """Variance of the slab."""
    a: float
    b: float
    """Parameters of the prior delta ~ Beta(a, b)."""
    nu: float
    lambda_: float
    """Parameters of the prior sigma^2 ~ InverseGamma(nu/2, nu lambda/2)."""
    prior_variance: float
    """Variance of the Gaussian prior, for methods that do not select."""
    spike_slab: bool
    precondition: bool
    jumps: int
    """Number of coefficients that are drawn from their conditional in each step."""


class Data(NamedTuple):
    """Standardised data, or rows with the same X'X and X'y."""

    x: Array
    y: Array
    square: Array
    """The sums of squares x_j'x_j."""
    rest: float
    """Residual sum of squares of the data in addition to that of these rows; zero if the rows are the data."""
    size: float
    """Number of observations."""


class State(NamedTuple):
    """The state of a chain; its arrays are changed in place."""

    beta: Array
    metric: Array
    """The preconditioner G."""
    rho: Array
    direction: Array
    """Estimated direction of largest curvature, which the power iteration improves."""
    scalars: Array
    """sigma, delta, eps, and the number of updates of the latent variables so far."""


SIGMA, DELTA, EPS, UPDATES = range(4)


def initial_state(data: Data, hyper: Hyper, rng: np.random.Generator) -> State:
    """Return the state in which no predictor has an effect."""
    p = data.x.shape[1]
    sigma = math.sqrt(max((float(data.y @ data.y) + data.rest) / data.size, 1e-12))
    delta = hyper.a / (hyper.a + hyper.b)
    scalars = np.array([sigma, delta, 0.0, 0.0])
    return State(np.zeros(p), np.ones(p), np.full(p, delta), unit_vector(p, rng), scalars)


def unit_vector(p: int, rng: np.random.Generator) -> Array:
    """Return a random direction of length 1."""
    direction: Array = rng.standard_normal(p)
    return direction / float(np.linalg.norm(direction))


@compiled
def advance(data, hyper, state, steps, thin, burn_in, seed):
    """Take ``steps`` steps; return every ``thin``-th beta and sigma, and the mean of the inclusion probabilities.

    The first ``burn_in`` of these steps narrow the spike and adapt the step size and the preconditioner; a chain
    continues after its burn-in with ``burn_in`` = 0.
    """
    np.random.seed(seed)
    beta, scalars, p = state.beta, state.scalars, len(state.beta)
    residual = data.y - data.x @ beta
    draws, sigmas = np.empty((steps // thin, p)), np.empty(steps // thin)
    inclusion, updates = np.zeros(p), 0
    for k in range(steps):
        v0 = spike_width(hyper, k, burn_in)
        if k < burn_in and k % ADAPT_EVERY == 0:
            _adapt(data, hyper, state, v0, 30 if k == 0 else 3)
        gradient = data.x.T @ residual
        if hyper.spike_slab:
            _spike_slab_step(gradient, beta, state.metric, scalars, v0, hyper.slab)
        else:
            _gaussian_step(gradient, beta, state.metric, scalars, hyper.prior_variance)
        residual = data.y - data.x @ beta
        if hyper.spike_slab and 2 * k >= burn_in:
            for _ in range(hyper.jumps):
                _jump(data, beta, residual, np.random.randint(p), scalars, v0, hyper.slab)
        if k % LATENT_EVERY == 0:
            _update_latents(data, hyper, state, residual, v0)
            inclusion += state.rho
            updates += 1
        if k % thin == thin - 1:
            draws[k // thin], sigmas[k // thin] = beta, scalars[SIGMA]
    return draws, sigmas, inclusion / max(updates, 1)


@compiled
def spike_width(hyper, k, burn_in):
    """Return v0 at step k, which narrows geometrically from ``V0_START`` during the first half of the burn-in."""
    if hyper.spike_slab and k < burn_in / 2 and hyper.v0 < V0_START:
        return V0_START * (hyper.v0 / V0_START) ** (2.0 * k / burn_in)
    return hyper.v0


@compiled
def _spike_slab_step(gradient, beta, metric, scalars, v0, slab_variance):
    """Take a Langevin step of all coefficients with the spike and slab; ``gradient`` is X'(y - X beta)."""
    sigma, delta, eps = scalars[SIGMA], scalars[DELTA], scalars[EPS]
    v1 = slab_variance / sigma**2
    logit_delta = logit(delta)
    for j in range(len(beta)):
        e = eps * metric[j]
        slab = slab_probability(beta[j], sigma, v0, v1, logit_delta)
        pull = min(e * (1.0 - slab) / (v0 * sigma), abs(beta[j]))
        drift = e * (gradient[j] - slab * beta[j] / v1) / sigma**2
        beta[j] += drift - math.copysign(pull, beta[j]) + math.sqrt(2.0 * e) * np.random.standard_normal()


@compiled
def _gaussian_step(gradient, beta, metric, scalars, variance):
    """Take a Langevin step of all coefficients with a Gaussian prior; ``gradient`` is X'(y - X beta)."""
    sigma, eps = scalars[SIGMA], scalars[EPS]
    for j in range(len(beta)):
        e = eps * metric[j]
        drift = e * (gradient[j] / sigma**2 - beta[j] / variance)
        beta[j] += drift + math.sqrt(2.0 * e) * np.random.standard_normal()


@compiled
def _jump(data, beta, residual, j, scalars, v0, slab_variance):
    """Draw one coefficient from its exact conditional."""
    column, delta = data.x[:, j], scalars[DELTA]
    v1 = slab_variance / scalars[SIGMA] ** 2
    c = column @ residual + data.square[j] * beta[j]
    new, _ = draw(c, data.square[j], scalars[SIGMA], v0, v1, logit(delta))
    residual += (beta[j] - new) * column
    beta[j] = new


@compiled
def _update_latents(data, hyper, state, residual, v0):
    """Set ``state.rho`` to the current inclusion probabilities; move delta and sigma towards their targets."""
    beta, rho, scalars, p = state.beta, state.rho, state.scalars, len(state.beta)
    sigma, delta = scalars[SIGMA], scalars[DELTA]
    omega = omega_at(scalars[UPDATES])
    scalars[UPDATES] += 1.0
    rss = residual @ residual + data.rest
    spikes, spike = 0.0, 0.0
    if hyper.spike_slab:
        c = data.x.T @ residual
        logit_delta, v1 = logit(delta), hyper.slab / sigma**2
        for j in range(p):
            q = data.square[j]
            log_slab, log_spike, size, _ = evidence(c[j] + q * beta[j], q, sigma, v0, v1)
            rho[j] = sigmoid(log_slab - log_spike + logit_delta)
            spikes += 1.0 - rho[j]
            spike += (1.0 - rho[j]) * size / v0
        scalars[DELTA] += omega * (delta_mean(rho.sum(), p, hyper.a, hyper.b) - delta)
    quadratic = data.size + spikes + hyper.nu
    constant = rss + hyper.nu * hyper.lambda_
    scalars[SIGMA] += omega * (sigma_root(quadratic, spike, constant) - sigma)


@compiled
def _adapt(data, hyper, state, v0, iterations):
    """Set the preconditioner from the curvature, and the step size from the largest curvature that remains."""
    metric, rho, scalars, direction = state.metric, state.rho, state.scalars, state.direction
    sigma, p = scalars[SIGMA], len(state.metric)
    prior = np.empty(p)
    worst = 0.0
    for j in range(p):
        prior[j] = sigma**2 * (rho[j] / hyper.slab if hyper.spike_slab else 1.0 / hyper.prior_variance)
        stiff = (1.0 - rho[j]) / v0**2 if hyper.spike_slab else 0.0
        metric[j] = sigma**2 / (data.square[j] + prior[j] + stiff) if hyper.precondition else sigma**2 / data.size
        worst = max(worst, metric[j] * stiff / sigma**2)
    largest = 0.0
    for _ in range(iterations):
        scaled = np.sqrt(metric) * direction
        image = np.sqrt(metric) * (data.x.T @ (data.x @ scaled) + prior * scaled) / sigma**2
        largest = math.sqrt(image @ image)
        direction[:] = image / max(largest, 1e-300)
    scalars[EPS] = STEP / max(largest, 1e-300)
    if worst > 0.0:
        scalars[EPS] = min(scalars[EPS], SPIKE_STEP / worst)
