"""Chains of linear models against posteriors known otherwise: Gibbs sampling, and integration over a grid."""

import numpy as np
import pytest
from scipy import stats

from sparse_langevin import SparseBayesClassifier, SparseBayesRegressor
from sparse_langevin.linear.moments import Moments, Rows, observed
from tests.linear.gibbs_reference import Model, gibbs


def correlated(rng, n, p, rho=0.6):
    return rng.standard_normal((n, p)) @ np.linalg.cholesky(rho ** np.abs(np.subtract.outer(range(p), range(p)))).T


@pytest.mark.parametrize("n", [60, 150])  # fewer rows than predictors, and more
def test_regression_against_gibbs(n):
    rng = np.random.default_rng(0)
    x = correlated(rng, n, 80)
    y = x[:, 0] * 1.5 + x[:, 5] + rng.standard_normal(n)
    model = SparseBayesRegressor("psgld-sa", random_state=0, max_steps=16_000, target_ess=1e9, target_rhat=1e-9)
    with pytest.warns(UserWarning, match="effective sample size"):
        model.fit(x, y)
    z, t = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    prior = Model(v0=0.1 / np.sqrt(n), slab=0.075, a=10.0, b=70.0, lambda_=0.25)
    exact = gibbs(z, t, prior, 20_000, np.random.default_rng(1), burn_in=1000)
    factor = y.std() / x.std(0)
    for j in (0, 5):
        mean, std = exact.beta[:, j].mean() * factor[j], exact.beta[:, j].std() * factor[j]
        assert abs(model.coef_[j] - mean) < 0.1 * std
        assert model.coef_std_[j] == pytest.approx(std, rel=0.1)
    # delta and sigma are point estimates in the chain, so probabilities of doubtful predictors differ a little.
    assert np.abs(model.inclusion_probability_ - exact.inclusion.mean(0)).max() < 0.1
    assert model.sigma_ == pytest.approx(exact.sigma.mean() * y.std(), rel=0.04)


def test_logistic_regression_against_a_grid():
    """Two predictors, one of them doubtful: posterior by integration over intercept and both coefficients."""
    rng = np.random.default_rng(3)
    n = 60
    x = rng.standard_normal((n, 2))
    y = (x[:, 0] * 1.2 + 0.55 * x[:, 1] + rng.logistic(size=n) > 0.3).astype(int)
    z = (x - x.mean(0)) / x.std(0)
    v0, v1 = 0.05, 2.0
    model = SparseBayesClassifier("psgld-sa", v0=v0, v1=v1, random_state=0, max_steps=40_000, target_ess=1e9)
    with pytest.warns(UserWarning, match="effective sample size"):
        model.fit(x, y)
    b = np.concatenate([np.arange(-0.4, 0.4, 0.005), np.arange(0.4, 5.5, 0.03), np.arange(-1.6, -0.4, 0.03)])
    b.sort()
    b0 = np.linspace(-2.4, 1.8, 43)
    log_likelihood = np.zeros((len(b0), len(b), len(b)))
    for i in range(n):
        eta = b0[:, None, None] + z[i, 0] * b[None, :, None] + z[i, 1] * b[None, None, :]
        log_likelihood += y[i] * eta - np.logaddexp(0, eta)
    # delta has a Beta(1, 1) prior and is a point estimate in the chain: take the estimate's fixed point here.
    weights = np.gradient(b)[:, None] * np.gradient(b)[None, :]
    likelihood = np.exp(log_likelihood - log_likelihood.max()) * stats.norm.pdf(b0, scale=10.0)[:, None, None]
    joint = likelihood.sum(0) * weights
    delta = 0.5
    for _ in range(200):
        slab, spike = delta * stats.norm.pdf(b, scale=np.sqrt(v1)), (1 - delta) * stats.laplace.pdf(b, scale=v0)
        posterior = joint * (slab + spike)[:, None] * (slab + spike)[None, :]
        posterior /= posterior.sum()
        share = slab / (slab + spike)
        inclusion = np.array([(posterior * share[:, None]).sum(), (posterior * share[None, :]).sum()])
        delta = (inclusion.sum() + 1.0) / 4.0
    mean = np.array([(posterior * b[:, None]).sum(), (posterior * b[None, :]).sum()])
    std = np.sqrt(np.array([(posterior * b[:, None] ** 2).sum(), (posterior * b[None, :] ** 2).sum()]) - mean**2)
    error = std * np.sqrt(1 / model.ess_)
    assert np.all(np.abs(model.coef_[0] * x.std(0) - mean) < 5 * error + 0.02 * std)
    assert model.coef_std_[0] * x.std(0) == pytest.approx(std, rel=0.1)
    assert model.inclusion_probability_ == pytest.approx(inclusion, abs=0.05)
    assert 0.1 < inclusion[1] < 0.9  # the doubtful one is doubtful indeed


