"""Logistic and softmax regression with variable selection, as a scikit-learn estimator."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets

from sparse_langevin.linear.by_steps import GIBBS, BySteps
from sparse_langevin.linear.checks import checked_weights
from sparse_langevin.linear.class_steps import class_chains
from sparse_langevin.linear.families.classes import Classes
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.moments import Rows, Scale
from sparse_langevin.linear.samples import Samples, dense, in_units, moments_of, scores
from sparse_langevin.runtime.threads import in_one_blas_thread
from sparse_langevin.runtime.warn import warn


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesClassifier(ClassifierMixin, BySteps):  # type: ignore[misc]
    """Logistic (two classes) or softmax regression with variable selection, and probabilities that are averages.

    The parameters of `SparseBayesRegressor` have the same meaning here, except that the Langevin methods' ``v0`` and
    ``v1`` are in units of the scores (log-odds): by default 0.2/sqrt(n) and
    (pi^2/3) expected_r2/(1 - expected_r2)/expected_effects. With ``method="gibbs"`` the coefficients are integrated out
    given Polya-Gamma variables; with several classes each has a model of its own.

    Parameters
    ----------
    class_weight
        None, ``"balanced"``, or a dictionary: what each observation of a class counts for, as in scikit-learn.
    batch_size
        Of the Langevin methods: number of observations in each step, chosen at random; None takes all of them.
        Minibatches make steps cheaper, but the posterior somewhat too wide.

    Attributes
    ----------
    classes_
        The labels, in the order of the columns of `predict_proba`.
    coef_
        Posterior means of the coefficients, of shape (1, predictors) for two classes, (classes, predictors) for more.
    coef_std_
        Posterior standard deviations of the coefficients, in the same shape.
    intercept_
        Posterior means of the intercepts, one per row of ``coef_``.
    inclusion_probability_
        Posterior probability that each predictor has an effect on at least one class.
    credible_sets_
        Sets of predictors of which at least one has an effect, see `CredibleSet`.
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, rows of ``coef_``, predictors).
    inclusion_samples_
        Which predictors are in the model of any class in each draw, a sparse boolean array (draws, predictors).
    intercept_samples_
        Posterior draws of the intercepts, of shape (draws, rows of ``coef_``).
    diagnostics_
        R-hat and effective number of draws of scores, inclusion, number and size of effects.
    rhat_
        The largest R-hat of these.
    ess_
        The smallest effective sample size of these.
    n_steps_
        Number of steps of each chain after burn-in.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = np.where(X[:, 3] + 0.3 * rng.standard_normal(100) > 0, "yes", "no")
    >>> model = SparseBayesClassifier(random_state=0).fit(X, y)
    >>> model.get_support(indices=True)
    array([3])
    """

    class_weight: Any = None
    batch_size: int | None = None

    @in_one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to (n, p) predictors and n labels; a weight says how often an observation counts."""
        self._check_parameters()
        self._observations: Rows | None = None
        x, y, weight = self._data(X, y, sample_weight, ensure_min_samples=2)
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                f"the labels have one class only, {str(self.classes_[0])!r}: a classifier needs at least two"
            )
        labels = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)  # larger ones have no weight
        return self._learn(Rows.of(x, labels, weight))

    @in_one_blas_thread
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add observations and sample again; the result is that of `fit` on all observations together.

        The first call needs all classes, unless `fit` was called before. A class without an observation so far is taken
        to be as likely as half an observation of it would make it.
        """
        self._check_parameters()
        before: Rows | None = getattr(self, "_observations", None)
        if _check_partial_fit_first_call(self, classes):
            before = None
        x, y, weight = self._data(X, y, sample_weight, reset=before is None)
        if len(new := np.setdiff1d(y, self.classes_)):
            raise ValueError(f"the label {str(new[0])!r} is not among the classes {', '.join(map(str, self.classes_))}")
        more = x, np.searchsorted(self.classes_, y), weight
        return self._learn(Rows.of(*(more if before is None else before.together(*more))))

    def decision_function(self, X: Any) -> Array:
        """Return the log-odds of the second of two classes; for more classes, the logarithms of all probabilities."""
        logarithm = self.predict_log_proba(X)
        found: Array = logarithm[:, 1] - logarithm[:, 0] if logarithm.shape[1] == 2 else logarithm
        return found

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities of the classes."""
        probability = self.predict_proba(X)
        logarithm: Array = np.log(np.maximum(probability, np.finfo(probability.dtype).tiny))
        return logarithm

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (rows, classes), averaged over the posterior."""
        X = self._new_rows(X)
        total = np.zeros((X.shape[0], len(self.classes_)))
        for part in self._scores(X):
            part = np.exp(part - part.max(2, keepdims=True))
            total += (part / part.sum(2, keepdims=True)).sum(0)
        precise: Array = self._as_precise(total / len(self.intercept_samples_), X)
        return precise

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @property
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, rows of ``coef_``, predictors)."""
        return np.stack([dense(samples) for samples in self._samples], axis=1)

    def _scores(self, X: Any) -> Iterator[Array]:
        """Yield scores of all classes, (draws, rows, classes), of some draws at a time."""
        for part in scores(self._samples, self.intercept_samples_, X):
            yield np.concatenate([np.zeros_like(part), part], axis=2) if part.shape[2] == 1 else part

    def _new_responses(self, X: Any, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
        for part in self._scores(X):
            yield (part + rng.gumbel(size=part.shape)).argmax(2)

    def _each(self) -> list[Samples]:
        return self._samples

    def _coded(self, y: Any) -> NDArray[Any]:
        places: NDArray[np.intp] = np.searchsorted(self.classes_, y)
        return places

    @property
    def _exact(self) -> bool:
        return self.method == GIBBS.name and self.batch_size is None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method == GIBBS.name and self.batch_size is not None:
            warn(
                "method='gibbs' has no minibatches: method='psgld-sa' is used instead, as before. Write so, or leave "
                "batch_size out.",
                FutureWarning,
            )

    def _data(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, NDArray[Any], Array]:
        """Return X, labels and weights after all checks."""
        x, y = self._checked(X, y, **options)
        check_classification_targets(y)
        return x, y, checked_weights(sample_weight, x)

    def _class_weights(self, counts: Array) -> Array:
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            balanced: Array = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1e-300))
            return balanced
        found: Array = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return found

    def _learn(self, rows: Rows) -> Self:
        """Sample from the posterior; the responses of ``rows`` are indices of classes."""
        rng, count, kept = self._generator(), len(self.classes_), rows
        if self.class_weight is not None:
            factor = self._class_weights(np.bincount(rows.y, rows.weight, count).astype(float))
            rows = Rows(rows.x, rows.y, rows.weight * factor[rows.y], rows=True)
        scale = rows.of_predictors(self.fit_intercept)
        seen, labels = np.unique(rows.y, return_inverse=True)
        if len(seen) == 1 or not scale.varies:
            self._constant(np.bincount(rows.y, rows.weight, count).astype(float), scale)
        else:
            samples, intercept = (self._models if self._exact else self._steps)(rows, labels, scale, rng)
            if len(seen) < count:
                samples, intercept = with_unseen(samples, intercept, seen, count, scale.size)
            self._describe(samples, intercept, scale)
        self._observations = kept  # only now, so that an interrupted call can be repeated
        return self._rounded()

    def _models(
        self, rows: Rows, labels: NDArray[np.intp], scale: Scale, rng: np.random.Generator
    ) -> tuple[list[Samples], Array]:
        """Sample models, with the coefficients integrated out; return coefficients of each score, and intercepts."""
        family = Classes(labels, rows.weight, self.fit_intercept)
        draws = self._sample_family(rows, rows.unweighted(scale), family, scale, rng).draws
        p = draws.effects.shape[1] // family.responses
        return [draws.effects[:, k * p : (k + 1) * p] for k in range(family.responses)], draws.beside["intercept"]

    def _steps(
        self, rows: Rows, labels: NDArray[np.intp], scale: Scale, rng: np.random.Generator
    ) -> tuple[list[Samples], Array]:
        """Sample by Langevin steps, and return the same."""
        if len(part := rows.weight[rows.weight != np.floor(rows.weight)]):
            raise ValueError(
                f"weights that are no whole numbers, such as {part[0]:g}, need method='gibbs', got "
                f"method={self.method!r}"
            )
        # On the scale of the scores the noise has standard deviation pi/sqrt(3), and n observations are worth n/4.
        signal = math.pi**2 / 3 * self.expected_r2 / (1 - self.expected_r2)
        p = int(scale.used.sum())
        hyper = self._hyper(p, 0.2 / math.sqrt(scale.size), signal)
        hyper = hyper._replace(jumps=max(5, p // 20))  # here they cost more than a Langevin step
        chains = class_chains(rows, labels, scale, hyper, self.batch_size, self._plan(), rng, self._workers())
        self.inclusion_probability_ = np.zeros(len(scale.x_mean))
        self.inclusion_probability_[scale.used] = chains.inclusion if hyper.spike_slab else 1.0
        self._report(chains)
        w, intercept = chains.draws
        return list(np.moveaxis(w.reshape(-1, *w.shape[2:]), 1, 0)), intercept.reshape(-1, intercept.shape[2])

    def _constant(self, counts: Array, scale: Scale) -> None:
        """Fit the share of each class alone, since no predictor varies."""
        share = np.clip(counts / counts.sum(), 1e-3, 1 - 1e-3)
        intercept = np.log(share[1:]) - np.log1p(-share[1:]) if len(share) == 2 else np.log(share)
        self._describe([np.zeros((1, int(scale.used.sum())))] * len(intercept), intercept[None], scale)
        self._describe_no_models(len(scale.x_mean))

    def _describe(self, samples: list[Samples], intercept: Array, scale: Scale) -> None:
        """Turn standardised draws, one array for each row of ``coef_``, into fitted attributes in the user's units."""
        self._samples = [in_units(part, scale) for part in samples]
        shift = np.column_stack([part @ scale.x_mean for part in self._samples])
        self.intercept_samples_ = intercept - shift
        moments = [moments_of(part) for part in self._samples]
        self.coef_, self.coef_std_ = np.array([mean for mean, _ in moments]), np.array([std for _, std in moments])
        self.intercept_ = self.intercept_samples_.mean(0)


def with_unseen(
    samples: list[Samples], intercept: Array, seen: NDArray[Any], count: int, size: float
) -> tuple[list[Samples], Array]:
    """Add classes of which there is no observation: as likely as half of one in ``size``, whatever the predictors."""
    nothing = 0.0 * samples[0]
    if len(seen) == 2:
        samples, intercept = [nothing, samples[0]], np.column_stack([np.zeros(len(intercept)), intercept])
    place = {int(k): i for i, k in enumerate(seen)}
    rare = logsumexp(intercept, axis=1) + math.log(0.5 / size)
    found = [samples[place[k]] if k in place else nothing for k in range(count)]
    return found, np.column_stack([intercept[:, place[k]] if k in place else rare for k in range(count)])
