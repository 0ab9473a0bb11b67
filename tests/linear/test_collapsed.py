"""Chains over models, against enumeration of all models, closed forms and direct formulas."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

from sparse_langevin.linear import collapsed, grouped, informed, model_state, normal, polygenic, rank_one, size_prior
from sparse_langevin.linear.collapsed import Chain, Draws
from sparse_langevin.linear.credible import credible_sets, summary
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.groups import Groups
from sparse_langevin.linear.normal import NormalRegression, Problem
from sparse_langevin.linear.polygenic import VALUES, Background
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.settling import settle
from sparse_langevin.linear.tridiagonal import weights_of_g


def correlated(n=60, p=9, seed=0):
    """Correlation 0.8^|i - j|, and a copy of a true predictor."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.8 ** abs(np.subtract.outer(range(p), range(p)))).T
    x[:, 4] = x[:, 1]
    return x, x[:, 1] + 0.5 * x[:, 7] + rng.standard_normal(n)


LABELS = np.array([3, 1, 0, 0, 1, 2, 1, 4, 3])  # groups of one to three predictors


def problem(x, y, small_effects=False, rest=0.0, groups=None):
    design = Design(x, x.mean(0), x.std(0), None)
    y = (y - y.mean()) / y.std()
    background = Background.of(design, y, float(len(y))) if small_effects else None
    return Problem(design, y, rest, float(len(y)), background=background, groups=groups)


def weighed(case, guests=None, labels=LABELS):
    """Return all models, and their posterior with h and g; at most ``guests`` of the fifth predictor and later ones."""
    z, y, p = case.design.columns(np.arange(case.design.size)), case.y, case.design.size
    n, target = len(y), NormalRegression(case).target
    log_h = polygenic.log_prior(case.size, p) if case.background is not None else np.zeros(1)
    labels = np.arange(p) if case.groups is None else labels
    models = [model for model in itertools.product([0, 1], repeat=labels.max() + 1)]
    models = [model for model in models if guests is None or sum(model[4:]) <= guests]
    table = np.empty((len(models), len(log_h), len(case.grid)))
    for i, model in enumerate(models):
        x = z[:, np.array(model, bool)[labels]]
        for j in range(len(log_h)):
            root = np.linalg.cholesky(np.eye(n) + VALUES[j] * z @ z.T / p)
            a, b = np.linalg.solve(root, x), np.linalg.solve(root, y)
            values, vectors = np.linalg.eigh(a.T @ a)
            wide = 1 + case.grid[:, None] * values
            rss = b @ b + case.rest - (case.grid[:, None] * (vectors.T @ (a.T @ b)) ** 2 / wide).sum(1)
            table[i, j] = case.prior[:, sum(model)] + log_h[j] - np.log(np.diag(root)).sum()
            table[i, j] -= 0.5 * np.log(wide).sum(1) + target.half * np.log(target.offset + rss)
    return np.array(models)[:, labels], np.exp(table - logsumexp(table))


def enumerated(case, guests=None):
    """Return the inclusion probabilities, and the posteriors of g and h, by a sum over all models, g and h."""
    models, weight = weighed(case, guests)
    return weight.sum((1, 2)) @ models, weight.sum((0, 1)), weight.sum((0, 2))


@pytest.fixture(params=["all in view", "guests", "groups"])
def view(request, monkeypatch):
    """All predictors in view; or few, the first four are anchors and three of the others guests; or groups."""
    if request.param == "guests":
        for name, value in (("ALL", 4), ("ANCHORS", 4), ("GUESTS", 3)):
            monkeypatch.setattr(collapsed, name, value)
        monkeypatch.setattr(Chain, "choose_anchors", lambda self, scores: None)
    return request.param