def test_logistic_regression_under_a_gaussian_prior_against_a_grid():
    """One predictor and no jumps: the corrected Langevin steps alone."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((30, 1))
    y = (x[:, 0] + rng.logistic(size=30) > 0.3).astype(int)
    model = SparseBayesClassifier("psgld", expected_r2=0.5, random_state=0, target_ess=8000, max_steps=100_000).fit(
        x, y
    )
    b, b0 = np.linspace(-3, 8, 400), np.linspace(-6, 5, 400)[:, None, None]
    scores = b0 + b[:, None] * (x[:, 0] - x.mean()) / x.std()
    log_posterior = (y * scores - np.logaddexp(0, scores)).sum(2) + stats.norm.logpdf(b0[..., 0], scale=10.0)
    log_posterior += stats.norm.logpdf(b, scale=np.sqrt(np.pi**2 / 3))  # all of the signal's variance on one predictor
    weight = np.exp(log_posterior - log_posterior.max()).sum(0)
    mean = np.average(b, weights=weight)
    std = np.sqrt(np.average((b - mean) ** 2, weights=weight))
    draws = model.coef_samples_[:, 0, 0] * x.std()
    assert abs(draws.mean() - mean) < 5 * std / np.sqrt(model.ess_)
    assert abs(draws.std() / std - 1) < 5 / np.sqrt(2 * model.ess_)


def test_moments_in_pieces_are_the_moments_of_all():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1000, 6)) * 10.0 ** np.arange(-3, 3) + 5, rng.standard_normal(1000) - 1e3
    pieces = Moments.of(x[:10], y[:10]).plus(x[10:11], y[10:11]).plus(x[11:], y[11:])
    data, scale = pieces.standardised()
    whole, _ = observed(x, y).standardised()
    rows, _ = Rows(x, y, np.ones(1000)).standardised()
    z, t = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    for part in (data, whole, rows):
        assert part.x.T @ part.x == pytest.approx(z.T @ z, abs=1e-8)
        assert part.x.T @ part.y == pytest.approx(z.T @ t, abs=1e-8)
        assert part.y @ part.y + part.rest == pytest.approx(t @ t)
        assert part.size == 1000 and part.square == pytest.approx(np.full(6, 1000.0))
    assert scale.x_std == pytest.approx(x.std(0)) and scale.y_mean == pytest.approx(y.mean())


def test_weighted_rows_have_the_moments_of_repeated_ones():
    rng = np.random.default_rng(1)
    x, y, weight = rng.standard_normal((30, 4)) + 2.0, rng.standard_normal(30), rng.integers(1, 4, 30)
    many, _ = Rows(np.repeat(x, weight, axis=0), np.repeat(y, weight), np.ones(weight.sum())).standardised()
    few, scale = Rows(x, y, weight.astype(float)).standardised()
    moments, _ = Moments.of(x, y, weight.astype(float)).standardised()
    for part in (few, moments):
        assert part.x.T @ part.x == pytest.approx(many.x.T @ many.x, abs=1e-8)
        assert part.x.T @ part.y == pytest.approx(many.x.T @ many.y, abs=1e-8)
    assert scale.size == weight.sum()
    design, response, _, _ = Rows(x, y, weight.astype(float)).design()
    vector, b = rng.standard_normal(30), rng.standard_normal(4)
    assert design.products(response) == pytest.approx(many.x.T @ many.y, abs=1e-8)
    assert design.products(vector) == pytest.approx(few.x.T @ vector, abs=1e-8)
    assert design.combine(b) == pytest.approx(few.x @ b, abs=1e-8)
    assert design.squares(vector**2) == pytest.approx((few.x**2).T @ vector**2, rel=1e-8)
