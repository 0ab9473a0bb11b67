"""Draws of the estimators as ArviZ takes them."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its announcement of a new major version
    import arviz
from sklearn.exceptions import ConvergenceWarning

from sparse_langevin import SparseBayesClassifier, SparseBayesCountRegressor, SparseBayesRegressor
from sparse_langevin.linear.inference_data import _by_chain

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.standard_normal((60, 8)), columns=[f"gene{j}" for j in range(8)])
Y = 1.5 * X["gene3"].to_numpy() + rng.standard_normal(60) + 2.0
QUICK = {"random_state": 0, "burn_in": 400, "n_chains": 3, "max_steps": 3000}


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def test_numbers():
    model = SparseBayesRegressor(**QUICK, target_ess=50.0).fit(X, Y)
    data = model.to_arviz(X, Y)
    posterior = data.posterior
    assert set(posterior.data_vars) == {"coef", "intercept", "sigma", "g", "h", "number_of_effects", "inclusion"}
    assert posterior.coef.dims == ("chain", "draw", "predictor") and posterior.sizes["chain"] == 3
    assert list(posterior.predictor.values) == list(X.columns)
    coef = arviz.summary(data, var_names=["coef"])
    assert coef.loc["coef[gene3]", "mean"] == pytest.approx(model.coef_[3], abs=1e-3)
    assert coef.loc["coef[gene3]", "sd"] == pytest.approx(model.coef_std_[3], rel=0.01, abs=1e-3)
    assert float(posterior.sigma.mean()) == pytest.approx(model.sigma_samples_.mean())
    assert float(posterior.inclusion.sel(predictor="gene3").mean()) > 0.95
    for name, said in (("number_of_effects", "the number of effects"), ("sigma", "sigma")):
        assert float(arviz.rhat(posterior[name])[name]) == pytest.approx(model.diagnostics_[said].rhat, rel=1e-6)
    assert set(np.unique(posterior.h)) <= {0.0} | set(np.unique(np.exp(np.linspace(np.log(0.02), np.log(50.0), 10))))
    assert np.array_equal(posterior.inclusion.sum("predictor"), posterior.number_of_effects)
    predictive = data.posterior_predictive.y
    assert predictive.dims == ("chain", "draw", "observation") and predictive.sizes["observation"] == 60
    assert predictive.mean(("chain", "draw")).values == pytest.approx(model.predict(X), abs=0.1)
    assert predictive.std().item() == pytest.approx(np.sqrt(model.predict(X).var() + model.sigma_**2), rel=0.1)
    assert np.array_equal(data.observed_data.y, Y) and posterior.sigma.attrs["long_name"]
    few = model.to_arviz(predictors=model.get_support())
    assert list(few.posterior.predictor.values) == ["gene3"] and "posterior_predictive" not in few
    with_tails = SparseBayesRegressor(noise="student", **QUICK).fit(X, Y).to_arviz()
    assert {"nu", "sigma", "g"} <= set(with_tails.posterior.data_vars) and "h" not in with_tails.posterior
    model.set_params(method="psgld-sa", burn_in=200, max_steps=400).fit(X, Y)
    assert set(model.to_arviz().posterior.data_vars) == {"coef", "intercept", "sigma"}


def test_chains_are_kept_apart():
    model = SparseBayesRegressor(**QUICK | {"n_chains": 2, "max_steps": 500}).fit(X, Y)
    coef, draws = model.to_arviz().posterior.coef, model.coef_samples_
    assert np.array_equal(coef[1], draws[len(draws) // 2 :]) and np.array_equal(coef[0], draws[: len(draws) // 2])
    spread = np.repeat(np.arange(3.0), 100)
    some = spread[np.linspace(0, 299, 70).astype(int)]  # as if coefficients were kept of some draws only
    found = _by_chain({"all": spread, "some": some}, 3)
    assert np.array_equal(found["all"], found["some"]) and found["all"].shape == (3, 23)
    assert (found["some"] == np.arange(3)[:, None]).all()


def test_classes():
    kind = np.array(["a", "b", "c"])[np.digitize(Y, [1.0, 3.0])]
    model = SparseBayesClassifier(**QUICK | {"max_steps": 600}).fit(X.to_numpy(), kind)
    data = model.to_arviz(X.to_numpy(), kind)
    assert data.posterior.coef.dims == ("chain", "draw", "class", "predictor")
    assert list(data.posterior["class"].values) == ["a", "b", "c"]
    assert list(data.posterior.predictor.values)[:2] == ["x0", "x1"]
    shares = [(data.posterior_predictive.y == k).mean(("chain", "draw")) for k in range(3)]
    assert pytest.approx(model.predict_proba(X.to_numpy()), abs=0.12) == np.array(shares).T
    assert np.array_equal(model.classes_[data.observed_data.y.values], kind)
    two = SparseBayesClassifier(**QUICK | {"max_steps": 600}).fit(X, kind != "a").to_arviz()
    assert two.posterior.coef.sizes["class"] == 1 and list(two.posterior["class"].values) == ["True"]


def test_counts():
    y = rng.poisson(np.exp(0.5 * X["gene3"]))
    model = SparseBayesCountRegressor(**QUICK | {"max_steps": 600}).fit(X, y)
    data = model.to_arviz(X, y)
    assert {"coef", "intercept", "dispersion", "g", "inclusion"} <= set(data.posterior.data_vars)
    assert data.posterior_predictive.y.mean(("chain", "draw")).values == pytest.approx(model.predict(X), rel=0.25)
    assert np.issubdtype(data.posterior_predictive.y.dtype, np.integer)


def test_what_is_missing_is_named(monkeypatch):
    model = SparseBayesRegressor(**QUICK | {"max_steps": 100}).fit(X, Y)
    monkeypatch.setattr("sparse_langevin.runtime.memory.machine_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"choose fewer predictors, as predictors=mask"):
        model.to_arviz()
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"to_arviz needs an extra .*: pip install 'sparse-langevin\[arviz\]'"):
        model.to_arviz()
