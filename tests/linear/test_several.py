"""Several responses at once: each as if it were fitted on its own, and shapes as scikit-learn has them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputRegressor

from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import polygenic
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.moments import Moments, Rows, observed
from sparse_langevin.linear.polygenic import Background

rng = np.random.default_rng(0)
X = rng.standard_normal((70, 20))
EFFECTS = np.zeros((3, 20))
EFFECTS[0, 3], EFFECTS[1, 7], EFFECTS[1, 3] = 1.5, -2.0, 1.0
Y = X @ EFFECTS.T + np.array([5.0, -1.0, 0.0]) + rng.standard_normal((70, 3)) * np.array([1.0, 0.5, 20.0])
QUICK = {"random_state": 0, "burn_in": 400, "n_chains": 2, "max_steps": 2000, "target_ess": 50.0, "target_rhat": 1.2}


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize(
    ("rows", "options"),
    [(70, {}), (15, {}), (15, {"noise": "student"}), (15, {"fit_intercept": False}), (70, {"method": "psgld-sa"})],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_response_is_that_of_its_own_fit(rows, options, weighted):
    """With moments (70 rows) what is shared changes rounding only; with rows nothing at all."""
    x, y, weight = X[:rows], Y[:rows], np.arange(rows) % 3 + 1.0 if weighted else None
    if options == {} and rows == 15:
        x, y, weight = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0)[:40]), Y[:40], None
    together = SparseBayesRegressor(**QUICK | options).fit(x, y, weight)
    each = [SparseBayesRegressor(**QUICK | options).fit(x, y[:, k], weight) for k in range(3)]
    for name in ("coef_", "coef_std_", "intercept_", "sigma_", "inclusion_probability_"):
        expected = np.array([getattr(one, name) for one in each])
        assert getattr(together, name) == pytest.approx(expected, rel=1e-5, abs=1e-7), name
    assert together.rhat_ == pytest.approx(max(one.rhat_ for one in each), abs=1e-4)
    mean, std = together.predict(x, return_std=True)
    low, high = together.predict_interval(x, 0.8)
    lower, upper = together.coef_interval(0.8)
    for k, one in enumerate(each):
        assert mean[:, k] == pytest.approx(one.predict(x), rel=1e-5, abs=1e-5)
        assert std[:, k] == pytest.approx(one.predict(x, return_std=True)[1], rel=1e-4)
        assert np.array([low[:, k], high[:, k]]) == pytest.approx(np.array(one.predict_interval(x, 0.8)), rel=1e-3)
        assert np.array([lower[k], upper[k]]) == pytest.approx(np.array(one.coef_interval(0.8)), abs=1e-4)
    warnings.simplefilter("ignore", UserWarning)  # the effects on the last response cannot be named
    assert np.array_equal(together.get_support(), np.any([one.get_support() for one in each], axis=0))


@pytest.fixture(scope="module")
def fitted():
    return SparseBayesRegressor(**QUICK).fit(X, Y)


def test_the_fit_to_each_response_can_be_asked_as_if_it_were_alone(fitted):
    low, high = fitted.predict_interval(X, 0.8)
    for k, one in enumerate(fitted.estimators_):
        assert np.array_equal(one.coef_, fitted.coef_[k])
        assert one.predict(X, return_std=True)[1] == pytest.approx(fitted.predict(X, return_std=True)[1][:, k])
        assert np.array(one.predict_interval(X, 0.8)) == pytest.approx(np.array([low[:, k], high[:, k]]), rel=0.1)
        assert one.coef_interval()[0] == pytest.approx(fitted.coef_interval()[0][k])
    single = SparseBayesRegressor(**QUICK).fit(X.astype(np.float32), Y)
    assert {one.coef_.dtype for one in [single, *single.estimators_]} == {np.dtype(np.float32)}


def test_shapes(fitted):
    assert fitted.coef_.shape == fitted.inclusion_probability_.shape == (3, 20)
    assert fitted.intercept_.shape == fitted.sigma_.shape == (3,)
    assert fitted.predict(X).shape == (70, 3) == LinearRegression().fit(X, Y).predict(X).shape
    assert fitted.coef_[0, 3] == pytest.approx(1.5, abs=0.4) and fitted.coef_[1, 7] == pytest.approx(-2.0, abs=0.3)
    assert list(fitted.get_support(indices=True)) == [3, 7] and fitted.transform(X).shape == (70, 2)
    assert [[s.representative for s in sets] for sets in fitted.credible_sets_[:2]] in ([[3], [3, 7]], [[3], [7, 3]])
    assert "response 1: sigma" in fitted.diagnostics_
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert list(again.set_params(selection="fdr", fdr=0.999).get_support()).count(True) > 5
    one = SparseBayesRegressor(**QUICK).fit(X, Y[:, :1])
    assert one.coef_.shape == (1, 20) and one.predict(X).shape == (70, 1)
    one.fit(X, Y[:, 0])
    assert one.coef_.shape == (20,) and one.predict(X).shape == (70,) and isinstance(one.sigma_, float)
    assert not hasattr(one, "estimators_") and one.coef_samples_.shape[1] == 20
    one.fit(X, Y)
    assert not hasattr(one, "coef_samples_") and not hasattr(one, "sigma_samples_")
    with pytest.raises(AttributeError, match=r"ask estimators_\[0\]"):
        one.to_arviz()
    assert one.estimators_[1].to_arviz().posterior.sizes["predictor"] == 20


def test_scores_and_copies(fitted):
    assert cross_val_score(clone(fitted), X, Y[:, :2], cv=2).min() > 0.5
    other = MultiOutputRegressor(SparseBayesRegressor(**QUICK)).fit(X, Y)
    assert other.predict(X) == pytest.approx(fitted.predict(X), abs=1e-3)


def test_what_has_not_settled_is_named_by_its_response():
    frame = pd.DataFrame(Y[:, :2], columns=["height", "weight"])
    with pytest.warns(ConvergenceWarning) as seen:
        SparseBayesRegressor(**QUICK | {"max_steps": 20, "target_ess": 1e9}).fit(X, frame)
    assert [str(w.message).split(" after")[0] for w in seen] == ["response 'height':", "response 'weight':"]
    outlier = Y.copy()
    outlier[4, 1] += 1e3
    with pytest.warns(UserWarning, match=r"response 1: observation 4 lies"):
        SparseBayesRegressor(**QUICK).fit(X, outlier)


def test_a_response_that_is_constant():
    y = np.column_stack([np.full(70, 3.0), Y[:, 0], np.full(70, -1.0)])
    for n in (70, 15):
        model = SparseBayesRegressor(**QUICK).fit(X[:n], y[:n])
        assert model.predict(X)[:, [0, 2]] == pytest.approx(np.tile([3.0, -1.0], (70, 1)))
        assert model.coef_[1, 3] == pytest.approx(1.5, abs=0.6) and not model.inclusion_probability_[[0, 2]].any()


@pytest.mark.parametrize("sizes", [(10, 5), (30, 40)])
def test_partial_fit(sizes):
    first, n = sizes[0], sum(sizes)
    pieces = SparseBayesRegressor(**QUICK).partial_fit(X[:first], Y[:first]).partial_fit(X[first:n], Y[first:n])
    whole = SparseBayesRegressor(**QUICK).fit(X[:n], Y[:n])
    assert pieces.coef_ == pytest.approx(whole.coef_, abs=1e-4)
    with pytest.raises(ValueError, match=r"the responses have the shape \(70,\), but before they had \('n', 3\)"):
        pieces.partial_fit(X, Y[:, 0])


def test_chains_go_on():
    model = SparseBayesRegressor(**QUICK | {"target_ess": 1e9}, warm_start=True).fit(X, Y)
    model.set_params(max_steps=4000).fit(X, Y)
    whole = SparseBayesRegressor(**QUICK | {"target_ess": 1e9, "max_steps": 4000}).fit(X, Y)
    assert np.array_equal(model.coef_, whole.coef_) and model.n_steps_ == whole.n_steps_ > 3900


def test_what_depends_on_the_predictors_is_computed_once(monkeypatch):
    of, calls, eigenvalues, roots = Background.of, [], np.linalg.eigh, []
    monkeypatch.setattr(polygenic.Background, "of", lambda *given: calls.append(1) or of(*given))
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: roots.append(1) or eigenvalues(matrix))
    SparseBayesRegressor(**QUICK).fit(X, Y)
    assert len(calls) == 1 and len(roots) == 2  # of the moments and of the kernel


def test_the_background_of_another_response():
    x, y = X[:15], Y[:15]
    design = Design(x, x.mean(0), x.std(0), None)
    first, expected = (Background.of(design, y[:, k], 15.0) for k in (0, 1))
    found = first.for_response(design, y[:, 1])
    for name in ("square", "product", "total", "response", "log_weight"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8, atol=1e-10)


def test_few_sparse_predictors_are_kept_as_those_of_an_array():
    """Then the posterior is the same, small effects included, whose spectrum takes too long for many rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 300)) * (rng.random((20_000, 300)) < 0.1)  # two blocks
    y, weight = x[:, 0] + rng.standard_normal(20_000), rng.integers(3, size=20_000).astype(float)
    dense, thin = (observed(data, y, weight) for data in (x, sparse.csr_array(x)))
    assert isinstance(thin, Moments) and thin.size == dense.size
    np.testing.assert_allclose(thin.mean, dense.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(thin.scatter, dense.scatter, rtol=1e-9, atol=1e-8)
    assert isinstance(observed(sparse.csr_array((1100, 1001)), np.arange(1100.0)), Rows)


def test_moments_of_one_response():
    whole, own = Moments.of(X, Y), Moments.of(X, Y[:, 1])
    np.testing.assert_allclose(whole.response(1, 3).scatter, own.scatter, rtol=1e-10)
    first = whole.response(0, 3).design()[0]
    design, y, rest, scale = whole.response(1, 3).design(like=first)
    z, t = (X - X.mean(0)) / X.std(0), (Y[:, 1] - Y[:, 1].mean()) / Y[:, 1].std()
    np.testing.assert_allclose(design.products(y), z.T @ t, atol=1e-8)
    assert rest + y @ y == pytest.approx(70.0) and scale.y_mean == pytest.approx(Y[:, 1].mean())


def test_bad_responses():
    with pytest.raises(TypeError, match="y is sparse: pass an array"):
        SparseBayesRegressor().fit(X, sparse.csr_array(Y))