@pytest.mark.parametrize("small_effects", [False, True], ids=["sparse", "with small effects"])
def test_against_enumeration_of_all_models(small_effects, view):
    """Inclusion by the probabilities along the way and by the draws; g and h."""
    groups = Groups.of(LABELS) if view == "groups" else None
    case = problem(*correlated(), small_effects, groups=groups)
    inclusion, of_g, of_h = enumerated(case, 3 if view == "guests" else None)
    assert 0.1 < np.median(inclusion) < 0.9 if groups else 0.2 < inclusion[1] < 0.9
    if view == "all in view":
        assert inclusion[1] == pytest.approx(inclusion[4], abs=1e-9)  # copies
    plan = Plan(4, 1000, 250_000 if small_effects else 40_000, 0.0, 1e9)
    regressions = [NormalRegression(case) for _ in range(plan.chains)]
    found = settle(case, regressions, plan, np.arange(0, 60, 10), np.random.default_rng(1), 2)
    draws = found.draws
    assert np.abs(found.inclusion - inclusion).max() < 0.02
    assert np.abs((draws.effects != 0).mean(0) - inclusion).max() < 0.03
    log_g, p_g = np.log(case.grid), of_g
    error = 4 * np.sqrt(p_g @ log_g**2 - (p_g @ log_g) ** 2) / np.sqrt(found.diagnoses["the size of effects"].ess)
    assert np.log(draws.beside["g"]).mean() == pytest.approx(p_g @ log_g, abs=error)
    if small_effects:
        ess = found.diagnoses["the polygenic part"].ess
        zero = of_h[0]
        assert (draws.beside["h"] == 0).mean() == pytest.approx(zero, abs=4 * np.sqrt(zero * (1 - zero) / ess))


@pytest.mark.parametrize("small_effects", [False, True], ids=["sparse", "with small effects"])
def test_what_the_chain_knows_is_true(view, small_effects, monkeypatch):
    """After many changes, c, s and the inverse are those of the model, directly; and so is what a scan finds."""
    if view == "guests":
        monkeypatch.setattr(normal, "ROTATED", 0.0)
        monkeypatch.setattr(model_state, "SPARE", 1)
        monkeypatch.setattr("sparse_langevin.linear.groups.MOST", 4)  # columns are forgotten
    x, y = correlated(p=12)
    labels = np.array([*LABELS, 1, 2, 5])
    groups = Groups.of(labels) if view == "groups" else None
    case = replace(problem(x, y, small_effects, groups=groups), rest=3.0)
    chain = Chain(NormalRegression(case), np.random.default_rng(3))
    chain.burn_in(2000)
    while not 2 < chain.state.integers[model_state.SIZE] < 12:
        chain.burn_in(10)
    state, z, members = chain.state, case.design.columns(np.arange(12)), chain.regression.target.members
    target = chain.regression.target
    rest = informed.weigh(target, state)
    places, g = state.model[: state.integers[model_state.SIZE]], case.grid[state.integers[model_state.G]]
    model = members[places]
    inside = np.isin(np.arange(12), model)
    without = np.eye(60) + VALUES[chain.regression.h] * z @ z.T / 12
    whole = np.linalg.inv(without + g * z[:, inside] @ z[:, inside].T)
    assert rest == pytest.approx(target.offset + 3.0 + case.y @ whole @ case.y, rel=1e-8)
    c, s = z.T @ whole @ case.y, np.einsum("ij,ik,kj->j", z, whole, z)
    seen = ~inside[members]
    np.testing.assert_allclose(state.c[seen], c[members[seen]], atol=1e-7)
    np.testing.assert_allclose(state.s[seen], s[members[seen]], atol=1e-6)
    for place, j in enumerate(model):
        others = z[:, [k for k in model if k != j]]
        p = np.linalg.inv(without + g * others @ others.T)
        own = state.inverse[place, place]
        known = state.mean[place] / own, 1 / own - 1 / g
        assert known == pytest.approx([z[:, j] @ p @ case.y, z[:, j] @ p @ z[:, j]], rel=1e-6)
    wide = 1 + g * s
    expected = -0.5 * np.log(wide) - target.half * np.log(1 - g * c**2 / wide / rest)
    np.testing.assert_allclose(chain.regression.scan(state), expected, atol=1e-6)
    if groups:
        assert np.isin(labels, labels[model]).tolist() == inside.tolist()
        informed.rates(target, state, rest)
        compare_groups(case, state, [members[i:end] for i, end in enumerate(target.ends) if end], without, rest)


