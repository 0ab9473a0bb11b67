"""Chains that go on where they stopped (``warm_start``), and what is shown while they run (``verbose``)."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sparse_langevin import SparseBayesClassifier, SparseBayesCountRegressor, SparseBayesRegressor
from sparse_langevin.linear import going_on, settling
from sparse_langevin.linear.collapsed import Chain

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 30))
Y = X[:, 3] - 0.4 * X[:, 20] + rng.standard_normal(50)
KINDS = {
    "normal": (SparseBayesRegressor, {}, Y),
    "positive": (SparseBayesRegressor, {"positive": True}, Y),
    "student": (SparseBayesRegressor, {"noise": "student"}, Y),
    "classes": (SparseBayesClassifier, {}, np.digitize(Y, [-0.8, 0.8])),
    "counts": (SparseBayesCountRegressor, {}, np.round(np.exp(0.5 * Y))),
}
SHORT = {"random_state": 0, "burn_in": 100, "n_chains": 2, "max_steps": 2000, "target_ess": 1e9}  # it is never reached


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture
def burnt_in(monkeypatch):
    """How many chains were started, one entry each."""
    started, burn_in = [], Chain.burn_in
    monkeypatch.setattr(Chain, "burn_in", lambda chain, steps: started.append(steps) or burn_in(chain, steps))
    return started


@pytest.mark.parametrize("kind", KINDS)
def test_chains_that_go_on_are_those_of_one_long_run(kind, burnt_in):
    """To the bit, also out of a pickle: 400 draws, then as many again, are a step of the longer run."""
    estimator, options, y = KINDS[kind]
    model = estimator(**SHORT, **options, warm_start=True).fit(X, y)
    model = pickle.loads(pickle.dumps(model))
    first = model.coef_samples_
    model.set_params(max_steps=4000, n_jobs=2, threshold=0.3).fit(X, y)
    assert len(burnt_in) == 2
    whole = estimator(**SHORT | {"max_steps": 4000}, **options).fit(X, y)
    assert len(model.coef_samples_) == 2 * len(first)
    assert np.array_equal(model.coef_samples_, whole.coef_samples_)
    assert np.array_equal(model.inclusion_probability_, whole.inclusion_probability_)
    assert model.diagnostics_ == whole.diagnostics_ and model.n_steps_ == whole.n_steps_


def test_a_fit_that_has_nothing_to_add_changes_nothing(burnt_in):
    model = SparseBayesRegressor(**SHORT, warm_start=True).fit(X, Y)
    coef, steps = model.coef_, model.n_steps_
    model.set_params(max_steps=500).fit(X.copy(), list(Y))
    assert np.array_equal(model.coef_, coef) and model.n_steps_ == steps and len(burnt_in) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"noise": "student"},
        {"positive": True},
        {"random_state": 1},
        {"n_chains": 3},
        {"burn_in": 200},
        {"fit_intercept": False},
        {"groups": [0] * 2 + list(range(28))},
    ],
)
def test_other_parameters_start_anew(change):
    model = SparseBayesRegressor(**SHORT, warm_start=True).fit(X, Y).set_params(**change).fit(X, Y)
    assert np.array_equal(model.coef_samples_, SparseBayesRegressor(**SHORT | change).fit(X, Y).coef_samples_)


def test_other_data_start_anew(burnt_in):
    model, options = SparseBayesRegressor(**SHORT, warm_start=True).fit(X, Y), SHORT
    for x, y, weight in ((X, Y + np.eye(50)[3], None), (X[:40], Y[:40], None), (X, Y, np.arange(50.0) + 1)):
        expected = SparseBayesRegressor(**options).fit(x, y, sample_weight=weight)
        assert np.array_equal(model.fit(x, y, sample_weight=weight).coef_samples_, expected.coef_samples_)
    assert len(burnt_in) == 2 + 3 * 4
    thin = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    model.fit(thin, Y)
    model.set_params(max_steps=4000).fit(thin.copy(), Y)
    assert len(burnt_in) == 16
    model.partial_fit(X[:5], Y[:5])
    assert len(burnt_in) == 18
    without = SparseBayesRegressor(**SHORT).fit(X, Y)
    assert without._warm is None and model.set_params(warm_start=False).fit(X, Y)._warm is None


def test_an_interrupted_fit_starts_anew(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    model = SparseBayesRegressor(**SHORT, warm_start=True).fit(X, Y).set_params(max_steps=4000)
    with monkeypatch.context() as patch:
        patch.setattr(settling, "judge", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
    whole = SparseBayesRegressor(**SHORT | {"max_steps": 4000}).fit(X, Y)
    assert np.array_equal(model.fit(X, Y).coef_samples_, whole.coef_samples_)


def test_warm_starts_are_for_chains_over_models():
    with pytest.raises(ValueError, match="warm_start=True needs method='gibbs', got method='psgld-sa'"):
        SparseBayesRegressor("psgld-sa", warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start must be True or False, got 'yes'"):
        SparseBayesRegressor(warm_start="yes").fit(X, Y)
    with pytest.raises(ValueError, match="verbose must be True, False or a number, got -1"):
        SparseBayesRegressor(verbose=-1).fit(X, Y)


@pytest.mark.parametrize("kind", KINDS)
def test_a_progress_bar_if_asked_for(kind, capfd):
    estimator, options, y = KINDS[kind]
    silent = estimator(**SHORT, **options).fit(X, y)
    assert capfd.readouterr() == ("", "")
    shown = estimator(**SHORT, **options, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert not out and "/2100" in err and "not settled" in err and "left" in err
    assert np.array_equal(silent.coef_samples_, shown.coef_samples_)


def test_what_is_shown_on_the_way(monkeypatch):
    told = []
    monkeypatch.setattr(going_on, "_advanced", lambda advance, total, of, steps, text: told.append((steps, text)))
    options = SHORT | {"max_steps": 40_000, "target_ess": 1000.0, "target_rhat": 1.1}
    model = SparseBayesRegressor(**options, verbose=True, warm_start=True).fit(X, Y)
    steps, texts = zip(*told, strict=True)
    assert list(steps) == sorted(steps) and len(told) > 3
    assert texts[0] == "burn-in, and the first draws" and texts[-1] == "all has settled"
    assert any(text.startswith("not settled yet: ") for text in texts)
    chains = model._warm[2].chains
    assert steps[-1] == sum(chain.steps for chain in chains) // len(chains)
