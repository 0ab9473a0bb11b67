"""The Gibbs sampler that other samplers are held against, itself held against quadrature and Geweke's test."""

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln

from tests.linear.gibbs_reference import Model, _draw_sigma, _evidence, _truncated_normal, gibbs


def correlated_data(n=12, p=3, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    return x, x @ np.array([0.9, 0.0, -0.3]) + 0.8 * rng.standard_normal(n)


def monte_carlo_error(draws):
    """Standard error of the mean of a chain from 50 batch means."""
    batches = draws[: len(draws) // 50 * 50].reshape(50, -1, *draws.shape[1:]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / np.sqrt(50)


def enumerate_posterior(x, y, model):
    """P(gamma = 1), E[beta], E[beta^2] and E[sigma]: gamma enumerated, sigma and the spike coefficients on grids.

    Given sigma and gamma the slab coefficients are integrated by Gaussian algebra.
    """
    n, p = x.shape
    moments, mean_sigma, total = np.zeros((3, p)), 0.0, 0.0
    grids = [spike_grid(model.v0, count) for count in range(p + 1)]
    for sigma, sigma_weight in zip(*scaled_legendre(0.25, 3.5, 40), strict=True):
        prior = stats.invgamma.pdf(sigma**2, model.nu / 2, scale=model.nu * model.lambda_ / 2) * 2 * sigma
        for gamma in np.array(list(itertools.product([False, True], repeat=p))):
            k = gamma.sum()
            points, mass = grids[p - k]
            spikes = sigma * points
            residual = y - spikes @ x[:, ~gamma].T
            slab = x[:, gamma]
            precision = slab.T @ slab + np.eye(k) / model.v1
            covariance = np.linalg.inv(precision)
            mean = residual @ slab @ covariance
            misfit = (residual**2).sum(axis=1) - ((mean @ precision) * mean).sum(axis=1)
            log_density = -0.5 * misfit / sigma**2 - n * np.log(sigma)
            log_density -= 0.5 * np.linalg.slogdet(model.v1 * precision)[1]
            log_density += betaln(model.a + k, model.b + p - k)
            weight = mass * np.exp(log_density) * prior * sigma_weight
            total += weight.sum()
            mean_sigma += weight.sum() * sigma
            moments[0, gamma] += weight.sum()
            moments[1, gamma] += weight @ mean
            moments[2, gamma] += weight @ mean**2 + weight.sum() * sigma**2 * np.diag(covariance)
            moments[1, ~gamma] += weight @ spikes
            moments[2, ~gamma] += weight @ spikes**2
    return moments / total, mean_sigma / total


def spike_grid(v0, count):
    """Points (in units of sigma) and masses of `count` Laplace variables, Gauss-Legendre on each side of the kink."""
    right, weights = scaled_legendre(0, 15 * v0, 18)
    points, masses = np.r_[-right, right], np.r_[weights, weights] * np.exp(-np.r_[right, right] / v0) / (2 * v0)
    tuples = list(itertools.product(range(len(points)), repeat=count))
    index = np.array(tuples, dtype=int).reshape(len(tuples), count)
    return points[index], masses[index].prod(axis=1)


def scaled_legendre(low, high, nodes):
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return low + (high - low) * (points + 1) / 2, weights * (high - low) / 2


def test_agrees_with_enumeration_and_quadrature():
    x, y = correlated_data()
    model = Model(v0=0.1, v1=2.0, a=1.0, b=3.0)
    (inclusion, mean, square), mean_sigma = enumerate_posterior(x, y, model)
    draws = gibbs(x, y, model, 200_000, np.random.default_rng(1), burn_in=1000)
    for sample, exact in [
        (draws.gamma.astype(float), inclusion),
        (draws.inclusion, inclusion),
        (draws.beta, mean),
        (draws.beta**2, square),
        (draws.sigma, mean_sigma),
    ]:
        error = monte_carlo_error(sample)
        assert np.all(error < 0.01)
        np.testing.assert_array_less(np.abs(sample.mean(axis=0) - exact), 4 * error)


def test_fixed_delta_and_sigma_stay():
    x, y = correlated_data()
    draws = gibbs(x, y, Model(v0=0.1, v1=2.0, delta=0.3, sigma=0.7), 50, np.random.default_rng(1), burn_in=10, thin=4)
    assert draws.beta.shape == (10, 3)
    assert set(draws.delta) == {0.3} and set(draws.sigma) == {0.7}


@pytest.mark.parametrize("slab", [None, 1.5])
def test_joint_distribution(slab):
    """Geweke (2004): alternating y | parameters with one sweep must leave the prior as it is."""
    rng = np.random.default_rng(4)
    n, p = 5, 3
    x = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    model = Model(v0=0.2, v1=1.5, a=2.0, b=3.0, nu=8.0, lambda_=1.0, slab=slab)
    beta, gamma, delta, sigma = np.zeros(p), np.zeros(p, dtype=bool), 0.4, 1.0
    chain = []
    for _ in range(25_000):
        y = x @ beta + sigma * rng.standard_normal(n)
        draws = gibbs(x, y, model, 1, rng, start=(beta, gamma, delta, sigma))
        beta, gamma, delta, sigma = draws.beta[0], draws.gamma[0], draws.delta[0], draws.sigma[0]
        chain.append((beta, gamma, delta, sigma))
    chain = summaries(*(np.array(part) for part in zip(*chain, strict=True)))

    size = 400_000
    sigmas = np.sqrt(stats.invgamma.rvs(model.nu / 2, scale=model.nu * model.lambda_ / 2, size=size, random_state=rng))
    deltas = rng.beta(model.a, model.b, size)
    gammas = rng.random((size, p)) < deltas[:, None]
    spike = rng.laplace(scale=model.v0, size=(size, p))
    wide = np.sqrt(model.v1) * rng.standard_normal((size, p)) * (1.0 if slab else sigmas[:, None])
    prior = summaries(np.where(gammas, wide, sigmas[:, None] * spike), gammas, deltas, sigmas)
    error = np.hypot(monte_carlo_error(chain), prior.std(axis=0) / np.sqrt(size))
    assert np.all(error < 0.05 * prior.std(axis=0))
    np.testing.assert_array_less(np.abs(chain.mean(axis=0) - prior.mean(axis=0)), 4 * error)


def summaries(beta, gamma, delta, sigma):
    scaled = beta / sigma[:, None]
    columns = [beta, np.abs(scaled), gamma, gamma * np.abs(scaled), delta, delta**2, sigma, 1 / sigma**2]
    return np.column_stack([*columns, delta * gamma.sum(axis=1), beta[:, 0] * beta[:, 1]])


@pytest.mark.parametrize(
    ("c", "q", "sigma", "v0"), [(3.0, 12.0, 0.8, 0.1), (-40.0, 9.0, 1.3, 0.5), (0.2, 4.0, 1.0, 2.0)]
)
def test_evidence_by_quadrature(c, q, sigma, v0):
    def likelihood(b):
        return np.exp(-(q * b * b - 2 * c * b) / (2 * sigma**2))

    def integral(density, low, high):
        return integrate.quad(lambda b: likelihood(b) * density(b), low, high, epsabs=0, epsrel=1e-10)[0]

    log_slab, log_spike, share_plus = _evidence(c, q, sigma, v0, 1.7)
    spike = stats.laplace(scale=sigma * v0).pdf
    plus, minus = integral(spike, 0, 25), integral(spike, -25, 0)
    assert log_slab == pytest.approx(np.log(integral(stats.norm(scale=sigma * 1.7**0.5).pdf, -25, 25)), abs=1e-7)
    assert log_spike == pytest.approx(np.log(plus + minus), abs=1e-7)
    assert share_plus == pytest.approx(plus / (plus + minus), abs=1e-7)


def test_evidence_of_a_point_like_spike():
    """As v0 goes to zero the spike's integral goes to the likelihood at zero, far beyond where Phi underflows."""
    assert _evidence(5.0, 100.0, 1.0, 1e-6, 1.0)[1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("mean", [1.5, -0.2, -3.0, -40.0])
def test_truncated_normal(mean):
    rng = np.random.default_rng(5)
    draws = [_truncated_normal(mean, rng) for _ in range(4000)]
    assert stats.kstest(draws, stats.truncnorm(-mean, np.inf, loc=mean).cdf).pvalue > 0.001


@pytest.mark.parametrize(("m", "b", "c"), [(301.0, 200.0, 90.0), (2.0, 0.0, 3.0), (6.5, 4.0, 0.5)])
def test_sigma(m, b, c):
    rng = np.random.default_rng(6)
    u = 1 / np.array([_draw_sigma(m, b, c, rng) for _ in range(4000)])
    grid = np.linspace(1e-9, 1.5 * u.max(), 20_000)
    log_density = (m - 1) * np.log(grid) - c * grid**2 / 2 - b * grid
    cdf = integrate.cumulative_simpson(np.exp(log_density - log_density.max()), x=grid, initial=0)
    assert stats.kstest(u, lambda v: np.interp(v, grid, cdf / cdf[-1])).pvalue > 0.001
