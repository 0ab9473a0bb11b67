"""The EM baseline against optimality conditions, closed forms and another library."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Lasso

from sparse_langevin.studies.emvs import HYPER, PATH, emvs, inclusion, sweep


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 60))
    y = x[:, :3] @ [2.0, -1.0, 0.5] + 0.5 * rng.standard_normal(40)
    return x - x.mean(0), y - y.mean()


def elastic_net(x, y, beta, lasso, ridge):
    return 0.5 * np.sum((y - x @ beta) ** 2) + lasso @ np.abs(beta) + 0.5 * ridge @ beta**2


def solve(x, y, lasso, ridge, sweeps=3000):
    beta, residual = np.zeros(x.shape[1]), x.T @ y
    for _ in range(sweeps):
        if sweep(x.T @ x, residual, beta, lasso, ridge) < 1e-12:
            break
    return beta


def test_the_m_step_meets_the_optimality_conditions(problem):
    x, y = problem
    rng = np.random.default_rng(1)
    lasso, ridge = rng.uniform(1, 20, 60), rng.uniform(0, 3, 60)
    beta = solve(x, y, lasso, ridge)
    slope = x.T @ (y - x @ beta) - ridge * beta
    active = beta != 0
    assert 3 < active.sum() < 40
    assert np.allclose(slope[active], lasso[active] * np.sign(beta[active]), atol=1e-8)
    assert (np.abs(slope[~active]) <= lasso[~active] + 1e-8).all()


def test_equal_weights_are_the_lasso(problem):
    x, y = problem
    beta = solve(x, y, np.full(60, 8.0), np.zeros(60))
    other = Lasso(alpha=8.0 / len(y), fit_intercept=False, tol=1e-10, max_iter=100_000).fit(x, y)
    assert np.allclose(beta, other.coef_, atol=1e-6)


def test_no_sweep_raises_the_objective(problem):
    x, y = problem
    lasso, ridge = np.full(60, 3.0), np.full(60, 0.5)
    beta, residual = np.random.default_rng(2).standard_normal(60), np.empty(60)
    residual[:] = x.T @ (y - x @ beta)
    values = []
    for _ in range(30):
        values.append(elastic_net(x, y, beta, lasso, ridge))
        sweep(x.T @ x, residual, beta, lasso, ridge)
    assert np.all(np.diff(values) <= 1e-9) and values[-1] < values[0]


def log_prior(beta, sigma, delta, v0, v1):
    spike = stats.laplace.pdf(beta, scale=sigma * v0)
    slab = stats.norm.pdf(beta, scale=sigma * np.sqrt(v1))
    return np.log((1 - delta) * spike + delta * slab), delta * slab / ((1 - delta) * spike + delta * slab)


def test_the_e_step_is_bayes_rule():
    beta, rho = np.linspace(-2, 2, 41), np.empty(41)
    inclusion(beta, 0.7, 0.2, 0.05, 0.4, rho)
    assert np.allclose(rho, log_prior(beta, 0.7, 0.2, 0.05, 0.4)[1])
    inclusion(np.array([1e-300, 1e3]), 0.7, 1e-290, 0.05, 0.4, rho[:2])
    assert np.isfinite(rho[:2]).all()


def test_em_never_lowers_the_posterior(problem):
    """With sigma and delta held, an E step and an M step raise log p(y | beta) + log p(beta)."""
    x, y = problem
    sigma, delta, v0, v1 = 0.6, 0.1, 0.05, 0.4
    beta, rho, values = np.zeros(60), np.empty(60), []
    residual = x.T @ y
    for _ in range(25):
        likelihood = -np.sum((y - x @ beta) ** 2) / (2 * sigma**2)
        values.append(likelihood + log_prior(beta, sigma, delta, v0, v1)[0].sum())
        inclusion(beta, sigma, delta, v0, v1, rho)
        for _ in range(50):
            sweep(x.T @ x, residual, beta, sigma * (1 - rho) / v0, rho / v1)
    assert np.all(np.diff(values) >= -1e-8) and values[-1] > values[0] + 10


def test_the_end_is_a_fixed_point(problem):
    x, y = problem
    mode = emvs(x, y, max_iter=2000, tol=1e-10)
    rho = np.empty(60)
    inclusion(mode.beta, mode.sigma, mode.delta, PATH[-1], HYPER.v1, rho)
    assert np.allclose(rho, mode.rho, atol=1e-4)  # EM ends when beta rests; delta may still creep
    rho = mode.rho
    assert mode.delta == pytest.approx((rho.sum() + 1) / 62)
    again = solve(x, y, mode.sigma * (1 - rho) / PATH[-1], rho / HYPER.v1)
    assert np.allclose(again, mode.beta, atol=1e-5)
    s, b = mode.sigma, ((1 - rho) * np.abs(mode.beta)).sum() / PATH[-1]
    a = 40 + 1 + 2 + np.sum(mode.beta != 0)
    c = np.sum((y - x @ mode.beta) ** 2) + rho @ mode.beta**2 / HYPER.v1 + 1
    assert a * s**2 - b * s - c == pytest.approx(0, abs=1e-9 * c)
    assert set(np.flatnonzero(rho > 0.5)) == {0, 1, 2}
