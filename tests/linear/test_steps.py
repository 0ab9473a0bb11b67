"""Single steps of the chains: noise of the right size around the right drift, and minibatches that favour no row."""

from itertools import combinations

import numba
import numpy as np
import pytest
from scipy import special, stats

from sparse_langevin.linear import gaussian, likelihood, logistic

COUNT = 20_000
HYPER = gaussian.Hyper(
    v0=0.1,
    slab=0.8,
    a=1.0,
    b=1.0,
    nu=1.0,
    lambda_=1.0,
    prior_variance=0.6,
    spike_slab=True,
    precondition=True,
    jumps=1,
)
DELTA, EPS = 0.3, 1e-3


@numba.njit
def seed(value):
    np.random.seed(value)


@pytest.fixture
def problem():
    """Coefficients away from zero, where no pull is cut off; gradients; and a metric that varies by a factor of 16."""
    seed(0)
    rng = np.random.default_rng(0)
    beta = rng.choice([-1.0, 1.0], COUNT) * rng.uniform(0.3, 1.5, COUNT)
    return beta, rng.normal(0.0, 20.0, COUNT), rng.choice([0.25, 1.0, 4.0], COUNT)


def assert_langevin(before, after, score, e):
    """after = before + e * score + sqrt(2 e) * N(0, 1), within five standard errors of mean, variance and slope."""
    z = (after - before - e * score) / np.sqrt(2.0 * e)
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
    drift = e * score / np.sqrt(2.0 * e)
    assert abs(drift @ z) < 5 * np.sqrt(drift @ drift)


def prior_score(beta, sigma):
    """Derivative of the log density of spike and slab with gamma summed out, by central differences."""

    def log_density(b):
        spike = stats.laplace.logpdf(b, scale=sigma * HYPER.v0) + np.log1p(-DELTA)
        return np.logaddexp(spike, stats.norm.logpdf(b, scale=np.sqrt(HYPER.slab)) + np.log(DELTA))

    return (log_density(beta + 1e-6) - log_density(beta - 1e-6)) / 2e-6


def test_regression_under_spike_and_slab(problem):
    beta, gradient, metric = problem
    sigma, moved = 0.7, beta.copy()
    gaussian._spike_slab_step(gradient, moved, metric, np.array([sigma, DELTA, EPS, 0.0]), HYPER.v0, HYPER.slab)
    assert_langevin(beta, moved, gradient / sigma**2 + prior_score(beta, sigma), EPS * metric)


def test_regression_under_a_gaussian_prior(problem):
    beta, gradient, metric = problem
    sigma, moved = 0.7, beta.copy()
    gaussian._gaussian_step(gradient, moved, metric, np.array([sigma, DELTA, EPS, 0.0]), HYPER.prior_variance)
    assert_langevin(beta, moved, gradient / sigma**2 - beta / HYPER.prior_variance, EPS * metric)


def classifier_state(w, intercept, metric):
    return logistic.State(
        w, intercept, metric, np.ones_like(w), np.ones_like(w), np.ones(w.shape[1]), np.array([DELTA, EPS, 0.0, 0.5])
    )


@pytest.mark.parametrize("spike_slab", [True, False])
def test_coefficients_of_classes(problem, spike_slab):
    beta, gradient, metric = (values.reshape(2, -1) for values in problem)
    state = classifier_state(beta.copy(), np.zeros(2), metric)
    logistic._move(gradient, state, HYPER._replace(spike_slab=spike_slab), HYPER.v0)
    prior = prior_score(beta, 1.0) if spike_slab else -beta / HYPER.prior_variance
    assert_langevin(beta.ravel(), state.w.ravel(), (gradient + prior).ravel(), EPS * metric.ravel())


def test_intercepts_of_classes(problem):
    intercept, gradient, _ = problem
    n = 40
    state = classifier_state(np.zeros((COUNT, 1)), intercept.copy(), np.ones((COUNT, 1)))
    logistic._move_intercepts(gradient, n, state)
    score, curvature = gradient - intercept / 100.0, n / 4 + 1 / 100.0
    assert_langevin(intercept, state.intercept, score, np.full(COUNT, 0.2 / curvature))


def test_every_subset_of_rows_is_equally_likely():
    """Row i alone informs coefficient i, and a long step shows whether it was in the batch."""
    n, batch, repeats = 20, 5, 4000
    x, y = np.eye(n), (np.arange(n) % 2).astype(float)[None]
    data, hyper = likelihood.Data(x, x.copy(), y, batch), HYPER._replace(spike_slab=False)
    chosen, slope = np.empty((repeats, n)), np.zeros(n)
    for repeat in range(repeats):
        state = classifier_state(np.zeros((1, n)), np.zeros(1), np.ones((1, n)))
        state.scalars[logistic.EPS] = 1e4
        w = logistic.advance(data, hyper, state, 1, 1, 0, repeat)[0][0, 0]
        chosen[repeat] = np.abs(w) > 1e4
        slope += w / 1e4 / repeats
    assert np.all(chosen.sum(1) == batch)
    share, pair = batch / n, batch * (batch - 1) / (n * (n - 1))
    counts = chosen.T @ chosen
    assert np.abs(np.diag(counts) - repeats * share).max() < 5 * np.sqrt(repeats * share * (1 - share))
    together = counts[np.triu_indices(n, 1)]
    assert np.abs(together - repeats * pair).max() < 5 * np.sqrt(repeats * pair * (1 - pair))
    error = 0.5 * np.sqrt((1 / share - 1) / repeats)  # of a mean of (1/share) * (y - 1/2) * (whether chosen)
    assert np.abs(slope - (y[0] - 0.5)).max() < 5 * error


def test_later_subsets_are_equally_likely_too():
    seed(0)
    order, counts, repeats = np.arange(10), np.zeros(10), 10_000
    for _ in range(repeats):
        logistic._choose(order, 3)
        counts[order[:3]] += 1
    assert sorted(order) == list(range(10))
    assert np.abs(counts - 0.3 * repeats).max() < 5 * np.sqrt(repeats * 0.3 * 0.7)


@pytest.mark.parametrize("classes", [1, 3])
def test_the_mean_gradient_over_all_minibatches_is_that_of_all_rows(classes):
    rng = np.random.default_rng(0)
    x, w, intercept = rng.standard_normal((6, 2)), rng.standard_normal((classes, 2)), rng.standard_normal(classes)
    y = rng.integers(0, 2, (1, 6)) if classes == 1 else np.arange(3)[:, None] == rng.integers(0, 3, 6)
    scores = w @ x.T + intercept[:, None]
    excess = y - (special.expit(scores) if classes == 1 else special.softmax(scores, axis=0))
    data = likelihood.Data(x, np.ascontiguousarray(x.T), y.astype(float), 4)
    parts = [likelihood.likelihood_gradient(data, np.array(rows), w, intercept) for rows in combinations(range(6), 4)]
    assert np.mean([slope for slope, _ in parts], axis=0) == pytest.approx(excess @ x)
    assert np.mean([slope_0 for _, slope_0 in parts], axis=0) == pytest.approx(excess.sum(1))