def compare_groups(case, state, groups, without, rest):
    """Matrices and odds of groups against those of models with and without the group, directly."""
    z, index, at = case.design.columns(np.arange(12)), state.integers[model_state.G], 0
    order, g = np.concatenate(groups), case.grid[index]
    model = order[state.model[: state.integers[model_state.SIZE]]]

    def variance(inside):
        return without + g * z[:, inside] @ z[:, inside].T

    def log_density(inside):
        left = 0.01 + 3.0 + case.y @ np.linalg.solve(variance(inside), case.y)
        prior = case.prior[index, sum(group[0] in inside for group in groups)]
        return prior - 0.5 * np.linalg.slogdet(variance(inside))[1] - 0.5 * case.size * np.log(left)

    for group in groups:
        first, size = int(np.flatnonzero(order == group[0])[0]), len(group)
        rest_of_model = np.setdiff1d(model, group)
        log_odds = log_density(np.append(rest_of_model, group)) - log_density(rest_of_model)
        assert np.log(state.odds[first]) == pytest.approx(log_odds, abs=1e-6)
        assert not state.odds[first + 1 : first + size].any()
        if group[0] not in model:
            expected = z[:, group].T @ np.linalg.solve(variance(model), z[:, group])
            np.testing.assert_allclose(state.blocks[at : at + size**2].reshape(size, size), expected, atol=1e-6)
        at += size**2


def test_sums_do_not_depend_on_where_arrays_lie():
    """Loops over arrays side by side in memory may be compiled in another way than over others."""
    generator, p, found = np.random.default_rng(0), 512, set()
    values = {name: generator.random(p) for name in ("c", "s", "odds", "rate")}
    empty = model_state.initial_state(p, 4, 0, 0)
    for names, gap in itertools.product(itertools.permutations(values), (0, 2, 700)):
        memory = np.zeros(4 * (p + gap))
        arrays = {name: memory[i * (p + gap) :][:p] for i, name in enumerate(names)}
        for name, array in arrays.items():
            array[:] = values[name]
        found.add(informed.all_rates(empty._replace(**arrays), 0, 384, 0.3, 50.0, 30.0, -3.0, 1 / p))
    assert len(found) == 1


def test_copies_keep_their_digits():
    """What a copy of a predictor in the model adds is 1/(n g) of it, however often it has come and gone."""
    generator, n, g = np.random.default_rng(0), 60, 1e8 / 60
    x = generator.standard_normal((n, 6))
    x[:, 4:] = x[:, 1:2]
    regression = NormalRegression(problem(x, x[:, 1] + 1e-3 * x[:, 0]))
    regression.look_at(np.arange(6), 6)
    target = regression.target._replace(grid=np.full_like(regression.target.grid, g))
    state = model_state.initial_state(6, 6, 0, 0)
    informed.settle(target, state, np.array([1]), generator)
    for _ in range(50):
        for j in (2, 4):
            rank_one.include(target, state, j)
        for j in (4, 2):
            rank_one.exclude(target, state, j)
    assert state.s[4:] == pytest.approx(n / (1 + n * g), rel=1e-5)
    assert state.c[4:] == pytest.approx(target.product[1] / (1 + n * g), rel=1e-5)


def test_rounding_makes_no_predictor_certain():
    """No s is negative, and no c^2 beyond s R: what says so by rounding has the odds of the prior."""
    odds = np.empty(3)
    s, c = np.array([-1e-9, 1e-9, 0.0]), np.array([1e-3, 1e-3, 1.0])
    informed.fill_odds(c, s, odds, 1e6, 1e6 / 0.01, 5e3, math.log(0.1))
    np.testing.assert_allclose(odds, [0.1, 0.1 * (1 + 1e-3) ** (5e3 - 0.5), 0.1], rtol=1e-4)


