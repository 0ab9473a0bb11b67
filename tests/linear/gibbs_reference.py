r"""The posterior of the spike-and-slab linear model by exact Gibbs sampling: the oracle for the Langevin samplers.

    y = X beta + N(0, sigma^2 I),  beta_j ~ (1 - gamma_j) Laplace(0, sigma*v0) + gamma_j N(0, sigma^2*v1),
    gamma_j ~ Bernoulli(delta),  delta ~ Beta(a, b),  sigma^2 ~ InverseGamma(nu/2, nu*lambda/2).

No scale mixture is needed: against a Gaussian likelihood the Laplace spike integrates in closed form, so (gamma_j,
beta_j) is drawn jointly. With q = x_j'x_j, c = x_j'(y - sum_{k != j} x_k beta_k), beta_j's likelihood is proportional
to exp(-(q b^2 - 2 c b)/(2 sigma^2)), and

    slab    (1 + v1 q)^(-1/2) exp(c^2 / (2 sigma^2 (q + 1/v1)))      beta_j ~ N(c/(q + 1/v1), sigma^2/(q + 1/v1))
    spike   (2 v0)^(-1) sqrt(2 pi/q) (M(z+) + M(z-)),                beta_j = (sigma/sqrt(q)) * (T(z+) or -T(z-)),
            z+- = (+-c/sigma - 1/v0)/sqrt(q),  M(z) = exp(z^2/2) Phi(z),  T(z) ~ N(z, 1) on (0, inf).

delta | gamma is a beta variable. For u = 1/sigma the conditional is u^(m-1) exp(-C u^2/2 - B u) with m = n + p + nu,
B = sum_spike |beta|/v0 and C = RSS + sum_slab beta^2/v1 + nu*lambda. As u^2 >= 2 h u - h^2, draws of
Gamma(m, rate B + C h) accepted with probability exp(-C (u - h)^2/2) are exact for every h; h is the mode.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit


@dataclass(frozen=True)
class Model:
    """The hyperparameters. A number for `delta` or `sigma` fixes it; None learns it.

    With a `slab` the slab is N(0, slab) whatever sigma is, and v1 is not used.
    """

    v0: float
    v1: float = 1.0
    a: float = 1.0
    b: float = 1.0
    nu: float = 1.0
    lambda_: float = 1.0
    delta: float | None = None
    sigma: float | None = None
    slab: float | None = None


@dataclass(frozen=True)
class Draws:
    """One row per kept sweep; `inclusion` is the running conditional probability of gamma_j = 1 (Rao-Blackwell)."""

    beta: np.ndarray
    gamma: np.ndarray
    inclusion: np.ndarray
    delta: np.ndarray
    sigma: np.ndarray


def gibbs(x, y, model, sweeps, rng, burn_in=0, thin=1, start=None):
    """Draw from the posterior; `start` is (beta, gamma, delta, sigma), by default the empty model."""
    p = x.shape[1]
    if start is None:
        start = np.zeros(p), np.zeros(p, dtype=np.bool_), 1 / (1 + p), float(np.std(y)) or 1.0
    beta, gamma = np.array(start[0], dtype=float), np.array(start[1], dtype=np.bool_)
    delta = start[2] if model.delta is None else model.delta
    sigma = start[3] if model.sigma is None else model.sigma
    hyper = np.array([model.v0, model.v1, model.a, model.b, model.nu, model.lambda_, model.slab or 0.0])
    learn = model.delta is None, model.sigma is None
    columns = np.ascontiguousarray(x.T, dtype=float)
    residual = y - x @ beta
    return Draws(*_run(columns, residual, beta, gamma, delta, sigma, hyper, learn, sweeps, burn_in, thin, rng))


@njit(cache=True)
def _run(columns, residual, beta, gamma, delta, sigma, hyper, learn, sweeps, burn_in, thin, rng):
    p, n = columns.shape
    v0, v1, a, b, nu, lambda_, fixed_slab = hyper
    kept = (sweeps - burn_in) // thin
    betas, gammas = np.empty((kept, p)), np.empty((kept, p), dtype=np.bool_)
    inclusion, deltas, sigmas = np.empty((kept, p)), np.empty(kept), np.empty(kept)
    chance = np.empty(p)
    squares = (columns * columns).sum(axis=1)
    for sweep in range(sweeps):
        if fixed_slab > 0:
            v1 = fixed_slab / sigma**2
        for j in range(p):
            c = columns[j] @ residual + squares[j] * beta[j]
            log_slab, log_spike, share_plus = _evidence(c, squares[j], sigma, v0, v1)
            log_odds = log_slab - log_spike + math.log(delta) - math.log1p(-delta)
            chance[j] = 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0
            gamma[j] = rng.random() < chance[j]
            new = _draw_beta(c, squares[j], sigma, v0, v1, gamma[j], share_plus, rng)
            residual += (beta[j] - new) * columns[j]
            beta[j] = new
        if learn[0]:
            chosen = gamma.sum()
            delta = min(max(rng.beta(a + chosen, b + p - chosen), 1e-300), 1 - 1e-16)
        if learn[1]:
            spike = np.abs(beta[~gamma]).sum() / v0
            slab = 0.0 if fixed_slab > 0 else (beta[gamma] ** 2).sum() / v1
            scaled = p - gamma.sum() if fixed_slab > 0 else p  # coefficients whose prior has sigma as its scale
            sigma = _draw_sigma(n + scaled + nu, spike, residual @ residual + slab + nu * lambda_, rng)
        row = (sweep + 1 - burn_in) // thin - 1
        if sweep >= burn_in and (sweep + 1 - burn_in) % thin == 0:
            betas[row], gammas[row], inclusion[row], deltas[row], sigmas[row] = beta, gamma, chance, delta, sigma
    return betas, gammas, inclusion, deltas, sigmas


@njit(cache=True)
def _evidence(c, q, sigma, v0, v1):
    """Log integrals of the likelihood against slab and spike, and the share of the spike's mass on b > 0."""
    log_slab = -0.5 * math.log1p(v1 * q) + c * c / (2 * sigma**2 * (q + 1 / v1))
    plus = _log_mills((c / sigma - 1 / v0) / math.sqrt(q))
    minus = _log_mills((-c / sigma - 1 / v0) / math.sqrt(q))
    top = max(plus, minus)
    total = top + math.log(math.exp(plus - top) + math.exp(minus - top))
    log_spike = 0.5 * math.log(2 * math.pi / q) - math.log(2 * v0) + total
    return log_slab, log_spike, math.exp(plus - total)


