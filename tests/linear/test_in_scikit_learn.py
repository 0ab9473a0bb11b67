"""The estimators where scikit-learn's users put them: metadata routing, inspection, frames, single precision."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparse_langevin import SparseBayesClassifier, SparseBayesCountRegressor, SparseBayesRegressor

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 6))
FRAME = pd.DataFrame(X, columns=list("abcdef"))
SCORE = 1.5 * X[:, 2] - 1.5 * X[:, 4]
WEIGHT = np.arange(80) % 3 + 0.0
QUICK = {"random_state": 0, "burn_in": 400, "n_chains": 2, "max_steps": 500, "target_ess": 1.0, "target_rhat": 9.0}
KINDS = {
    "numbers": (SparseBayesRegressor(**QUICK), SCORE + 0.5 * rng.standard_normal(80)),
    "student": (SparseBayesRegressor(noise="student", **QUICK), SCORE + 0.5 * rng.standard_normal(80)),
    "steps": (SparseBayesRegressor("psgld-sa", **QUICK), SCORE + 0.5 * rng.standard_normal(80)),
    "several": (SparseBayesRegressor(**QUICK), np.column_stack([SCORE, X[:, 2]]) + 0.5 * rng.standard_normal((80, 2))),
    "classes": (SparseBayesClassifier(**QUICK), np.where(SCORE + 0.5 * rng.logistic(size=80) > 0, "yes", "no")),
    "counts": (SparseBayesCountRegressor(**QUICK), rng.poisson(np.exp(0.7 * SCORE))),
}


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*more predictors matter")
        yield


@pytest.fixture(params=KINDS)
def case(request):
    estimator, y = KINDS[request.param]
    return clone(estimator), y


def draws(model):
    return model.coef_samples_ if not hasattr(model, "estimators_") else model.coef_


def test_weights_find_their_way_through_pipelines(case):
    estimator, y = case
    with config_context(enable_metadata_routing=True):
        asks = estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, asks).fit(X, y, sample_weight=WEIGHT)
        expected = clone(estimator).fit(StandardScaler().fit_transform(X), y, sample_weight=WEIGHT)
        assert np.array_equal(draws(pipeline[-1]), draws(expected))
        scores = cross_val_score(pipeline, X, y, cv=2, params={"sample_weight": WEIGHT})
        found = cross_validate(asks, X, y, cv=2, params={"sample_weight": WEIGHT}, return_indices=True)
        (train, _), (test, _) = found["indices"]["train"], found["indices"]["test"]
        alone = clone(estimator).fit(X[train], y[train], sample_weight=WEIGHT[train])
        assert found["test_score"][0] == pytest.approx(alone.score(X[test], y[test], sample_weight=WEIGHT[test]))
        assert len(scores) == 2
        search = GridSearchCV(asks, {"threshold": [0.2, 0.5]}, cv=2).fit(X, y, sample_weight=WEIGHT)
        assert np.array_equal(draws(search.best_estimator_), draws(clone(estimator).fit(X, y, sample_weight=WEIGHT)))


def test_exposures_find_their_way_through_pipelines():
    y, exposure = KINDS["counts"][1], 1 + np.arange(80) % 4
    with config_context(enable_metadata_routing=True):
        model = SparseBayesCountRegressor(**QUICK).set_fit_request(exposure=True).set_predict_request(exposure=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y, exposure=exposure)
        alone = clone(model).fit(StandardScaler().fit_transform(X), y, exposure=exposure)
        assert np.array_equal(pipeline[-1].coef_, alone.coef_)
        assert pipeline.predict(X, exposure=exposure) == pytest.approx(exposure * pipeline.predict(X))


def test_inspection(case):
    estimator, y = case
    model = estimator.fit(FRAME, y)
    found = permutation_importance(model, FRAME, y, n_repeats=2, random_state=0).importances_mean
    assert set(np.argsort(found)[-2:]) == {2, 4} or np.ndim(y) == 2
    dependence = partial_dependence(model, FRAME, ["c"], grid_resolution=5)["average"]
    rises = np.diff(dependence, axis=1)
    assert (rises > 0).all() and dependence.shape == ((2, 5) if np.ndim(y) == 2 else (1, 5))
    if estimator.__class__ is SparseBayesRegressor and np.ndim(y) == 1:
        grid = partial_dependence(model, FRAME, ["c"], grid_resolution=5)["grid_values"][0]
        assert np.diff(dependence[0]) / np.diff(grid) == pytest.approx(np.full(4, model.coef_[2]))


def test_frames(case):
    estimator, y = case
    model = estimator.fit(FRAME, y)
    assert list(model.feature_names_in_) == list(FRAME.columns)
    names = list(FRAME.columns[model.get_support()])
    assert list(model.get_feature_names_out()) == names and {"c", "e"} <= set(names)
    out = model.set_output(transform="pandas").transform(FRAME)
    assert list(out.columns) == names and out.equals(FRAME[names])
    if estimator.__class__ is SparseBayesRegressor:
        pipeline = make_pipeline(clone(estimator), LinearRegression()).set_output(transform="pandas").fit(FRAME, y)
        assert list(pipeline[-1].feature_names_in_) == names
        assert pipeline.score(FRAME, y) > 0.7
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"a": "z"}))


def outputs(model, x):
    found = [model.coef_, model.coef_std_, np.asarray(model.coef_interval()[0]), model.predict(x)]
    if isinstance(model, SparseBayesClassifier):
        found[-1:] = [model.predict_proba(x), model.predict_log_proba(x), model.decision_function(x), model.intercept_]
    elif isinstance(model, SparseBayesRegressor):
        found += [*model.predict(x, return_std=True), *model.predict_interval(x)]
    return found


def test_single_precision_stays_single(case):
    """As in scikit-learn's linear models, in which products with double precision are double."""
    estimator, y = case
    single, double = (clone(estimator).fit(X.astype(kind), y) for kind in (np.float32, np.float64))
    assert {found.dtype.name for found in outputs(single, X.astype(np.float32))} == {"float32"}
    assert {found.dtype.name for found in outputs(double, X)} == {"float64"}
    predicted = outputs(single, X)[3], outputs(double, X.astype(np.float32))[3]
    assert [p.dtype.name for p in predicted] == ["float64", "float64"]
    rounded = X.astype(np.float32)
    for ours, exact in zip(outputs(single, rounded), outputs(single, rounded.astype(float)), strict=True):
        assert ours == pytest.approx(exact, rel=1e-4, abs=1e-5)  # it is computed in double precision, and rounded
    if np.ndim(y) == 1:
        error = single.coef_std_ / np.sqrt(len(single.coef_samples_))  # of small effects the exact mean is known
        assert np.all(np.abs(single.coef_ - single.coef_samples_.mean(0)) < 4 * error + 1e-6)
    thin = clone(estimator).fit(sparse.csr_array(X.astype(np.float32)), y)
    assert thin.coef_.dtype == np.float32 and thin.predict(sparse.csr_array(X)[:3]).shape[0] == 3
    assert clone(estimator).fit((10 * X).astype(int), y).coef_.dtype == np.float64