def test_rounding_takes_no_odds_from_a_group():
    """I + gS has no eigenvalue below 1."""
    found = grouped.log_ratio(np.zeros(2), np.array([[1.0, 1.0], [1.0, 1.0 - 1e-6]]), 1e7, 1.0, 30.0)
    assert found == pytest.approx(-0.5 * math.log(1 + 1e7))


def test_chains_that_have_become_slow_space_their_draws_anew():
    chain = Chain(NormalRegression(problem(*correlated())), np.random.default_rng(0))
    chain.burn_in(200)
    chain.state.reals[model_state.SPACING] *= 1e5
    assert len(chain.draw(100, 5)) > 20
    chain.state.reals[model_state.TIME] = np.nan
    with pytest.raises(FloatingPointError, match="steps a chain over models stays nan in a state"):
        chain.draw(100, 5)


def test_draws_given_the_model():
    """With one predictor, whose effect is certain: sigma and beta against their closed form, a normal-gamma."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 1))
    case = problem(x, 3 * x[:, 0] + rng.standard_normal(40), rest=2.0)
    chain = Chain(NormalRegression(case), rng)
    chain.burn_in(500)
    draws = chain.draw(4000, 3)
    beta = draws.effects.toarray()[:, 0]
    target, z = chain.regression.target, case.design.columns(np.array([0]))[:, 0]
    sigma, own = draws.beside["sigma"], 1 / (1 / draws.beside["g"] + z @ z)
    mean = own * (z @ case.y)
    rest = target.offset + case.y @ case.y + 2.0 - mean * (z @ case.y)
    scores = (beta - mean) / (sigma * np.sqrt(own))
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    assert stats.kstest(rest / sigma**2, stats.chi2(2 * target.half).cdf).pvalue > 1e-3


def test_small_effects_are_those_of_ridge_regression(monkeypatch):
    """Given h and sigma, and no other effects, b is normal with the mean of a ridge regression."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 50))
    case = problem(x, x[:, :10].sum(1) + rng.standard_normal(30), True)
    z, h, sigma = case.design.columns(np.arange(50)), 6, 0.7
    many = np.full(4000, sigma)
    monkeypatch.setattr(polygenic, "WIDTH", 16)
    index = np.full(4000, h)
    small = case.background.draw(case.design, np.repeat(case.y[:, None], 4000, axis=1), many, index, rng)
    draws = np.concatenate([block for _, block in small.blocks()], axis=1)
    precision = (z.T @ z + 50 / VALUES[h] * np.eye(50)) / sigma**2
    mean = np.linalg.solve(precision, z.T @ case.y / sigma**2)
    covariance = np.linalg.inv(precision)
    error = np.sqrt(np.diag(covariance) / 4000)
    assert np.abs((draws.mean(0) - mean) / error).max() < 4.5
    np.testing.assert_allclose(case.background.mean(case.design, case.y, h), mean, atol=1e-10)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=6 * covariance.max() / np.sqrt(4000))
    expected = case.y - np.linalg.solve(np.eye(30) + VALUES[h] * z @ z.T / 50, case.y)
    np.testing.assert_allclose(z @ mean, expected, atol=1e-10)
    nothing = Draws(sparse.csr_array((1, 50)), {"h": np.array([h])}, np.zeros((1, 50)), np.ones(1, int))
    np.testing.assert_allclose(case.fitted(nothing, np.arange(30))[0], expected, atol=1e-10)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 9, 40])
def test_the_probability_of_g_given_a_model(k):
    """Against determinants and solutions, with copies among the predictors."""
    rng = np.random.default_rng(k)
    x, grid, half = rng.standard_normal((60, k)), size_prior.g_grid(), 30.0
    x[:, 2:4] = x[:, :1]
    y, prior = x.sum(1) + rng.standard_normal(60), rng.standard_normal(len(grid))
    gram, product, rest = x.T @ x, x.T @ y, y @ y + 0.01
    expected = [
        of_g
        - 0.5 * np.linalg.slogdet(np.eye(k) + g * gram)[1]
        - half * np.log(rest - product @ np.linalg.solve(np.eye(k) / g + gram, product))
        for g, of_g in zip(grid, prior, strict=True)
    ]
    found = weights_of_g(gram, product, grid, prior, rest, half, 1e-3)
    assert found == pytest.approx(np.array(expected), abs=1e-6)


