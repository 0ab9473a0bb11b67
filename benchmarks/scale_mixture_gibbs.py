r"""The spike-and-slab linear model by the textbook Gibbs sampler: the Laplace spike as a normal scale mixture.

    y = X beta + N(0, sigma^2 I),  beta_j ~ (1 - gamma_j) Laplace(0, sigma*v0) + gamma_j N(0, sigma^2*v1),
    gamma_j ~ Bernoulli(delta),  delta ~ Beta(a, b),  sigma^2 ~ InverseGamma(nu/2, nu*lambda/2)

Laplace(0, sigma*v0) is N(0, sigma^2 t) with t ~ Exponential(mean 2 v0^2), so with d_j = v1 in the slab and t_j in the
spike all conditionals are known:

    gamma_j, t_j | beta   gamma_j by the two densities at beta_j; 1/t_j ~ InverseGaussian(sigma/(v0 |beta_j|), v0^-2)
    sigma^2 | rest        InverseGamma((n + p + nu)/2, (RSS + sum beta_j^2/d_j + nu*lambda)/2); with a slab N(0, slab)
                          that does not know sigma, v1 = slab/sigma^2 and only spikes count in p and the sum
    beta | rest           in one block, by Bhattacharya, Chakraborty and Mallick (2016): u ~ N(0, sigma^2 D),
                          e ~ N(0, sigma^2 I), beta = u + D X' (X D X' + I)^-1 (y - X u - e)
"""

import numpy as np
from scipy import linalg, special

State = tuple[np.ndarray, float, float]  # beta, delta, sigma


def start(p: int) -> State:
    """A small random beta."""
    return np.full(p, 1e-3), 1 / (1 + p), 1.0


def sample(x, y, model, sweeps: int, rng: np.random.Generator, state: State) -> tuple[np.ndarray, State]:
    """Draws of beta (sweeps, p), and where the chain stands; ``model`` is that of tests.linear.gibbs_reference."""
    n, p = x.shape
    beta, delta, sigma = state
    draws = np.empty((sweeps, p))
    for sweep in range(sweeps):
        size = np.maximum(np.abs(beta), 1e-12)
        v1 = model.slab / sigma**2 if model.slab else model.v1
        slab = -0.5 * (beta / sigma) ** 2 / v1 - 0.5 * np.log(2 * np.pi * v1)
        spike = -size / (sigma * model.v0) - np.log(2 * model.v0)
        gamma = rng.random(p) < special.expit(slab - spike + special.logit(delta))
        inverse = rng.wald(sigma / (model.v0 * size), model.v0**-2)
        d = np.where(gamma, v1, 1 / np.maximum(inverse, 1e-12))
        delta = float(np.clip(rng.beta(model.a + gamma.sum(), model.b + p - gamma.sum()), 1e-300, 1 - 1e-16))
        scaled_by_sigma = ~gamma if model.slab else np.ones(p, dtype=bool)
        rss = np.square(y - x @ beta).sum() + (beta**2 / d)[scaled_by_sigma].sum() + model.nu * model.lambda_
        sigma = float(np.sqrt(0.5 * rss / rng.standard_gamma((n + scaled_by_sigma.sum() + model.nu) / 2)))
        d = np.where(gamma, model.slab / sigma**2, d) if model.slab else d
        u, e = sigma * np.sqrt(d) * rng.standard_normal(p), sigma * rng.standard_normal(n)
        scaled = x * d
        factor = linalg.cho_factor(scaled @ x.T + np.eye(n), check_finite=False)
        beta = u + scaled.T @ linalg.cho_solve(factor, y - x @ u - e, check_finite=False)
        draws[sweep] = beta
    return draws, (beta, delta, sigma)
