"""Chains over models against textbook Gibbs sampling of the same posterior, which keeps all coefficients and sigma.

    y ~ N(X beta, sigma^2 (I + h K)),   K = XX'/p,   beta_j ~ N(0, sigma^2 g) if predictor j is in the model, else 0

It draws one (gamma_j, beta_j) after the other, then sigma, g and h, each given all else; the small effects follow from
what is left of y. It shares the values and the prior of g and h with the library, and no formula.
"""

import numba
import numpy as np
import pytest

from sparse_langevin.linear import polygenic
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.normal import NormalRegression, Problem
from sparse_langevin.linear.polygenic import VALUES, Background
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.settling import settle
from sparse_langevin.posterior import diagnostics

SWEEPS, BURN_IN, CHAINS = 60_000, 2_000, 4


@numba.njit
def sweep(x, y, square, beta, inside, sigma2, g, log_prior):
    """Draw every (gamma_j, beta_j) in turn; ``log_prior`` is that of one model of k predictors, for this g."""
    rest, k = y - x @ beta, int(inside.sum())
    for j in range(len(beta)):
        rest += x[:, j] * beta[j]
        k -= int(inside[j])
        precision = square[j] + 1.0 / g
        mean = (x[:, j] @ rest) / precision
        log_odds = log_prior[k + 1] - log_prior[k] - 0.5 * np.log(g * precision) + 0.5 * mean**2 * precision / sigma2
        inside[j] = np.random.random() < 1.0 / (1.0 + np.exp(-log_odds))
        beta[j] = mean + np.sqrt(sigma2 / precision) * np.random.normal() if inside[j] else 0.0
        rest -= x[:, j] * beta[j]
        k += int(inside[j])
    return rest


@numba.njit
def seed_of_sweeps(seed):
    np.random.seed(seed)


def choice(log_weight, rng):
    weight = np.exp(log_weight - log_weight.max()).cumsum()
    return min(int(np.searchsorted(weight, rng.random() * weight[-1])), len(weight) - 1)


def plain_gibbs(case, seed):
    """Return draws of all coefficients, sigma, log g, h > 0 and the number of effects, one row each."""
    rng, z, y = np.random.default_rng(seed), case.design.columns(np.arange(case.design.size)), case.y
    seed_of_sweeps(seed)
    n, p = z.shape
    values, vectors = np.linalg.eigh(z @ z.T / p)
    values = np.maximum(values, 0.0)
    turned, target, log_h = vectors.T @ z, vectors.T @ y, polygenic.log_prior(n, p)
    beta, inside, sigma2, g, h = np.zeros(p), np.zeros(p, bool), 1.0, len(case.grid) // 2, 0
    rows = np.empty((SWEEPS, p + 4))
    for i in range(-BURN_IN, SWEEPS):
        root = np.sqrt(1 + VALUES[h] * values)
        x = np.asfortranarray(turned / root[:, None])
        rest = sweep(x, target / root, (x**2).sum(0), beta, inside, sigma2, case.grid[g], case.prior[g])
        k = int(inside.sum())
        # n - 1, since the mean of y was taken away.
        scale = 0.5 * (rest @ rest + beta @ beta / case.grid[g] + case.nu * case.lambda_)
        sigma2 = scale / rng.standard_gamma(0.5 * (n - 1 + k + case.nu))
        g = choice(case.prior[:, k] - 0.5 * k * np.log(case.grid) - 0.5 * beta @ beta / (sigma2 * case.grid), rng)
        left, wide = target - turned @ beta, 1 + VALUES[:, None] * values
        h = choice(log_h - 0.5 * (np.log(wide) + left**2 / (sigma2 * wide)).sum(1), rng)
        if i >= 0:
            small = np.sqrt(sigma2 * VALUES[h] / p) * rng.standard_normal(p)  # of the prior, then corrected
            gap = (left - turned @ small - np.sqrt(sigma2) * rng.standard_normal(n)) / wide[h]
            rows[i, :p] = beta + small + VALUES[h] / p * turned.T @ gap
            rows[i, p:] = np.sqrt(sigma2), np.log(case.grid[g]), h > 0, k
    return rows


@pytest.mark.parametrize("small", [0.0, 0.15])
def test_means_and_deviations_of_coefficients_and_hyperparameters(small):
    rng = np.random.default_rng(5)
    n, p = 60, 20
    x = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.6 ** abs(np.subtract.outer(range(p), range(p)))).T
    y = x[:, 1] + 0.35 * x[:, 7] - 0.35 * x[:, 12] + small * x @ rng.standard_normal(p) + rng.standard_normal(n)
    y = (y - y.mean()) / y.std()
    design = Design(x, x.mean(0), x.std(0), None)
    case = Problem(design, y, 0.0, float(n), background=Background.of(design, y, float(n)))
    chains = np.stack([plain_gibbs(case, seed) for seed in range(CHAINS)])
    assert diagnostics.rhat(chains).max() < 1.01
    assert diagnostics.ess(chains).min() > 1000  # errors of 0.03 deviations
    plan = Plan(4, 1000, 400_000, 0.0, 1e9)
    found = settle(case, [NormalRegression(case) for _ in range(4)], plan, np.arange(0, n, 10), rng, 2)
    samples, sigma = case.coefficients(found.chains, rng)
    draws, drawn = found.draws, samples[:]
    every = [np.log(draws.beside["g"]), draws.beside["h"] > 0, np.diff(draws.effects.indptr)]
    assert min(d.ess for d in found.diagnoses.values()) > 1000
    expected, pooled = chains.reshape(-1, p + 4).mean(0), chains.reshape(-1, p + 4).std(0)
    assert np.abs((drawn.mean(0) - expected[:p]) / pooled[:p]).max() < 0.1
    assert np.abs(drawn.std(0) / pooled[:p] - 1).max() < 0.1
    for values, mean, deviation in zip([sigma, *every], expected[p:], pooled[p:], strict=True):
        assert abs(values.mean() - mean) < 0.1 * deviation and values.std() == pytest.approx(deviation, rel=0.1)
    held = found.inclusion.sum()
    assert held == pytest.approx(expected[-1], abs=0.1 * pooled[-1])
