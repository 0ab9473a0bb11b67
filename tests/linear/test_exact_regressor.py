"""``SparseBayesRegressor("gibbs")``: scikit-learn's checks, awkward data, and what Langevin chains get wrong."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

from sparse_langevin import SparseBayesClassifier, SparseBayesRegressor
from sparse_langevin.linear import base
from sparse_langevin.linear.choices import chosen, most_probable
from sparse_langevin.linear.credible import CredibleSet

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 100))
Y = 2.0 * X[:, 3] - 1.5 * X[:, 40] + 3.0 + 0.5 * rng.standard_normal(60)
QUICK = {"burn_in": 500, "max_steps": 1000, "n_chains": 2, "target_ess": 10.0, "target_rhat": 2.0}


def exact(**options):
    return SparseBayesRegressor("gibbs", **{"random_state": 0} | options)


def spectra(seed, n=60, p=200):
    """Neighbouring channels that hardly differ, and a response that depends on the heights of two peaks."""
    generator = np.random.default_rng(seed)
    place = np.linspace(0, 1, p)
    peaks = [np.exp(-0.5 * ((place - c) / 0.07) ** 2) for c in (0.1, 0.3, 0.5, 0.7, 0.9)]
    heights = generator.standard_normal((n, 5))
    x = heights @ np.array(peaks) + 0.1 * generator.standard_normal((n, p))
    return x, heights[:, 1] - heights[:, 3] + 0.2 * generator.standard_normal(n)


def test_scikit_learn_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(SparseBayesRegressor("gibbs", **QUICK), on_skip=None)
    skipped = {r["check_name"]: str(r["exception"]) for r in results if r["status"] != "passed"}
    assert set(skipped) <= {"check_array_api_input"}, skipped


@pytest.fixture(scope="module")
def fitted():
    return exact().fit(X, Y)


def test_attributes(fitted):
    assert list(fitted.get_support(indices=True)) == [3, 40]
    assert fitted.coef_[[3, 40]] == pytest.approx([2.0, -1.5], abs=0.3)
    assert fitted.intercept_ == pytest.approx(3.0, abs=0.3) and fitted.sigma_ == pytest.approx(0.5, abs=0.15)
    draws = fitted.coef_samples_
    assert (np.abs(draws.mean(0) - fitted.coef_) < 5 * fitted.coef_std_ / np.sqrt(len(draws))).all()
    assert draws.std(0) == pytest.approx(fitted.coef_std_)
    assert fitted.rhat_ <= 1.02 and fitted.ess_ >= 400
    assert set(fitted.diagnostics_) >= {"predictions", "sigma", "the number of effects"}
    assert sorted(found.members.tolist() for found in fitted.credible_sets_) == [[3], [40]]
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))


def test_intervals(fitted):
    new = rng.standard_normal((4000, 100))
    true = 2.0 * new[:, 3] - 1.5 * new[:, 40] + 3.0 + 0.5 * rng.standard_normal(4000)
    for level in (0.5, 0.9):
        lower, upper = fitted.predict_interval(new, level)
        assert np.mean((lower < true) & (true < upper)) == pytest.approx(level, abs=0.07)
    lower, upper = fitted.coef_interval(0.95)
    assert lower[3] < 2.0 < upper[3] and lower[40] < -1.5 < upper[40]


@pytest.mark.parametrize("positive", [False, True])
def test_intervals_of_effects_if_there_is_one(positive):
    """Those of the draws whose model has the predictor, with small effects of all beside them or without."""
    x = np.column_stack([np.zeros(60), X])  # a predictor that is not used
    model = exact(max_steps=4000, target_ess=1.0, target_rhat=9.0, positive=positive).fit(x, Y)
    lower, upper = model.coef_interval(0.8, included=True)
    some = np.linspace(0, model.inclusion_samples_.shape[0] - 1, len(model.coef_samples_)).astype(int)
    present, draws = model.inclusion_samples_.toarray()[some].astype(bool), model.coef_samples_
    assert (np.count_nonzero(draws, axis=0) > present.sum(0)).any() != positive
    assert np.isnan(lower[~present.any(0)]).all() and np.isnan(lower[0])
    for j in np.flatnonzero(present.any(0)):
        assert [lower[j], upper[j]] == pytest.approx(np.quantile(draws[present[:, j], j], [0.1, 0.9]), abs=1e-12)
    with pytest.raises(ValueError, match="included=True needs draws of models: choose method='gibbs'"):
        SparseBayesRegressor("sgld", **QUICK).fit(X, Y).coef_interval(included=True)


def test_threads_kinds_of_matrices_and_units(fitted):
    for jobs in (2, -1):
        assert np.array_equal(exact(n_jobs=jobs).fit(X, Y).coef_samples_, fitted.coef_samples_)
    thin = np.where(np.abs(X) > 1, X, 0.0)
    y = 2.0 * thin[:, 3] - 1.5 * thin[:, 40] + 0.5 * rng.standard_normal(60)
    dense = exact().fit(thin, y)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        model = exact().fit(kind(thin), y)
        assert model.coef_ == pytest.approx(dense.coef_, abs=0.02)
        assert model.predict(kind(thin)) == pytest.approx(model.predict(thin))
    assert exact().fit(X.astype(np.float32), Y).coef_ == pytest.approx(fitted.coef_, abs=0.02)
    scale = 10.0 ** rng.integers(-6, 7, size=100)
    other = exact().fit(X * scale + 5 * scale, 1e6 * Y)
    assert other.coef_ * scale / 1e6 == pytest.approx(fitted.coef_, abs=0.02)


@pytest.mark.parametrize("groups", [None, np.arange(9) // 2])
@pytest.mark.parametrize(("n", "weight"), [(60, 1e8), (20_000, 1.0), (20, 1e4)])
def test_copies_of_predictors_without_noise(n, weight, groups):
    generator = np.random.default_rng(0)
    x = generator.standard_normal((n, 9))
    x[:, 4:] = x[:, :5]
    y = x[:, 1] + x[:, 3] if n > 60 else x[:, 1] + 1e-2 * generator.standard_normal(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = exact(**QUICK, groups=groups).fit(x, y, np.full(n, weight))
    np.testing.assert_allclose(model.predict(x), y, atol=0.05)
    assert model.inclusion_probability_[[1, 5]].max() > 0.3 and np.isfinite(model.coef_std_).all()


@pytest.mark.parametrize("groups", [None, np.arange(60) // 3])
def test_more_copies_than_rows(groups):
    generator = np.random.default_rng(3)
    x = np.tile(generator.standard_normal((20, 30)), 2)
    y = x[:, :3].sum(1) + 0.3 * generator.standard_normal(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = exact(**QUICK, groups=groups).fit(x, y, np.full(20, 1e4))
    assert np.isfinite(model.coef_std_).all() and model.score(x, y) > 0.9


def test_weights_of_less_than_one_observation():
    for model, y in ((exact(), Y), (SparseBayesClassifier(), Y > 3)):
        with pytest.raises(ValueError, match=r"sample_weight adds up to 0\.006, less than one observation"):
            model.fit(X, y, np.full(60, 1e-4))


@pytest.mark.parametrize("n", [100, 300])
def test_threads_of_linear_algebra_do_not_matter(n):
    generator = np.random.default_rng(1)
    x = generator.standard_normal((n, 200))
    y = x[:, :3].sum(1) + generator.standard_normal(n)

    def numbers(threads):
        with threadpool_limits(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = exact(**QUICK | {"max_steps": 200}).fit(x, y)
            return np.concatenate([model.coef_, *model.coef_interval(), *model.predict(x, return_std=True)])

    np.testing.assert_array_equal(numbers(1), numbers(2))


@pytest.mark.parametrize("sizes", [(20, 30), (40, 30), (150, 150)])
def test_partial_fit_after_fit_is_fit_on_all(sizes):
    generator = np.random.default_rng(7)
    x, y = generator.standard_normal((300, 60)) + 3.0, generator.standard_normal(300)
    y += x[:, 7]
    n = sum(sizes)
    exact = partial(SparseBayesRegressor, "gibbs", random_state=0, target_rhat=1.1, target_ess=100.0)
    pieces = exact().fit(x[: sizes[0]], y[: sizes[0]]).partial_fit(x[sizes[0] : n], y[sizes[0] : n])
    whole = exact().fit(x[:n], y[:n])
    assert pieces.coef_ == pytest.approx(whole.coef_, abs=0.02)
    assert pieces.inclusion_probability_ == pytest.approx(whole.inclusion_probability_, abs=0.05)


def test_awkward_data():
    constant = X.copy()
    constant[:, 5] = 7.0
    model = exact().fit(constant, Y)
    assert model.coef_[5] == 0 and model.inclusion_probability_[5] == 0
    assert list(model.get_support(indices=True)) == [3, 40]
    assert exact().fit(X[:, 3:4], Y).coef_[0] == pytest.approx(2.0, abs=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(exact().fit(X[:2], Y[:2]).predict(X)).all()
        counts = rng.integers(0, 5, size=(80, 3))
        assert exact().fit(counts, counts[:, 0]).score(counts, counts[:, 0]) > 0.99
    flat = exact().fit(X, np.full(60, 4.0))
    assert np.all(flat.predict(X) == 4.0) and flat.sigma_ == 0 and not flat.inclusion_probability_.any()
    assert exact().fit(np.ones((5, 2)), Y[:5]).predict([[1.0, 1.0]]) == pytest.approx(Y[:5].mean())


def test_copies_of_a_predictor_share_its_probability_whatever_the_seed():
    """Before, they had 0.60 and 0.76, or 0.83 and 0.59."""
    twins = np.column_stack([X, X[:, 3], X[:, 3] + 1e-3 * rng.standard_normal(60)])
    found = [exact(random_state=seed).fit(twins, Y) for seed in range(3)]
    for model in found:
        shares = model.inclusion_probability_[[3, 100, 101]]
        assert np.ptp(shares) < 0.06 and shares.max() < 0.6
        (group,) = [g for g in model.credible_sets_ if g.representative in (3, 100, 101)]
        assert set(group.members) == {3, 100, 101} and group.purity > 0.99 and group.probability >= 0.95
        assert model.get_support().sum() == 2
    spread = np.ptp([model.inclusion_probability_ for model in found], axis=0)
    assert spread.max() < 0.05


def test_many_small_effects():
    """All 400 predictors have an effect: as good as ridge regression."""
    generator = np.random.default_rng(1)
    x, new, beta = (generator.standard_normal(shape) for shape in ((150, 400), (2000, 400), 400))
    y = x @ beta / 20 + 0.7 * generator.standard_normal(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = exact().fit(x, y)
    ridge = RidgeCV(np.logspace(0, 4, 30)).fit(x, y)
    ours, theirs = (np.mean((m.predict(new) - new @ beta / 20) ** 2) for m in (model, ridge))
    assert ours < 1.1 * theirs


def test_a_pipeline_where_no_predictor_stands_out(monkeypatch):
    x, y = spectra(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="more predictors matter")
        pipeline = make_pipeline(exact(max_steps=4000), LinearRegression())
        assert cross_val_score(pipeline, x, y, cv=3).min() > 0.8
        monkeypatch.setattr(base, "credible_sets", lambda *given, **options: [])
        model = exact(max_steps=1000, threshold=0.5).fit(x, y)
        assert model.inclusion_probability_.max() < 0.5 and model.score(x, y) > 0.9
        with pytest.warns(UserWarning, match="more predictors matter than can be named"):
            assert 1 <= model.get_support().sum() <= 10
        assert not model.set_params(selection="threshold").get_support().any()
        warnings.simplefilter("ignore", UserWarning)
        assert (
            cross_val_score(make_pipeline(exact(max_steps=1000, threshold=0.5), LinearRegression()), x, y, cv=3).min()
            > 0.8
        )


def test_credible_sets_of_spectra():
    """Two peaks decide, and no single channel does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = exact().fit(*spectra(4))
    one, two = sorted(model.credible_sets_, key=lambda found: found.representative)
    assert np.abs(one.members - 60).max() < 20 and np.abs(two.members - 140).max() < 20
    assert min(one.purity, two.purity) > 0.8 and max(model.inclusion_probability_) < 0.95


