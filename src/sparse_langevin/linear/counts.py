"""Regression of counts with variable selection, as a scikit-learn estimator."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import mean_poisson_deviance
from sklearn.utils.validation import check_consistent_length, column_or_1d

from sparse_langevin.linear.base import SparseBayes
from sparse_langevin.linear.checks import check_level, checked_weights
from sparse_langevin.linear.families.exposed import Exposed
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.moments import Rows, Scale
from sparse_langevin.linear.samples import Samples, dense, in_units, moments_of, scores
from sparse_langevin.runtime.threads import in_one_blas_thread

WHOLE = 2.0**53
LARGEST = 700.0  # logarithm of a mean, so that it stays finite


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesCountRegressor(RegressorMixin, SparseBayes):  # type: ignore[misc]
    """Regression of whole numbers from zero on with variable selection: how often something happens.

    Counts are negative binomial with mean m = exposure exp(intercept + x coef) and variance m + m^2/r. The dispersion r
    is learned; with a large one counts are as those of Poisson's distribution. The coefficients are integrated out
    given Polya-Gamma variables, and chains over models run as those of `SparseBayesRegressor`, whose parameters have
    the same meaning here.

    Attributes
    ----------
    coef_
        Posterior means of the coefficients: changes of the logarithm of the mean count.
    coef_std_
        Posterior standard deviations of the coefficients.
    intercept_
        Posterior mean of the intercept.
    inclusion_probability_
        Posterior probability that each predictor has an effect.
    credible_sets_
        Sets of predictors of which at least one has an effect, see `CredibleSet`.
    dispersion_
        Posterior median of r, which lies between 0.2 and 200.
    dispersion_samples_
        Posterior draws of r.
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, predictors).
    inclusion_samples_
        Which predictors are in the model in each draw, a sparse boolean array of the same shape.
    intercept_samples_
        Posterior draws of the intercept, of shape (draws,).
    diagnostics_
        R-hat and effective number of draws of predictions, inclusion, number and size of effects.
    rhat_
        The largest R-hat of these.
    ess_
        The smallest effective sample size of these.
    n_steps_
        Number of steps of each chain after burn-in.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 30))
    >>> y = rng.poisson(np.exp(1 + 0.8 * X[:, 3]))
    >>> model = SparseBayesCountRegressor(random_state=0).fit(X, y)
    >>> model.get_support(indices=True)
    array([3])
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    @in_one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Fit the model to (n, p) predictors and n counts.

        A weight says how often an observation counts, and ``exposure`` for how long, or over what area, it counted; by
        default that is 1 for all.
        """
        self._check_parameters()
        self._observations: Rows | None = None
        return self._learn(Rows.of(*self._data(X, y, sample_weight, exposure, ensure_min_samples=2)))

    @in_one_blas_thread
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Add observations and sample again; the result is that of `fit` on all observations together."""
        self._check_parameters()
        before: Rows | None = getattr(self, "_observations", None)
        more = self._data(X, y, sample_weight, exposure, reset=before is None)
        return self._learn(Rows.of(*(more if before is None else before.together(*more))))

    def predict(self, X: Any, exposure: Any = None) -> Array:
        """Return the posterior mean of the mean count of each row."""
        X = self._new_rows(X)
        total, draws = np.zeros(X.shape[0]), 0
        for part in scores([self._samples], self.intercept_samples_[:, None], X):
            total += np.exp(np.minimum(part[:, :, 0], LARGEST)).sum(0)
            draws += len(part)
        precise: Array = self._as_precise(total / draws * checked_exposure(exposure, X), X)
        return precise

    def predict_interval(self, X: Any, level: float = 0.95, exposure: Any = None) -> tuple[Array, Array]:
        """Return whole numbers between which a new count lies, bounds included, with a probability of ``level``.

        It is at least that; as counts are whole numbers, it may be more.
        """
        check_level(level)
        X = self._new_rows(X)
        exposure, bounds = checked_exposure(exposure, X), np.empty((2, X.shape[0]))
        rng, size = np.random.default_rng(0), max(1, (1 << 22) // len(self.dispersion_samples_))
        for start in range(0, X.shape[0], size):
            some = slice(start, start + size)
            new = np.concatenate(list(self._new_responses(X[some], rng, exposure[some])))
            bounds[:, some] = np.quantile(new, [(1 - level) / 2, (1 + level) / 2], axis=0, method="inverted_cdf")
        return bounds[0], bounds[1]

    def score(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> float:
        """Return D^2, the share of the Poisson deviance that is explained, as scikit-learn's PoissonRegressor does."""
        predicted, y = self.predict(X, exposure), checked_counts(y)
        each = np.ones(len(y)) if exposure is None else checked_exposure(exposure, y[:, None])
        weight = np.ones(len(y)) if sample_weight is None else checked_weights(sample_weight, y[:, None])
        if not (rate := weight @ y / (weight @ each)):
            return 0.0  # nothing happened, and there is nothing to explain
        rest = mean_poisson_deviance(y, predicted, sample_weight=weight)
        total = mean_poisson_deviance(y, rate * each, sample_weight=weight)
        return float(1 - rest / total) if total else 0.0

    @property
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, predictors)."""
        return dense(self._samples)

    def _new_responses(self, X: Any, rng: np.random.Generator, exposure: Any = 1.0) -> Iterator[Array]:
        done = 0
        for part in scores([self._samples], self.intercept_samples_[:, None], X):
            r, done = self.dispersion_samples_[done : done + len(part), None], done + len(part)
            mean = np.exp(np.minimum(part[:, :, 0], LARGEST)) * exposure
            mean = np.minimum(mean, 1e15)  # there are no larger integers
            yield rng.poisson(rng.standard_gamma(r, mean.shape) * (mean / r))

    def _data(self, X: Any, y: Any, sample_weight: Any, exposure: Any, **options: Any) -> tuple[Any, Array, Array]:
        """Return X, counts and exposures side by side, and weights, after all checks."""
        x, y = self._checked(X, y, y_numeric=True, **options)
        return x, np.column_stack([checked_counts(y), checked_exposure(exposure, x)]), checked_weights(sample_weight, x)

    def _learn(self, rows: Rows) -> Self:
        """Sample from the posterior."""
        rng = self._generator()
        scale = rows.of_predictors(self.fit_intercept)
        (y, exposure), weight = rows.y.T, rows.weight
        family = Exposed(y, exposure, weight, self.fit_intercept)
        if scale.varies:
            draws = self._sample_family(rows, rows.unweighted(scale), family, scale, rng).draws
            self._describe(draws.effects, draws.beside["intercept"][:, 0], draws.beside["r"], scale)
        else:
            self._describe(np.zeros((1, 0)), family.intercepts(), np.array([family.start(rng)["r"]]), scale)
            self._describe_no_models(len(scale.x_mean))
        self._observations = rows  # only now, so that an interrupted call can be repeated
        return self._rounded()

    def _describe(self, samples: Samples, intercept: Array, dispersion: Array, scale: Scale) -> None:
        """Turn standardised draws into fitted attributes in the user's units."""
        self._samples = in_units(samples, scale)
        self.intercept_samples_ = intercept - self._samples @ scale.x_mean
        self.coef_, self.coef_std_ = moments_of(self._samples)
        self.intercept_ = float(self.intercept_samples_.mean())
        self.dispersion_samples_, self.dispersion_ = dispersion, float(np.median(dispersion))


def checked_counts(y: Any) -> Array:
    """Return counts as numbers; raise an error if there is a negative one, or a fraction."""
    found = np.asarray(column_or_1d(y), dtype=float)
    if len(bad := found[(found < 0) | (found != np.round(found))]):
        raise ValueError(
            f"counts must be whole numbers from 0 on, but {len(bad)} of {len(found)} values of y are not, such as "
            f"{bad[0]:g}: SparseBayesRegressor takes any numbers, and if these are counts per time or area, pass the "
            "counts as y and the times or areas as exposure"
        )
    if found.max(initial=0.0) > WHOLE:
        raise ValueError(f"counts must be below {WHOLE:g}, beyond which numbers are not whole: got {found.max():g}")
    return found


def checked_exposure(exposure: Any, x: Any) -> Array:
    """Return the exposure of each row; raise an error if one is not positive."""
    if exposure is None:
        return np.ones(x.shape[0])
    found = np.asarray(column_or_1d(exposure), dtype=float)
    check_consistent_length(found, x)
    if not (np.isfinite(found).all() and found.min() > 0):
        raise ValueError(f"exposure must be positive and finite, got {found.min():g} to {found.max():g}")
    return found
