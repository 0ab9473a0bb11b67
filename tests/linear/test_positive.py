"""Coefficients that are never negative: against sums over all models with orthant probabilities, and promises kept."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import collapsed, informed, model_state, positive
from sparse_langevin.linear.collapsed import Chain
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.interval import between, log_between
from sparse_langevin.linear.normal import PositiveRegression, Problem
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.settling import settle

NEGLIGIBLE = 12.0  # logarithms below the largest weight, at which a model with some g is left out of a sum
SHORT = {"random_state": 0, "target_rhat": 1.1, "target_ess": 100.0, "max_steps": 4000}


def correlated(n=50, p=6, seed=1):
    """Correlation 0.6^|i - j|; a copy of a true predictor, and one whose true effect is negative."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.6 ** abs(np.subtract.outer(range(p), range(p)))).T
    x[:, 4] = x[:, 1]
    return x, 0.5 * x[:, 1] + 0.35 * x[:, 3] - 0.3 * x[:, 5] + rng.standard_normal(n)


def problem(x, y, rest=0.0):
    return Problem(Design(x, x.mean(0), x.std(0), None), (y - y.mean()) / y.std(), rest, float(len(y)))


def enumerated(case, most=None):
    """Return inclusion, means of coefficients, of sigma and of log g; at most ``most`` of predictors from 3 on.

    Without the constraint beta has a multivariate t distribution given model and g, and sigma^2 is inverse gamma: the
    evidence under the constraint is 2^k times the one without, times the probability that all coefficients are
    positive, by quasi Monte Carlo.
    """
    z, y, p = case.design.columns(np.arange(case.design.size)), case.y, case.design.size
    half, offset = 0.5 * (case.size - 1 + case.nu), case.nu * case.lambda_ + case.rest
    points = stats.qmc.Sobol(p + 1, rng=np.random.default_rng(0)).random_base2(12)
    normals, chi2 = stats.norm.ppf(points[:, :p]), stats.chi2.ppf(points[:, p], 2 * half)
    models = [np.array(m, bool) for m in itertools.product([0, 1], repeat=p) if most is None or sum(m[3:]) <= most]
    found = []
    for model, (i, g) in itertools.product(models, enumerate(case.grid)):
        x, k = z[:, model], model.sum()
        inverse = np.linalg.inv(x.T @ x + np.eye(k) / g)
        mean = inverse @ (x.T @ y)
        rest = offset + y @ y - mean @ (x.T @ y)
        value = case.prior[i, k] + k * np.log(2) + 0.5 * np.linalg.slogdet(inverse / g)[1] - half * np.log(rest)
        found.append((value, model, g, mean, np.linalg.cholesky(inverse), rest))
    best = max(found[i][0] for i in range(len(found)))
    weights, values = [], []
    for value, model, g, mean, root, rest in found:
        if value > best - NEGLIGIBLE:  # a bound, as probabilities are at most 1
            sigma = np.sqrt(rest / chi2)
            beta = mean + sigma[:, None] * (normals[:, : len(mean)] @ root.T)
            inside = (beta > 0).all(1)
            if inside.any():
                weights.append(value + np.log(inside.mean()))
                coefficients = np.zeros(p)
                coefficients[model] = beta[inside].mean(0)
                values.append([*model.astype(float), *coefficients, sigma[inside].mean(), np.log(g)])
    average = np.exp(np.array(weights) - logsumexp(weights)) @ np.array(values)
    return average[:p], average[p : 2 * p], average[2 * p], average[2 * p + 1]


@pytest.fixture(params=["all in view", "guests"])
def view(request, monkeypatch):
    """All predictors in view; or few, the first three are anchors and two of the others guests."""
    if request.param == "guests":
        for name, value in (("ALL", 3), ("ANCHORS", 3), ("GUESTS", 2)):
            monkeypatch.setattr(collapsed, name, value)
        monkeypatch.setattr(Chain, "choose_anchors", lambda self, scores: None)
    return request.param