@njit(cache=True)
def _log_mills(z):
    """log(exp(z^2/2) Phi(z)); for z < -30, where Phi underflows, by its asymptotic series."""
    if z > -30:
        return 0.5 * z * z + math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    w = 1 / (z * z)
    return -math.log(-z * math.sqrt(2 * math.pi)) + math.log1p(-w * (1 - 3 * w * (1 - 5 * w)))


@njit(cache=True)
def _draw_beta(c, q, sigma, v0, v1, in_slab, share_plus, rng):
    if in_slab:
        precision = q + 1 / v1
        return c / precision + sigma / math.sqrt(precision) * rng.standard_normal()
    side = 1.0 if rng.random() < share_plus else -1.0
    return side * sigma / math.sqrt(q) * _truncated_normal((side * c / sigma - 1 / v0) / math.sqrt(q), rng)


@njit(cache=True)
def _truncated_normal(mean, rng):
    """N(mean, 1) on (0, inf): plain rejection, or Robert's (1995) from an exponential when the tail is far out."""
    if mean > -0.4:
        while True:
            x = mean + rng.standard_normal()
            if x > 0:
                return x
    rate = 0.5 * (math.sqrt(mean * mean + 4) - mean)
    while True:
        x = rng.standard_exponential() / rate
        if rng.random() < math.exp(-0.5 * (x - mean - rate) ** 2):
            return x


@njit(cache=True)
def _draw_sigma(m, b, c, rng):
    mode = (-b + math.sqrt(b * b + 4 * c * max(m - 1, 0.0))) / (2 * c)
    while True:
        u = rng.standard_gamma(m) / (b + c * mode)
        if rng.random() < math.exp(-0.5 * c * (u - mode) ** 2):
            return 1 / u
