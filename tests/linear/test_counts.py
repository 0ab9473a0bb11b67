"""``SparseBayesCountRegressor``: scikit-learn's checks, known effects and dispersions, exposures, promises kept."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from sparse_langevin import SparseBayesCountRegressor
from sparse_langevin.linear.families import Counts
from sparse_langevin.linear.families.exposed import Exposed
from tests.linear.test_augmented import agree, pulls, slope

QUICK = {"burn_in": 100, "max_steps": 200, "n_chains": 2, "target_ess": 1.0, "target_rhat": 9.0}
BRISK = {"max_steps": 2000, "n_chains": 2, "target_ess": 50.0, "target_rhat": 1.1}
FRACTIONS = {  # checks whose responses are no counts
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function",
    "check_regressors_train",
}

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 40))
MEAN = np.exp(1.0 + 0.7 * X[:, 3] - 0.5 * X[:, 20])
Y = rng.poisson(MEAN)


def counts(**options):
    return SparseBayesCountRegressor(**{"random_state": 0} | BRISK | options)


class Rounded(SparseBayesCountRegressor):
    """Counts, whatever it is given, so that the other checks can run, too."""

    def fit(self, X, y, sample_weight=None, exposure=None):
        return super().fit(X, np.round(np.asarray(y, dtype=float)), sample_weight, exposure)

    def partial_fit(self, X, y, sample_weight=None, exposure=None):
        return super().partial_fit(X, np.round(np.asarray(y, dtype=float)), sample_weight, exposure)

    def score(self, X, y, sample_weight=None, exposure=None):
        return super().score(X, np.round(np.asarray(y, dtype=float)), sample_weight, exposure)


def test_scikit_learn_checks():
    reason = "the responses are no whole numbers"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            counts(**QUICK), on_skip=None, expected_failed_checks=dict.fromkeys(FRACTIONS, reason)
        )
    for result in results:
        if result["status"] == "xfail":
            assert "counts must be whole numbers from 0 on" in str(result["exception"])
    skipped = {r["check_name"]: str(r["exception"]) for r in results if r["status"] not in ("passed", "xfail")}
    assert set(skipped) <= {"check_array_api_input"}, skipped


def test_scikit_learn_checks_whose_responses_have_to_be_rounded():
    ran = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(Rounded(**QUICK)):
            if check.func.__name__ in FRACTIONS:
                check(estimator)
                ran.add(check.func.__name__)
    assert ran == FRACTIONS


@pytest.fixture(scope="module")
def fitted():
    return counts().fit(X, Y)


def test_attributes(fitted):
    assert list(fitted.get_support(indices=True)) == [3, 20]
    reference = PoissonRegressor(alpha=0).fit(X[:, [3, 20]], Y)
    assert fitted.coef_[[3, 20]] == pytest.approx(reference.coef_, abs=0.05)
    assert fitted.intercept_ == pytest.approx(reference.intercept_, abs=0.05)
    assert fitted.dispersion_ > 15  # they are Poisson counts
    assert fitted.rhat_ <= 1.1 and fitted.ess_ >= 50
    draws = fitted.coef_samples_
    assert draws.shape == (len(fitted.intercept_samples_), 40) and draws.mean(0) == pytest.approx(fitted.coef_)
    assert fitted.predict(X) == pytest.approx(np.exp(draws @ X.T + fitted.intercept_samples_[:, None]).mean(0))
    assert fitted.predict(sparse.csr_array(X)) == pytest.approx(fitted.predict(X))
    lower, upper = fitted.coef_interval(0.95)
    assert lower[3] < 0.7 < upper[3] and lower[20] < -0.5 < upper[20]
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))


def test_the_score_is_the_explained_deviance(fitted):
    assert fitted.score(X, Y) == pytest.approx(d2_tweedie_score(Y, fitted.predict(X), power=1))
    weight = rng.uniform(0.5, 2.0, 120)
    same = PoissonRegressor(alpha=0).fit(X, Y)
    same.coef_, same.intercept_ = fitted.coef_, fitted.intercept_
    fitted_at_the_mean = pickle.loads(pickle.dumps(fitted))
    fitted_at_the_mean._samples = sparse.csr_array(fitted.coef_[None])
    fitted_at_the_mean.intercept_samples_ = np.array([fitted.intercept_])
    assert fitted_at_the_mean.score(X, Y, weight) == pytest.approx(same.score(X, Y, weight))
    assert fitted.score(X, np.zeros(120)) == 0.0


@pytest.mark.parametrize("r", [1.0, 4.0])
def test_dispersion_and_intervals_of_new_counts(r):
    generator = np.random.default_rng(3)
    x = generator.standard_normal((4400, 5))
    mean = np.exp(1.0 + 0.6 * x[:, 2])
    y = stats.nbinom.rvs(r, r / (r + mean), random_state=generator)
    model = counts().fit(x[:400], y[:400])
    lower, upper = np.quantile(model.dispersion_samples_, [0.005, 0.995])
    assert lower <= r * 1.15 and r / 1.15 <= upper and upper < 5 * r
    for level in (0.5, 0.9):
        low, high = model.predict_interval(x[400:], level)
        assert np.array_equal(low, np.round(low)) and np.array_equal(high, np.round(high))
        new = y[400:]
        exact = stats.nbinom.cdf(high, r, r / (r + mean[400:])) - stats.nbinom.cdf(low - 1, r, r / (r + mean[400:]))
        # Whole numbers hold more than they should: as much as those of the true distribution do.
        bounds = stats.nbinom.ppf([[(1 - level) / 2], [(1 + level) / 2]], r, r / (r + mean[400:]))
        best = np.diff(stats.nbinom.cdf(bounds - [[1], [0]], r, r / (r + mean[400:])), axis=0).mean()
        assert exact.mean() == pytest.approx(best, abs=0.04)
        assert np.mean((low <= new) & (new <= high)) > level - 0.03


def test_exposures():
    generator = np.random.default_rng(4)
    exposure = generator.uniform(0.5, 20.0, 120)
    y = generator.poisson(exposure * MEAN / 5)
    model = counts().fit(X, y, exposure=exposure)
    assert list(model.get_support(indices=True)) == [3, 20]
    assert model.coef_[[3, 20]] == pytest.approx([0.7, -0.5], abs=0.1)
    assert model.intercept_ == pytest.approx(1.0 - np.log(5), abs=0.15)
    assert model.predict(X, exposure) == pytest.approx(exposure * model.predict(X))
    assert model.score(X, y, exposure=exposure) > 0.5 > model.score(X, y)
    low, high = model.predict_interval(X, 0.9, exposure)
    assert np.mean((low <= y) & (y <= high)) > 0.85 and high.mean() > 2 * model.predict_interval(X, 0.9)[1].mean()
    same = counts().fit(X, Y, exposure=np.full(120, 10.0))
    alone = counts().fit(X, Y)
    assert same.coef_ == pytest.approx(alone.coef_, abs=0.02)
    assert same.intercept_ == pytest.approx(alone.intercept_ - np.log(10), abs=0.02)


def test_responses_with_exposures_pull_as_the_likelihood_does(monkeypatch):
    generator = np.random.default_rng(5)
    y, weight, scores = (
        np.array([0.0, 3.0, 1.0, 7.0]),
        np.array([1.0, 2.0, 1.0, 3.0]),
        np.array([[0.1, 0.4, -1.0, 0.2]]),
    )
    exposure = np.array([0.5, 1.0, 3.0, 2.0])
    monkeypatch.setattr("sparse_langevin.linear.families.counts.R", np.array([1.5]))

    def log_likelihood(row):
        return weight @ stats.nbinom.logpmf(y, 1.5, 1.5 / (1.5 + exposure * np.exp(row)))

    family = Exposed(y, exposure, weight)
    agree(pulls(family, scores, 0, {"r": 1.5}, generator), slope(log_likelihood, scores[0]))
    shape, kappa, offset = family.polya_gamma(scores, 0, {"r": 1.5})
    pull = kappa - shape * 0.5 * np.tanh((scores[0] - offset) / 2)  # with the mean of the weights
    np.testing.assert_allclose(pull, slope(log_likelihood, scores[0]), atol=1e-8)
    differences = [family.log_likelihood(s, {"r": 1.5}) - log_likelihood(s[0]) for s in (scores, 0.3 * scores)]
    assert differences[0] == pytest.approx(differences[1])
    plain = Counts(y, weight)
    assert Exposed(y, np.full(4, 7.0), weight).intercepts() == pytest.approx(plain.intercepts() - np.log(7.0))


def test_partial_fit_is_fit_on_all():
    generator = np.random.default_rng(6)
    exposure = generator.uniform(1.0, 2.0, 120)
    whole = counts(**QUICK).fit(X, Y, exposure=exposure)
    pieces = counts(**QUICK).partial_fit(X[:1], Y[:1], exposure=exposure[:1])
    assert pieces.predict(X[:1]) > 0
    pieces.partial_fit(X[1:50], Y[1:50], exposure=exposure[1:50])
    pieces.partial_fit(sparse.csr_array(X[50:]).toarray(), Y[50:], exposure=exposure[50:])
    assert np.array_equal(pieces.coef_samples_, whole.coef_samples_)
    assert np.array_equal(pieces.fit(X, Y, exposure=exposure).coef_samples_, whole.coef_samples_)


def test_weights_are_repetitions():
    weight = np.random.default_rng(7).integers(0, 3, 120)
    weighted = counts(**QUICK).fit(X, Y, sample_weight=weight)
    repeated = counts(**QUICK).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert np.array_equal(weighted.coef_samples_, repeated.coef_samples_)


def test_awkward_counts():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = counts(**QUICK).fit(X, np.zeros(120))
        assert 0 <= none.predict(X).max() < 0.5 and np.isfinite(none.coef_).all()
        huge = counts(**QUICK).fit(X, 1000 * Y)
        assert np.isfinite(huge.predict(100 * X)).all() and np.isfinite(huge.predict_interval(100 * X)).all()
    constant = counts().fit(np.ones((50, 3)), np.arange(50))
    assert constant.predict(np.ones((2, 3))) == pytest.approx([24.5, 24.5]) and not constant.get_support().any()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2, 3, 1e16], r"counts must be below 9\.0072e\+15, beyond which numbers are not whole: got 1e\+16"),
        ([1, -2, 3, 4], r"whole numbers from 0 on, but 1 of 4 values of y are not, such as -2: SparseBayesRegressor"),
        ([0.5, 1, 1.5, 0], r"but 2 of 4 values of y are not, such as 0.5: .* pass the counts as y and the times"),
        ([np.nan, 1, 1, 0], "NaN"),
    ],
)
def test_what_is_no_count_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        counts().fit(X[:4], y)


def test_bad_exposures():
    with pytest.raises(ValueError, match=r"exposure must be positive and finite, got 0 to 1"):
        counts().fit(X[:4], [1, 2, 3, 4], exposure=[0, 1, 1, 1])
    with pytest.raises(ValueError, match="inconsistent"):
        counts().fit(X[:4], [1, 2, 3, 4], exposure=[1, 1])
