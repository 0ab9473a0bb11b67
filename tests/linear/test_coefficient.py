"""One coefficient given the others: closed forms against quadrature, draws against the closed forms."""

import numba
import numpy as np
import pytest
from scipy import integrate, stats

from sparse_langevin.linear import coefficient

CASES = [
    (0.0, 50.0, 1.0, 0.02, 0.3),
    (40.0, 100.0, 0.7, 0.01, 0.3),
    (-8.0, 30.0, 1.5, 0.1, 10.0),
    (300.0, 100.0, 1.0, 0.01, 1.0),
]


def likelihood(b, c, q, sigma):
    return np.exp((c * b - q * b * b / 2) / sigma**2 - c * c / (2 * q * sigma**2))  # scaled to at most one


@pytest.mark.parametrize(("c", "q", "sigma", "v0", "v1"), CASES)
def test_evidence_by_quadrature(c, q, sigma, v0, v1):
    points = [0.0, c / q, c / (q + 1 / v1), (c - sigma / v0) / q, (c + sigma / v0) / q]
    width = 20 * sigma / np.sqrt(q)
    low, high = min(points) - width, max(points) + width

    def integral(prior, times=lambda b: 1.0):
        return integrate.quad(
            lambda b: prior(b) * likelihood(b, c, q, sigma) * times(b), low, high, points=points, limit=500, epsabs=0
        )[0]

    slab = integral(lambda b: stats.norm.pdf(b, scale=sigma * np.sqrt(v1)))
    spike = integral(lambda b: stats.laplace.pdf(b, scale=sigma * v0))
    size = integral(lambda b: stats.laplace.pdf(b, scale=sigma * v0), abs) / spike
    log_slab, log_spike, mean_size, _ = coefficient.evidence(c, q, sigma, v0, v1)
    shift = c * c / (2 * q * sigma**2)
    assert log_slab - shift == pytest.approx(np.log(slab), abs=1e-7)
    assert log_spike - shift == pytest.approx(np.log(spike), abs=1e-7)
    assert mean_size == pytest.approx(size, rel=1e-6)
    logit = np.log(0.05 / 0.95)
    both = np.log(0.05 * slab + 0.95 * spike) - np.log(0.95)
    assert coefficient.log_normaliser(c, q, sigma, v0, v1, logit) - shift == pytest.approx(both, abs=1e-7)


@numba.njit
def many(count, seed, c, q, sigma, v0, v1, logit):
    np.random.seed(seed)
    return np.array([coefficient.draw(c, q, sigma, v0, v1, logit)[0] for _ in range(count)])


@pytest.mark.parametrize(("c", "q", "sigma", "v0", "v1"), CASES[:3])
def test_draws_have_the_conditional_density(c, q, sigma, v0, v1):
    logit = 0.3
    draws = many(20_000, 1, c, q, sigma, v0, v1, logit)
    grid = np.linspace(draws.min() - 0.5, draws.max() + 0.5, 400_001)
    odds = np.exp(logit)
    prior = stats.laplace.pdf(grid, scale=sigma * v0) + odds * stats.norm.pdf(grid, scale=sigma * np.sqrt(v1))
    cumulative = np.cumsum(prior * likelihood(grid, c, q, sigma))
    cumulative /= cumulative[-1]
    assert stats.kstest(draws, lambda b: np.interp(b, grid, cumulative)).pvalue > 1e-3


def test_slab_probability_is_the_ratio_of_densities():
    for b in (0.0, 0.03, -0.2, 1.0):
        slab = 0.1 * stats.norm.pdf(b, scale=0.7 * np.sqrt(0.3))
        spike = 0.9 * stats.laplace.pdf(b, scale=0.7 * 0.02)
        expected = slab / (slab + spike)
        assert coefficient.slab_probability(b, 0.7, 0.02, 0.3, np.log(0.1 / 0.9)) == pytest.approx(expected, rel=1e-9)


def test_mills_ratio_far_out():
    z = np.array([-40.0, -31.0, -29.0, -5.0, 0.0, 6.0])
    expected = z**2 / 2 + stats.norm.logcdf(z)
    assert [coefficient.log_mills(v) for v in z] == pytest.approx(list(expected), abs=1e-9)