def test_against_enumeration_of_all_models(view):
    case = problem(*correlated(), rest=2.0)
    inclusion, mean, sigma, log_g = enumerated(case, 2 if view == "guests" else None)
    assert 0.2 < inclusion[1] < 0.9 and inclusion[5] < 0.05 < inclusion[0]
    if view == "all in view":
        assert inclusion[1] == pytest.approx(inclusion[4], abs=2e-3)  # copies
    plan = Plan(4, 1000, 40_000, 0.0, 1e9)
    regressions = [PositiveRegression(case) for _ in range(plan.chains)]
    found = settle(case, regressions, plan, np.arange(0, 50, 10), np.random.default_rng(1), 2)
    draws, ess = found.draws, {name: diagnosis.ess for name, diagnosis in found.diagnoses.items()}
    assert np.abs(found.inclusion - inclusion).max() < 0.015
    assert np.abs((draws.effects != 0).mean(0) - inclusion).max() < 0.02
    beta, sigmas = draws.effects.toarray(), draws.beside["sigma"]
    assert beta.min() == 0.0
    least = ess["inclusion"] / 4  # of coefficients
    assert (np.abs(beta.mean(0) - mean) < 4 * beta.std(0) / np.sqrt(least)).all()
    assert sigmas.mean() == pytest.approx(sigma, abs=4 * sigmas.std() / np.sqrt(ess["sigma"]))
    logs = np.log(draws.beside["g"])
    assert logs.mean() == pytest.approx(log_g, abs=4 * logs.std() / np.sqrt(ess["the size of effects"]))


def wandering(seed=3, steps=2000):
    """Return a chain with several predictors in its model, of which some cannot leave."""
    x, y = correlated(40, 12, seed)
    chain = Chain(PositiveRegression(problem(x, y + x[:, 6] + x[:, 8], rest=3.0)), np.random.default_rng(seed))
    chain.burn_in(steps)
    for _ in range(1000):
        chain.burn_in(10)
        informed.weigh(chain.regression.target, chain.state)
        positive.rates(chain.regression.target, chain.state)
        if 3 < chain.state.integers[model_state.SIZE] < 9 and not chain.state.rate.all():
            return chain
    raise AssertionError("everything could leave at all times")


@pytest.mark.parametrize("seed", [3, 4])
def test_odds_by_quadrature(seed):
    """Of each predictor, along the line on which the others make room for it."""
    chain = wandering(seed)
    case, state = chain.regression.problem, chain.state
    z, g = case.design.columns(np.arange(12)), case.grid[state.integers[model_state.G]]
    k, sigma = state.integers[model_state.SIZE], state.reals[model_state.SIGMA]
    model, full = state.model[:k], np.zeros(12)
    full[model] = state.beta[:k]

    def log_density(beta, size):
        squares = ((case.y - z @ beta) ** 2).sum() + (beta**2).sum() / g
        scale = size * (np.log(2) - 0.5 * np.log(2 * np.pi * g * sigma**2))
        inside = (beta > -1e-9).all()
        return case.prior[state.integers[model_state.G], size] + scale - 0.5 * squares / sigma**2 if inside else -np.inf

    for j in range(12):
        others, size = np.setdiff1d(model, [j]), k - (j in model)
        t = np.linalg.solve(z[:, others].T @ z[:, others] + np.eye(size) / g, z[:, others].T @ z[:, j])
        line = np.zeros(12)
        line[j], line[others] = 1.0, -t
        empty = full - full[j] * line
        empty[j] = 0.0
        if (empty < 0).any():
            assert state.rate[j] == 0.0 and state.odds[j] > 1e200
            continue
        at_zero, falling = log_density(empty, size), line < 0
        high = min([3.0, *(-empty[falling] / line[falling])])
        value, _ = integrate.quad(
            lambda b, empty=empty, line=line, size=size, at=at_zero: np.exp(
                log_density(empty + b * line, size + 1) - at
            ),
            0,
            high,
            limit=500,
            points=np.linspace(0, high, 12)[1:-1],
        )
        assert np.log(state.odds[j]) == pytest.approx(np.log(value), abs=1e-3)