@pytest.mark.parametrize("selection", ["fdr", "best", "sets"])
def test_ways_to_choose(fitted, selection):
    assert list(clone(fitted).set_params(selection=selection).fit(X, Y).get_support(indices=True)) == [3, 40]


@pytest.mark.parametrize(("method", "limit"), [("gibbs", 0.25), ("psgld-sa", 0.5)])
def test_the_default_threshold(method, limit):
    quick = {"max_steps": 200, "target_rhat": 9.0, "target_ess": 1.0, "random_state": 0}
    model = SparseBayesRegressor(method, selection="threshold", **quick).fit(X, Y)
    model.inclusion_probability_[:2] = limit, limit + 0.01
    assert list(model.get_support()[:2]) == [False, True]
    assert model.set_params(threshold=0.9).get_support()[:2].sum() == 0


def test_weights_under_heavy_tails_are_repetitions_even_if_rows_differ_by_a_hair():
    """Exact repetitions are put together, others are not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 5))
    y = x[:, 0] + 0.8 * rng.standard_normal(60)
    many = np.tile(x, (5, 1)) + 1e-9 * rng.standard_normal((300, 5))
    weighted = SparseBayesRegressor(noise="student", random_state=0).fit(x, y, sample_weight=np.full(60, 5.0))
    repeated = SparseBayesRegressor(noise="student", random_state=0).fit(many, np.tile(y, 5))
    assert weighted.sigma_ == pytest.approx(repeated.sigma_, rel=0.04)
    assert weighted.coef_std_[0] == pytest.approx(repeated.coef_std_[0], rel=0.15)
    assert weighted.coef_[0] == pytest.approx(repeated.coef_[0], abs=0.3 * repeated.coef_std_[0])


@pytest.mark.parametrize("kind", ["normal", "student", "classes"])
def test_credible_sets_have_the_correlations_of_the_weighted_rows(kind):
    """Two copies, on all rows that count."""
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((120, 4)), np.repeat([2.0, 1e-4], [80, 40])
    x[:80, 1] = x[:80, 0] + 0.003 * rng.standard_normal(80)
    y = (6 if kind == "classes" else 2) * x[:, 0] + rng.standard_normal(120)
    model = SparseBayesClassifier(random_state=0) if kind == "classes" else exact(noise=kind)
    model.fit(x, y > 0 if kind == "classes" else y, sample_weight=weight)
    assert [sorted(found.members) for found in model.credible_sets_] == [[0, 1]]
    assert model.credible_sets_[0].purity > 0.99


def test_the_threshold_of_random_batches_is_that_of_langevin_methods():
    assert (SparseBayesClassifier(batch_size=10)._threshold, SparseBayesClassifier()._threshold) == (0.5, 0.25)


def test_groups_are_chosen_as_a_whole():
    """Each counts as one effect: 0.05, 0.4 and 0.9 false ones are expected."""
    inclusion, labels = np.array([0.65, 0.1, 0.95, 0.65, 0.1, 0.95, 0.95]), np.array([0, 1, 2, 0, 1, 2, 2])
    sets = [CredibleSet(np.array([2, 5, 6]), 0.95, 0.1)]
    whole, single = [0, 2, 3, 5, 6], [2, 5, 6]
    for selection, fdr, pfer, expected in (
        ("pfer", 0.1, 0.5, whole),
        ("pfer", 0.1, 0.1, single),
        ("fdr", 0.25, 1.0, whole),
        ("fdr", 0.1, 1.0, single),
        ("sets", 0.1, 1.0, single),
    ):
        assert list(np.flatnonzero(chosen(selection, inclusion, 0.5, fdr, pfer, None, sets, labels))) == expected


def test_a_group_may_be_larger_than_the_number_of_observations():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 60))
    y = x[:, :50] @ rng.standard_normal(50) / 5 + 0.1 * rng.standard_normal(40)
    labels = np.where(np.arange(60) < 50, 0, np.arange(60))
    for noise in ("normal", "student"):
        inclusion = exact(groups=labels, noise=noise).fit(x, y).inclusion_probability_
        assert inclusion[0] > 0.95 and inclusion[50:].max() < 0.6
    x = rng.standard_normal((10, 1001))
    with pytest.raises(ValueError, match=r"at most 1000 predictors, but 1001 have the label np\.int64\(7\)"):
        exact(groups=np.full(1001, 7)).fit(x, x[:, 0])


def test_two_effects_in_one_credible_set_are_both_chosen():
    """The second one of four rows out of ten is no alternative to the first; the third one always is."""
    present = sparse.csr_array(np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 0]] * 2))
    inclusion = np.asarray(present.mean(0)).ravel()
    group = CredibleSet(np.array([0, 1, 2]), 1.0, 0.6)
    found = chosen("auto", inclusion, 0.15, 0.1, 1.0, present, [group])
    assert inclusion == pytest.approx([0.8, 0.4, 0.2]) and list(found) == [True, True, False]


@pytest.mark.parametrize(
    ("limit", "expected"),  # expected shares 0.01, 0.03, 0.12, 0.29; numbers 0.01, 0.06, 0.36, 1.16
    [
        ({"share": 0.1}, [1, 3]),
        ({"share": 0.15}, [1, 2, 3]),
        ({"share": 0.001}, []),
        ({"number": 0.05}, [1]),
        ({"number": 1.0}, [1, 2, 3]),
        ({"number": 1.2}, [0, 1, 2, 3]),
    ],
)
def test_false_choices_are_those_that_the_probabilities_say(limit, expected):
    inclusion = np.array([0.2, 0.99, 0.7, 0.95, 0.0])
    assert np.flatnonzero(most_probable(inclusion, **limit)).tolist() == expected


def test_one_false_choice_can_be_expected(fitted):
    """The estimator passes its limit on."""
    few, many = (clone(fitted).set_params(selection="pfer", pfer=pfer).fit(X, Y) for pfer in (0.1, 5.0))
    for model in (few, many):
        false = 1 - model.inclusion_probability_
        assert false[model.get_support()].sum() <= model.pfer < false[model.get_support()].sum() + 1
    assert few.get_support().sum() == 2 < many.get_support().sum()


def test_noise_with_heavy_tails():
    """One observation out of sixty is off by a thousand."""
    y = Y.copy()
    y[5] += 1e3
    with pytest.warns(UserWarning, match=r"observation 5 lies 7\.\d standard deviations"):
        assert not exact().fit(X, y).get_support().any()
    robust = exact(noise="student").fit(X, y)
    assert list(robust.get_support(indices=True)) == [3, 40]
    assert robust.coef_[[3, 40]] == pytest.approx([2.0, -1.5], abs=0.3)
    lower, upper = robust.predict_interval(X, 0.9)
    assert 0.8 <= np.mean((lower < Y) & (upper > Y)) <= 1.0


def test_weights_are_repetitions():
    weight = np.random.default_rng(4).integers(0, 4, 60)
    order = np.random.default_rng(5).permutation(weight.sum())
    short = exact(max_steps=2000, target_ess=1.0, target_rhat=9.0)
    weighted = clone(short).fit(X, Y, sample_weight=weight)
    repeated = clone(short).fit(np.repeat(X, weight, axis=0)[order], np.repeat(Y, weight)[order])
    assert np.array_equal(weighted.coef_samples_, repeated.coef_samples_)
    with pytest.raises(ValueError, match=r"sample_weight must be finite and at least 0.*-1"):
        exact().fit(X, Y, sample_weight=np.full(60, -1.0))


def test_without_an_intercept():
    model = exact(fit_intercept=False).fit(X, Y - 3.0)
    assert model.intercept_ == 0 and not model.intercept_samples_.any()
    assert model.coef_[[3, 40]] == pytest.approx([2.0, -1.5], abs=0.3)
    with pytest.raises(ValueError, match="fit_intercept=False needs method='gibbs'"):
        SparseBayesRegressor("psgld-sa", fit_intercept=False).fit(X, Y)


def test_parameters_of_other_methods_are_not_ignored_silently():
    with pytest.warns(UserWarning, match="does not use expected_effects and v0"):
        exact(expected_effects=3.0, v0=0.1, **QUICK).fit(X, Y)
    with pytest.raises(ValueError, match=r"noise='student' needs method='gibbs', got method='sgld'"):
        SparseBayesRegressor("sgld", noise="student").fit(X, Y)
    with pytest.raises(ValueError, match="selection='best' needs draws of models"):
        SparseBayesRegressor("psgld-sa", selection="best", **QUICK).fit(X, Y).get_support()


def test_many_predictors_of_which_few_are_in_view():
    generator = np.random.default_rng(8)
    x = generator.standard_normal((80, 3000)).astype(np.float32)
    y = 2 * x[:, 2900] - 2 * x[:, 1500] + generator.standard_normal(80)
    model = exact().fit(x, y)
    assert list(model.get_support(indices=True)) == [1500, 2900]
    again = exact(random_state=1).fit(x, y)
    assert np.abs(model.inclusion_probability_ - again.inclusion_probability_).max() < 0.05


def test_noise_alone_selects_nothing():
    y = np.random.default_rng(3).standard_normal(60)
    model = exact().fit(X, y)
    assert model.get_support().sum() == 0 and model.inclusion_probability_.sum() < 3


def test_what_has_not_settled_is_named():
    with pytest.warns(ConvergenceWarning, match=r"4 chains have not settled\. predictions: R-hat") as seen:
        exact(burn_in=100, max_steps=100).fit(X, Y)
    assert seen[0].filename == __file__
    with pytest.raises(ValueError, match=r"no method 'lasso': choose one of sgld, psgld, sgld-sa, psgld-sa, gibbs$"):
        SparseBayesRegressor("lasso").fit(X, Y)


def test_classes():
    generator = np.random.default_rng(9)
    x = generator.standard_normal((150, 60))
    y = np.where(2 * x[:, 3] - 2 * x[:, 40] + generator.logistic(size=150) > 0, "ill", "well")
    model = SparseBayesClassifier(threshold=0.5, random_state=0).fit(x, y)
    assert list(model.get_support(indices=True)) == [3, 40]
    assert [group.members.tolist() for group in model.credible_sets_] in ([[3], [40]], [[40], [3]])
    assert model.coef_[0, [3, 40]] == pytest.approx([-2.0, 2.0], abs=0.8)  # of "well", the second one
    lower, upper = model.coef_interval()
    assert lower.shape == (1, 60) and lower[0, 3] < model.coef_[0, 3] < upper[0, 3]
    assert np.exp(model.predict_log_proba(x)) == pytest.approx(model.predict_proba(x))
    thin = SparseBayesClassifier(random_state=0).fit(sparse.csr_matrix(x), y)
    assert thin.coef_ == pytest.approx(model.coef_, abs=0.1)
    with pytest.warns(FutureWarning, match="has no minibatches: method='psgld-sa' is used instead"):
        SparseBayesClassifier(batch_size=50, random_state=0, **QUICK | {"target_rhat": 9.0, "target_ess": 0.1}).fit(
            x, y
        )


def test_weights_of_classes():
    generator = np.random.default_rng(10)
    x = generator.standard_normal((200, 3))
    y = (x[:, 0] + generator.logistic(size=200) > 2.5).astype(int)
    plain = SparseBayesClassifier(random_state=0).fit(x, y)
    balanced = SparseBayesClassifier(random_state=0, class_weight="balanced").fit(x, y)
    assert plain.predict_proba(x)[:, 1].mean() == pytest.approx(y.mean(), abs=0.03)
    assert balanced.predict_proba(x)[:, 1].mean() == pytest.approx(0.5, abs=0.12)
    chosen = {0: 1.0, 1: 3.0}
    weighted = SparseBayesClassifier(random_state=0, class_weight=chosen).fit(x, y)
    same = SparseBayesClassifier(random_state=0).fit(x, y, sample_weight=np.where(y, 3.0, 1.0))
    assert np.array_equal(weighted.coef_samples_, same.coef_samples_)


def test_groups():
    """A category in three columns, an unrelated group, and numbers: in or out together, each set with its name."""
    generator = np.random.default_rng(5)
    kind = generator.integers(0, 4, 120)
    x = np.column_stack([kind == 1, kind == 2, kind == 3, generator.standard_normal((120, 9))]).astype(float)
    y = np.array([0.0, 1.2, -1.2, 0.1])[kind] + 0.7 * x[:, 5] + 0.7 * generator.standard_normal(120)
    labels = ["kind"] * 3 + ["noise"] * 2 + [f"x{j}" for j in range(5, 12)]
    model = exact(groups=labels, threshold=0.5).fit(x, y)
    assert model.get_support(indices=True).tolist() == [0, 1, 2, 5]
    inside = model.inclusion_samples_.toarray()
    assert (inside[:, 0] == inside[:, 2]).all() and (inside[:, 3] == inside[:, 4]).all()
    assert np.ptp(model.inclusion_probability_[:3]) < 1e-12 and model.inclusion_probability_[3] < 0.2
    sets = {tuple(sorted(found.members.tolist())) for found in model.credible_sets_}
    assert sets == {(0, 1, 2), (5,)}
    alone = exact().fit(x, y)
    assert alone.inclusion_probability_[2] < 0.5  # its effect is small: only the others carry it
    constant = np.column_stack([x, np.ones(120)])
    again = exact(groups=[*labels, "kind"]).fit(constant, y)
    assert again.inclusion_probability_[:12] == pytest.approx(model.inclusion_probability_, abs=0.03)
    labelled = SparseBayesClassifier(groups=labels, random_state=0).fit(x, y > 0.0)
    assert labelled.inclusion_probability_[[0, 1, 2, 5]].min() > 0.95 and labelled.inclusion_probability_[3] < 0.3
    heavy = exact(groups=labels, noise="student", threshold=0.5).fit(x, y)
    assert heavy.get_support(indices=True).tolist() == [0, 1, 2, 5]


def test_bad_groups():
    with pytest.raises(ValueError, match=r"one label for each of the 100 predictors.*shape \(3,\)"):
        exact(groups=[0, 0, 1]).fit(X, Y)
    with pytest.raises(ValueError, match="groups need method='gibbs'"):
        SparseBayesRegressor("psgld-sa", groups=[0] * 100).fit(X, Y)