def test_the_prior_is_a_sum_over_delta():
    """Against the double integral, for models of ten predictors."""
    grid, p, n = size_prior.g_grid(), 10, 50.0
    table = size_prior.table(p, n, 10, grid)
    delta = np.exp(np.linspace(np.log(size_prior.FEWEST / p), 0, 20_001)[:-1])
    i = len(grid) // 2 + 3
    density = stats.logistic.pdf(np.log(grid[i] * p * delta)) * np.exp(-size_prior.RESOLVED / (n * grid[i]))
    density /= 1 + (p * delta / (size_prior.USUAL * n)) ** 2
    for k, m in ((1, 2), (2, 5)):
        ratio = (density * delta**m * (1 - delta) ** (p - m)).sum() / (
            density * delta**k * (1 - delta) ** (p - k)
        ).sum()
        assert table[i, m] - table[i, k] == pytest.approx(np.log(ratio), abs=1e-3)
    models = np.array([math.comb(p, k) for k in range(11)])
    assert np.exp(table[:, 0]).sum() == pytest.approx((models[1:] * np.exp(table[:, 1:])).sum())


@pytest.mark.parametrize("kind", ["float32", "csc"])
def test_a_design_copies_nothing_and_changes_nothing(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 7)) + 3.0
    x[:, 2] = 5.0
    x[x < 2.5] = 0.0
    given = x.astype(np.float32) if kind == "float32" else sparse.csc_array(x)
    used = np.array([0, 1, 3, 4, 5, 6])
    design = Design(given, x.mean(0)[used], x.std(0)[used], used)
    z = ((x - x.mean(0)) / np.where(x.std(0), x.std(0), 1))[:, used]
    v, b = rng.standard_normal((20, 2)), rng.standard_normal(6)
    np.testing.assert_allclose(design.products(v), z.T @ v, atol=1e-4)
    np.testing.assert_allclose(design.products(v[:, 0]), z.T @ v[:, 0], atol=1e-4)
    np.testing.assert_allclose(design.combine(b), z @ b, atol=1e-4)
    some = np.array([[0.0, 2.0, 0.0, -1.0, 0.5, 0.0], np.zeros(6)])
    np.testing.assert_allclose(design.sums(sparse.csr_array(some)), some @ z.T, atol=1e-4)
    np.testing.assert_allclose(design.columns(np.array([1, 4])), z[:, [1, 4]], atol=1e-4)
    assert design.size == 6 and design.columns(np.array([], int)).shape == (20, 0)


def test_credible_sets():
    """Two near copies share one effect, a third predictor has another, and a fourth, unrelated one stays below."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5))
    x[:, 1] = x[:, 0] + 0.1 * rng.standard_normal(200)
    design = Design(x, x.mean(0), x.std(0), None)
    draws = np.zeros((1000, 5))
    first = rng.random(1000) < 0.6
    draws[first, 0], draws[~first, 1], draws[:, 2], draws[:400, 3] = 1.0, 1.0, -2.0, 0.5
    effects = sparse.csr_array(draws)
    one, two = credible_sets(effects, (draws != 0).mean(0), design)
    assert one.members.tolist() == [2] and one.probability == 1.0 and one.purity == 1.0
    assert two.members.tolist() == [0, 1] and two.representative == 0 and two.probability == 1.0
    assert two.purity == pytest.approx(np.corrcoef(x[:, 0], x[:, 1])[0, 1])
    assert len(credible_sets(effects, (draws != 0).mean(0), design, purity=0.9999)) == 1
    fitted = (x - x.mean(0)) @ np.array([1.0, 1.0, -0.1, 0.0, 0.0])
    none = np.empty(0, int)
    assert (
        summary(design, fitted, none).tolist() in ([0], [1]) and len(summary(design, fitted, none, share=0.9999)) == 3
    )
    assert summary(design, fitted, np.array([2])).tolist() in ([0], [1])
    assert not len(summary(design, fitted, np.array([0])))