def test_draws_given_the_model():
    """With one predictor, whose effect is certain but weak: beta given g and sigma, and sigma given beta and g."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 1))
    case = problem(x, 0.6 * x[:, 0] + rng.standard_normal(40), rest=2.0)
    case.prior[:, 0] = -1e3  # computed once and kept
    chain = Chain(PositiveRegression(case), rng)
    chain.burn_in(500)
    draws = chain.draw(4000, 15)
    beta, sigma, g = draws.effects.toarray()[:, 0], draws.beside["sigma"], draws.beside["g"]
    target, z = chain.regression.target, case.design.columns(np.array([0]))[:, 0]
    own = z @ z + 1 / g
    mean, deviation = (z @ case.y) / own, sigma / np.sqrt(own)
    below = stats.norm.cdf(-mean / deviation)
    assert below.max() > 0.02
    uniform = (stats.norm.cdf((beta - mean) / deviation) - below) / (1 - below)
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    rest = target.offset + 2.0 + ((case.y - np.outer(beta, z)) ** 2).sum(1) + beta**2 / g
    assert stats.kstest(rest / sigma**2, stats.chi2(2 * target.half + 1).cdf).pvalue > 1e-3


CASES = [(0.3, 1.2), (4.0, 1.0), (-3.0, 0.5), (-40.0, 1e-2), (-40.0, np.inf), (50.0, 60.0), (30.0, 1.0), (0.5, 1e-6)]


@pytest.mark.parametrize(("mean", "high"), CASES)
def test_normals_on_an_interval(mean, high):
    peak, low = min(max(mean, 0.0), high), max(0.0, min(mean, high) - 12)
    end = min(high, max(mean, 0.0) + 12)
    total, _ = integrate.quad(
        lambda x: np.exp(0.5 * (peak - mean) ** 2 - 0.5 * (x - mean) ** 2), low, end, points=[peak], limit=200
    )
    expected = np.log(total) - 0.5 * np.log(2 * np.pi) + 0.5 * mean**2 - 0.5 * (peak - mean) ** 2
    assert log_between(mean, 1 / high) == pytest.approx(expected, abs=1e-7)
    generator = np.random.default_rng(0)
    draws = np.array([between(mean, high, generator) for _ in range(4000)])
    assert draws.min() > 0.0 and draws.max() < high
    assert stats.kstest(draws, stats.truncnorm(-mean, high - mean, loc=mean).cdf).pvalue > 1e-3


def of_positive_effects(seed=0, n=100, p=30):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    return x, 1.5 * x[:, 3] + x[:, 7] + 0.8 * x[:, 20] + 0.7 * rng.standard_normal(n) + 2.0


def fitted(x, y, **options):
    return SparseBayesRegressor(**{"positive": True} | SHORT | options).fit(x, y)


def test_where_the_constraint_does_not_matter_it_is_the_estimator_without():
    x, y = of_positive_effects()
    one, other = fitted(x, y, target_ess=400.0), fitted(x, y, target_ess=400.0, positive=False)
    assert one.get_support(indices=True).tolist() == other.get_support(indices=True).tolist() == [3, 7, 20]
    assert one.coef_[[3, 7, 20]] == pytest.approx(other.coef_[[3, 7, 20]], abs=0.02)
    assert one.coef_std_[[3, 7, 20]] == pytest.approx(other.coef_std_[[3, 7, 20]], rel=0.15)
    assert one.sigma_ == pytest.approx(other.sigma_, rel=0.05) and one.intercept_ == pytest.approx(2.0, abs=0.2)


def test_mixtures_of_spectra_with_little_noise():
    """Five of sixty spectra that look alike: odds are far beyond the largest number when one of them is missing."""
    generator, place = np.random.default_rng(0), np.linspace(0, 1, 200)
    shapes = [(generator.uniform(0.2, 1, 6), generator.random(6), generator.uniform(0.02, 0.1, 6)) for _ in range(60)]
    x = np.array([(a[:, None] * np.exp(-0.5 * ((place - c[:, None]) / w[:, None]) ** 2)).sum(0) for a, c, w in shapes])
    true = np.zeros(60)
    true[[7, 12, 19, 20, 25]] = [0.7, 0.3, 0.5, 0.9, 0.6]
    y = true @ x + 0.01 * generator.standard_normal(200)
    model = fitted(x.T, y, fit_intercept=False)
    assert model.get_support(indices=True).tolist() == [7, 12, 19, 20, 25]
    assert model.coef_ == pytest.approx(true, abs=0.02)
    assert model.sigma_samples_.max() < 0.02


def test_a_negative_effect_counts_as_none():
    x, y = of_positive_effects()
    model = fitted(x, y - 1.2 * x[:, 11])
    assert model.get_support(indices=True).tolist() == [3, 7, 20] and model.inclusion_probability_[11] < 0.01
    assert model.coef_samples_.min() == 0.0 and model.coef_.min() >= 0.0
    assert (model.coef_interval()[0] >= 0.0).all()
    assert fitted(x, y - 8 * x[:, 11], fit_intercept=False).inclusion_probability_[11] < 0.01


def test_sparse_and_single_precision_predictors_and_threads():
    x, y = of_positive_effects()
    thin = np.where(np.abs(x) > 1, x, 0.0)
    dense, more = fitted(thin, y), {"n_jobs": 2}
    assert np.array_equal(fitted(thin, y, **more).coef_samples_, dense.coef_samples_)
    for given in (sparse.csr_array(thin), sparse.csc_matrix(thin), thin.astype(np.float32)):
        model = fitted(given, y)
        assert model.coef_ == pytest.approx(dense.coef_, abs=0.02)
        assert model.inclusion_probability_ == pytest.approx(dense.inclusion_probability_, abs=0.05)
        assert model.coef_.min() >= 0


@pytest.mark.parametrize("n", [25, 100])
def test_weights_are_repetitions_and_parts_are_the_whole(n):
    """As rows, and as second moments."""
    x, y = of_positive_effects(n=n)
    weight = np.random.default_rng(4).integers(0, 4, n)
    pieces = fitted(x[:15], y[:15], max_steps=40_000).partial_fit(x[15:], y[15:])
    assert pieces.coef_ == pytest.approx(fitted(x, y).coef_, abs=0.02)
    one = SparseBayesRegressor(positive=True, **SHORT).fit(x, y, sample_weight=weight)
    two = fitted(np.repeat(x, weight, axis=0), np.repeat(y, weight))
    assert one.coef_ == pytest.approx(two.coef_, abs=0.02)
    assert one.inclusion_probability_ == pytest.approx(two.inclusion_probability_, abs=0.05)


def test_several_responses_and_many_predictors():
    x, y = of_positive_effects(p=1500)
    model = fitted(x, np.column_stack([y, -y]), max_steps=20_000)
    assert np.flatnonzero(model.inclusion_probability_[0] > 0.5).tolist() == [3, 7, 20]
    assert not (model.inclusion_probability_[1, [3, 7, 20]] > 0.1).any() and model.coef_.min() >= 0.0


def test_awkward_data():
    x, y = of_positive_effects()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(fitted(x[:2], y[:2]).predict(x)).all()
        counts = np.random.default_rng(0).integers(0, 5, size=(80, 3))
        assert fitted(counts, counts[:, 0]).score(counts, counts[:, 0]) > 0.99
        twins = np.column_stack([x, x[:, 3], 1e-9 * x[:, 3], -x[:, 3]])
        model = fitted(twins, y, target_ess=400.0, max_steps=20_000)
    assert model.inclusion_probability_[[3, 30, 31]] == pytest.approx(1 / 3, abs=0.1)
    assert model.inclusion_probability_[32] < 0.05
    assert sorted(sorted(found.members.tolist()) for found in model.credible_sets_) == [[3, 30, 31], [7], [20]]
    assert not fitted(x, np.full(100, 4.0)).coef_.any()


def test_what_is_refused():
    x, y = of_positive_effects()
    with pytest.raises(ValueError, match="positive must be True or False, got 'yes'"):
        SparseBayesRegressor(positive="yes").fit(x, y)
    with pytest.raises(ValueError, match="positive=True needs method='gibbs', got method='sgld'"):
        SparseBayesRegressor("sgld", positive=True).fit(x, y)
    with pytest.raises(ValueError, match="positive=True needs noise='normal', got noise='student'"):
        SparseBayesRegressor(positive=True, noise="student").fit(x, y)
    with pytest.raises(ValueError, match=r"positive=True is for predictors that are each on their own, got groups=\[0"):
        SparseBayesRegressor(positive=True, groups=[0] * 30).fit(x, y)
    y[5] += 1e3
    with pytest.warns(UserWarning, match="or choose noise='student' without positive"):
        fitted(x, y)
