"""The scikit-learn estimators: the library's own checks, data of every awkward kind, and promises kept."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from sparse_langevin import SparseBayesClassifier, SparseBayesRegressor
from sparse_langevin.linear.estimators import METHODS

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 100))
Y = 2.0 * X[:, 3] - 1.5 * X[:, 40] + 3.0 + 0.5 * rng.standard_normal(60)
QUICK = {"burn_in": 500, "max_steps": 1000, "n_chains": 2, "target_ess": 10.0, "target_rhat": 2.0}


@pytest.mark.parametrize("estimator", [SparseBayesRegressor(**QUICK), SparseBayesClassifier(**QUICK)])
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
    assert fitted.coef_samples_.mean(0) == pytest.approx(fitted.coef_)
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
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        fitted.predict_interval(new, 95)


def test_the_same_seed_gives_the_same_draws_on_any_number_of_threads(fitted):
    again = SparseBayesRegressor(random_state=0, n_jobs=1).fit(X, Y)
    assert np.array_equal(again.coef_samples_, fitted.coef_samples_)
    assert not np.array_equal(SparseBayesRegressor(random_state=1).fit(X, Y).coef_, fitted.coef_)


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_predict(method):
    model = SparseBayesRegressor(method, random_state=0, **QUICK).fit(X, Y)
    assert model.score(X, Y) > 0.8
    assert model.get_support().sum() == (2 if method.endswith("-sa") else 100)


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
    assert np.array_equal(SparseBayesRegressor(random_state=0).fit(sparse.csr_matrix(X), Y).coef_, fitted.coef_)
    counts = rng.integers(0, 5, size=(80, 3))
    assert SparseBayesRegressor(random_state=0).fit(counts, counts[:, 0]).score(counts, counts[:, 0]) > 0.99


def test_partial_fit_is_fit_on_all():
    x, y = rng.standard_normal((300, 20)), rng.standard_normal(300)
    y += x[:, 7]
    whole, pieces = SparseBayesRegressor(random_state=0), SparseBayesRegressor(random_state=0)
    whole.fit(x, y)
    for start in range(0, 300, 100):
        pieces.partial_fit(x[start : start + 100], y[start : start + 100])
    assert pieces.coef_ == pytest.approx(whole.coef_, abs=0.01)
    assert pieces.inclusion_probability_ == pytest.approx(whole.inclusion_probability_, abs=0.05)
    with pytest.raises(ValueError, match="features"):
        pieces.partial_fit(x[:, :5], y)


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "lasso"}, "method must be one of psgld-sa"),
        ({"expected_r2": 1.0}, "expected_r2 must lie between 0 and 1, got 1.0"),
        ({"v0": -1.0}, "v0 must be positive"),
        ({"n_chains": 0}, "n_chains must be at least 1, got 0"),
        ({"threshold": 1.0}, "threshold must lie in"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SparseBayesRegressor(**parameters).fit(X, Y)


def test_a_budget_that_is_too_small_is_said_in_plain_words():
    with pytest.warns(ConvergenceWarning, match=r"after 100 steps the predictions of 4 chains have R-hat"):
        SparseBayesRegressor(burn_in=100, max_steps=100, random_state=0).fit(X, Y)


def test_two_classes():
    labels = np.where(1.5 * X[:, 3] - 2 * X[:, 40] + rng.logistic(size=60) > 0, "ill", "well")
    model = SparseBayesClassifier(random_state=0, target_ess=100, target_rhat=1.05).fit(X[:, 30:50], labels)
    assert set(np.argsort(model.inclusion_probability_)[-1:]) == {10}
    assert model.predict_proba(X[:, 30:50]).sum(1) == pytest.approx(np.ones(60))
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
            model = SparseBayesClassifier(random_state=0, max_steps=3000, batch_size=batch).fit(x, y)
        assert np.abs(model.predict_proba(x) - reference).mean() < 0.02
        assert model.inclusion_probability_[:2].min() > 0.9
