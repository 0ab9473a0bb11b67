"""The scikit-learn estimators: the library's own checks, data of every awkward kind, and promises kept."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, special
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sparse_langevin import SparseBayesClassifier, SparseBayesRegressor
from sparse_langevin.linear import settling
from sparse_langevin.sampling.methods import METHODS

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 100))
Y = 2.0 * X[:, 3] - 1.5 * X[:, 40] + 3.0 + 0.5 * rng.standard_normal(60)
QUICK = {"burn_in": 500, "max_steps": 1000, "n_chains": 2, "target_ess": 10.0, "target_rhat": 2.0}


@pytest.mark.parametrize(
    "estimator",
    [
        SparseBayesRegressor("psgld-sa", **QUICK),
        SparseBayesRegressor(positive=True, **QUICK),
        SparseBayesClassifier(**QUICK | {"max_steps": 400}),
    ],
)
def test_scikit_learn_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None)
    skipped = {r["check_name"]: str(r["exception"]) for r in results if r["status"] != "passed"}
    # scikit-learn itself skips this one unless SciPy was imported with a variable of its own set.
    assert set(skipped) <= {"check_array_api_input"}, skipped


@pytest.fixture(scope="module")
def fitted():
    return SparseBayesRegressor(random_state=0).fit(X, Y)


def test_attributes(fitted):
    assert fitted.coef_.shape == fitted.coef_std_.shape == fitted.inclusion_probability_.shape == (100,)
    assert list(fitted.get_support(indices=True)) == [3, 40]
    assert fitted.coef_[[3, 40]] == pytest.approx([2.0, -1.5], abs=0.3)
    assert fitted.intercept_ == pytest.approx(3.0, abs=0.3) and fitted.sigma_ == pytest.approx(0.5, abs=0.15)
    assert fitted.rhat_ <= 1.02 and fitted.ess_ >= 400
    error = fitted.coef_std_ / np.sqrt(fitted.ess_)  # of means of draws; of small effects the exact mean is known
    assert np.all(np.abs(fitted.coef_samples_.mean(0) - fitted.coef_) < 4 * error)
    assert fitted.transform(X).shape == (60, 2)


def test_predictions_and_intervals(fitted):
    new = rng.standard_normal((4000, 100))
    true = 2.0 * new[:, 3] - 1.5 * new[:, 40] + 3.0 + 0.5 * rng.standard_normal(4000)
    mean, std = fitted.predict(new, return_std=True)
    assert mean == pytest.approx(fitted.predict(new)) and np.all(std > fitted.sigma_)
    assert fitted.score(new, true) > 0.9
    for level in (0.5, 0.9):
        lower, upper = fitted.predict_interval(new, level)
        assert np.mean((lower < true) & (true < upper)) == pytest.approx(level, abs=0.07)
    lower, upper = fitted.coef_interval(0.95)
    assert lower[3] < 2.0 < upper[3] and lower[40] < -1.5 < upper[40]
    with pytest.raises(ValueError, match=r"level must be between 0 and 1, for example 0.95, got 95"):
        fitted.predict_interval(new, 95)


def test_the_same_seed_gives_the_same_draws_on_any_number_of_threads(fitted):
    for jobs in (1, 3, -1):
        again = SparseBayesRegressor(random_state=0, n_jobs=jobs).fit(X, Y)
        assert np.array_equal(again.coef_samples_, fitted.coef_samples_)
    assert not np.array_equal(SparseBayesRegressor(random_state=1).fit(X, Y).coef_, fitted.coef_)


def test_jobs_are_counted_as_in_scikit_learn():
    assert SparseBayesRegressor()._workers() == 1
    assert SparseBayesClassifier(n_jobs=3)._workers() == 3
    assert SparseBayesRegressor(n_jobs=-1)._workers() == joblib.cpu_count()
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert SparseBayesRegressor()._workers() == 3


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_predict(method):
    model = SparseBayesRegressor(method, random_state=0, **QUICK).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert model.get_support().sum() == (2 if METHODS[method].selects else 100)


def test_units_do_not_matter(fitted):
    scale = 10.0 ** rng.integers(-6, 7, size=100)
    other = SparseBayesRegressor(random_state=0).fit(X * scale + 5 * scale, 1e6 * Y)
    assert list(other.get_support(indices=True)) == [3, 40]
    assert other.coef_[3] * scale[3] / 1e6 == pytest.approx(fitted.coef_[3], abs=0.05)
    assert other.sigma_ / 1e6 == pytest.approx(fitted.sigma_, rel=0.05)


def test_frames_pipelines_and_sparse_matrices(fitted):
    frame = pd.DataFrame(X, columns=[f"gene{i}" for i in range(100)])
    named = SparseBayesRegressor(random_state=0).fit(frame, Y)
    assert list(named.feature_names_in_[named.get_support()]) == ["gene3", "gene40"]
    assert list(named.get_feature_names_out()) == ["gene3", "gene40"]
    pipeline = make_pipeline(StandardScaler(), SparseBayesRegressor(random_state=0, **QUICK))
    assert cross_val_score(pipeline, X, Y, cv=3).mean() > 0.7
    assert clone(named).get_params() == named.get_params()
    assert SparseBayesRegressor(random_state=0).fit(sparse.csr_matrix(X), Y).coef_ == pytest.approx(
        fitted.coef_, abs=0.02
    )
    counts = rng.integers(0, 5, size=(80, 3))
    assert SparseBayesRegressor(random_state=0).fit(counts, counts[:, 0]).score(counts, counts[:, 0]) > 0.99


def by_pieces(sizes, x, y):
    """Fit to the first piece, partial_fit to the others; the arrays that were given are overwritten afterwards."""
    model, start = SparseBayesRegressor(random_state=0), 0
    for size in sizes:
        rows, responses = x[start : start + size].copy(), y[start : start + size].copy()
        (model.partial_fit if start else model.fit)(rows, responses)
        rows[:], responses[:] = np.nan, np.nan
        start += size
    return model


@pytest.mark.parametrize("sizes", [(20, 30), (40, 30), (60, 30, 30), (150, 150)])
def test_partial_fit_after_fit_is_fit_on_all(sizes):
    """Rows while there are at most 60 of them, moments afterwards, and the change from one to the other."""
    generator = np.random.default_rng(7)
    x, y = generator.standard_normal((300, 60)) + 3.0, generator.standard_normal(300)
    y += x[:, 7]
    n = sum(sizes)
    whole, pieces = SparseBayesRegressor(random_state=0).fit(x[:n], y[:n]), by_pieces(sizes, x, y)
    assert pieces.coef_ == pytest.approx(whole.coef_, abs=1e-6)
    assert pieces.inclusion_probability_ == pytest.approx(whole.inclusion_probability_, abs=1e-6)
    if n <= 60:
        assert np.array_equal(pieces.coef_samples_, whole.coef_samples_)


def test_partial_fit_of_sparse_rows_after_dense_ones():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 4)), rng.standard_normal(60)
    quick = {"max_steps": 500, "target_rhat": 9.0, "target_ess": 1.0, "random_state": 0}
    dense, mixed = (SparseBayesRegressor(**quick).fit(x[:40], y[:40]) for _ in range(2))
    dense.partial_fit(x[40:], y[40:])
    mixed.partial_fit(sparse.csr_array(x[40:]), y[40:])
    assert np.array_equal(mixed.coef_, dense.coef_)
    with pytest.raises(ValueError, match="only moments are kept: call fit"):
        dense.set_params(noise="student").partial_fit(x, y)


def test_partial_fit_from_the_start_on():
    generator = np.random.default_rng(7)
    x, y = generator.standard_normal((300, 20)), generator.standard_normal(300)
    y += x[:, 7]
    whole, pieces = SparseBayesRegressor(random_state=0).fit(x, y), SparseBayesRegressor(random_state=0)
    pieces.partial_fit(x[:1], y[:1])  # nothing varies yet
    for rows in (slice(1, 10), slice(10, 200), slice(200, 300)):
        pieces.partial_fit(x[rows], y[rows])
    assert pieces.coef_ == pytest.approx(whole.coef_, abs=1e-6)
    with pytest.raises(ValueError, match="features"):
        pieces.partial_fit(x[:, :5], y)
    pieces.fit(x, y)  # forgets all that was there before
    assert np.array_equal(pieces.coef_samples_, whole.coef_samples_)


def test_partial_fit_of_a_classifier():
    generator = np.random.default_rng(8)
    x = generator.standard_normal((90, 8))
    y = np.array(["a", "b", "c"])[(x[:, 0] > 0.5).astype(int) + (x[:, 1] > 0.3)]
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]  # the first rows are of one class, and the last ones of another
    options = {"random_state": 0, "class_weight": "balanced", **QUICK, "target_ess": 0.1, "target_rhat": 1e300}
    whole, pieces = SparseBayesClassifier(**options).fit(x, y), SparseBayesClassifier(**options)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        pieces.partial_fit(x, y)
    pieces.partial_fit(x[:20], y[:20], classes=["a", "b", "c"])
    assert (pieces.predict(x) == "a").all() and pieces.predict_proba(x)[:, 1:].max() < 0.05
    some = np.flatnonzero(y != "c")[20:]
    pieces.partial_fit(x[some], y[some])
    rare = pieces.predict_proba(x)[:, 2]
    assert set(pieces.predict(x)) == {"a", "b"} and 0 < rare.max() < 0.1
    assert pieces.coef_.shape == (3, 8) and not pieces.coef_[2].any()
    rest = np.flatnonzero(y == "c")
    pieces.partial_fit(x[rest], y[rest])
    assert np.array_equal(pieces.coef_samples_, whole.coef_samples_)
    again = SparseBayesClassifier(**options).fit(x[::2], y[::2]).partial_fit(x[1::2], y[1::2])
    assert np.array_equal(again.coef_samples_, whole.coef_samples_)
    with pytest.raises(ValueError, match="the label 'd' is not among the classes a, b, c"):
        pieces.partial_fit(x[:2], ["a", "d"])
    with pytest.raises(ValueError, match="not the same as on last call"):
        pieces.partial_fit(x, y, classes=["a", "b"])
    two = SparseBayesClassifier(**options).partial_fit(x[:20], y[:20], classes=["a", "b"])
    assert two.predict_proba(x)[:, 1].max() < 0.05


def test_an_interrupted_partial_fit_takes_nothing_in(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    model = SparseBayesRegressor(random_state=0, **QUICK).fit(X[:30], Y[:30])
    with monkeypatch.context() as patch:
        patch.setattr(settling.Run, "go_on", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X[30:], Y[30:])
    model.partial_fit(X[30:], Y[30:])
    whole = SparseBayesRegressor(random_state=0, **QUICK).fit(X, Y)
    assert np.array_equal(model.coef_samples_, whole.coef_samples_)


def test_awkward_data():
    constant = X.copy()
    constant[:, 5] = 7.0
    model = SparseBayesRegressor(random_state=0).fit(constant, Y)
    assert model.coef_[5] == 0 and model.inclusion_probability_[5] == 0 and model.inclusion_probability_[3] > 0.9
    twins = np.column_stack([X, X[:, 3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparseBayesRegressor(random_state=0).fit(twins, Y)
    assert model.coef_[3] + model.coef_[100] == pytest.approx(2.0, abs=0.3)  # which of the two cannot be known
    assert SparseBayesRegressor(random_state=0).fit(X[:, 3:4], Y).coef_[0] == pytest.approx(2.0, abs=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(SparseBayesRegressor(random_state=0).fit(X[:2], Y[:2]).predict(X)).all()
    flat = SparseBayesRegressor().fit(X, np.full(60, 4.0))
    assert np.all(flat.predict(X) == 4.0) and flat.sigma_ == 0 and not flat.inclusion_probability_.any()
    assert SparseBayesRegressor().fit(np.ones((5, 2)), Y[:5]).predict([[1.0, 1.0]]) == pytest.approx(Y[:5].mean())
    for value in (np.nan, np.inf):
        bad = X.copy()
        bad[1, 2] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            SparseBayesRegressor().fit(bad, Y)


@pytest.mark.parametrize("estimator", [SparseBayesRegressor, SparseBayesClassifier])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "lasso"}, "there is no method 'lasso': choose one of sgld, psgld, sgld-sa, psgld-sa(, gibbs)?"),
        ({"expected_effects": 0}, "expected_effects must be a positive, finite number, got 0"),
        ({"expected_r2": 0}, "expected_r2 must be between 0 and 1, both excluded, got 0"),
        ({"expected_r2": 1}, "expected_r2 must be between 0 and 1, both excluded, got 1"),
        ({"v0": -1.0}, "v0 must be a positive, finite number, or None, got -1.0"),
        ({"v1": np.inf}, "v1 must be a positive, finite number, or None, got inf"),
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1, or None, got 1.0"),
        ({"n_chains": 0}, "n_chains must be a whole number of at least 1, got 0"),
        ({"n_chains": 2.5}, "n_chains must be a whole number of at least 1, got 2.5"),
        ({"burn_in": "long"}, "burn_in must be a whole number of at least 1, or None, got 'long'"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, or None, got 0"),
        ({"target_rhat": np.nan}, "target_rhat must be a positive, finite number, got nan"),
        ({"target_ess": -1.0}, "target_ess must be a positive, finite number, got -1.0"),
        ({"n_jobs": 0}, "n_jobs must be None, -1 for all cores, or a number of jobs, got 0"),
    ],
)
def test_bad_parameters_are_refused_before_the_data_are_seen(estimator, parameters, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        estimator(**parameters).fit(None, None)


@pytest.mark.parametrize("size", [0, -5, 2.5, True, "all"])
def test_bad_batch_sizes(size):
    with pytest.raises(ValueError, match=f"batch_size must be a whole number of at least 1, or None .* got {size!r}"):
        SparseBayesClassifier(batch_size=size).fit(None, None)


def test_parameters_are_those_of_the_signature():
    regression, classes = (set(kind().get_params()) for kind in (SparseBayesRegressor, SparseBayesClassifier))
    assert regression - classes == {"noise", "positive"} and classes - regression == {"batch_size", "class_weight"}
    assert clone(SparseBayesClassifier("sgld", batch_size=7)).get_params()["batch_size"] == 7
    with pytest.raises(TypeError, match="positional"):
        SparseBayesRegressor("psgld", 3)


def test_a_budget_that_is_too_small_is_said_in_plain_words():
    for estimator, y in ((SparseBayesRegressor, Y), (SparseBayesClassifier, Y > 3)):
        with pytest.warns(ConvergenceWarning, match=r"after 100 steps the predictions of 4 chains have R-hat") as seen:
            estimator("psgld-sa", burn_in=100, max_steps=100, random_state=0).fit(X, y)
        assert seen[0].filename == __file__  # it points at the user's line


def test_two_classes():
    labels = np.where(1.5 * X[:, 3] - 2 * X[:, 40] + rng.logistic(size=60) > 0, "ill", "well")
    model = SparseBayesClassifier(random_state=0, target_ess=100, target_rhat=1.05).fit(X[:, 30:50], labels)
    assert set(np.argsort(model.inclusion_probability_)[-1:]) == {10}
    probability = model.predict_proba(X[:, 30:50])
    assert probability.sum(1) == pytest.approx(np.ones(60))
    assert model.decision_function(X[:, 30:50]) == pytest.approx(special.logit(probability[:, 1]))
    assert set(model.predict(X[:, 30:50])) == {"ill", "well"}
    with pytest.raises(ValueError, match="one class only, 'ill'"):
        SparseBayesClassifier().fit(X, np.full(60, "ill"))


def test_three_classes_and_minibatches_against_maximum_likelihood():
    x = rng.standard_normal((1500, 4))
    scores = np.column_stack([x[:, 0] * 2, x[:, 1] * 2, np.zeros(1500)]) + rng.gumbel(size=(1500, 3))
    y = scores.argmax(1)
    reference = LogisticRegression(C=100).fit(x, y).predict_proba(x)
    for batch in (None, 500):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = SparseBayesClassifier("psgld-sa", random_state=0, max_steps=3000, batch_size=batch).fit(x, y)
        assert np.abs(model.predict_proba(x) - reference).mean() < 0.02
        assert model.inclusion_probability_[:2].min() > 0.9
