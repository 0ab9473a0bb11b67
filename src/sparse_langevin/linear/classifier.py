"""Logistic and softmax regression with variable selection, as a scikit-learn estimator."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sparse_langevin.linear import augmented, logistic
from sparse_langevin.linear.base import GIBBS, WATCHED, SparseBayes, check_level, checked_weights
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.families.classes import Classes
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.likelihood import Data
from sparse_langevin.linear.moments import Scale, distinct, mean_and_std
from sparse_langevin.linear.runner import Chains, run
from sparse_langevin.linear.samples import Samples, in_units, moments_of, quantiles
from sparse_langevin.linear.settling import settle
from sparse_langevin.runtime.warn import warn

PIECE = 200  # draws whose scores are in memory at a time


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesClassifier(ClassifierMixin, SparseBayes):  # type: ignore[misc]
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to (n, p) predictors and n labels; a weight says how often an observation counts."""
        self._check_parameters()
        x, y = validate_data(
            self, X, y, accept_sparse=("csc", "csr"), dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        check_classification_targets(y)
        weight = checked_weights(sample_weight, x)
        counted = weight > 0
        x, weight = x[counted], weight[counted]
        self.classes_, labels = np.unique(y[counted], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"the labels have one class only, {str(self.classes_[0])!r}: a classifier needs at least two"
            )
        x, labels, weight = distinct(x, labels, weight)
        if self.class_weight is not None:
            weight = weight * self._class_weights(np.bincount(labels, weight).astype(float))[labels]
        return self._learn(x, labels, weight)

    def decision_function(self, X: Any) -> Array:
        """Return the log-odds of the second of two classes; for more classes, the logarithms of all probabilities."""
        logarithm = self.predict_log_proba(X)
        scores: Array = logarithm[:, 1] - logarithm[:, 0] if logarithm.shape[1] == 2 else logarithm
        return scores

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities of the classes."""
        logarithm: Array = np.log(np.maximum(self.predict_proba(X), 1e-300))
        return logarithm

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (rows, classes), averaged over the posterior."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        total = np.zeros((len(X), len(self.classes_)))
        rows = len(self.intercept_)
        for start in range(0, len(self.intercept_samples_), PIECE):
            part = slice(start, start + PIECE)
            scores = np.stack([samples[part] @ X.T for samples in self._samples], axis=2)
            scores += self.intercept_samples_[part, None, :]
            if rows == 1:
                scores = np.concatenate([np.zeros_like(scores), scores], axis=2)
            scores = np.exp(scores - scores.max(2, keepdims=True))
            total += (scores / scores.sum(2, keepdims=True)).sum(0)
        return total / len(self.intercept_samples_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def coef_interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the equal-tailed posterior intervals of the coefficients, in the shape of ``coef_``."""
        check_level(level)
        check_is_fitted(self)
        bounds = np.stack([quantiles(samples, [(1 - level) / 2, (1 + level) / 2]) for samples in self._samples], axis=1)
        return bounds[0], bounds[1]

    @property
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, rows of ``coef_``, predictors)."""
        dense = [samples.toarray() if sparse.issparse(samples) else samples for samples in self._samples]
        return np.stack(dense, axis=1)

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

    def _class_weights(self, counts: Array) -> Array:
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            balanced: Array = counts.sum() / (len(counts) * counts)
            return balanced
        found: Array = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return found

    def _learn(self, x: Any, labels: NDArray[np.intp], weight: Array) -> Self:
        """Sample from the posterior; ``labels`` are indices of classes."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        x_mean, x_std = mean_and_std(x, weight, self.fit_intercept)
        scale = Scale(float(weight.sum()), x_mean, x_std, 0.0, 1.0)
        if not scale.used.any():
            return self._constant(labels, weight, scale)
        (self._learn_models if self._exact else self._learn_by_steps)(x, labels, weight, scale, rng)
        return self

    def _learn_models(
        self, x: Any, labels: NDArray[np.intp], weight: Array, scale: Scale, rng: np.random.Generator
    ) -> None:
        """Sample models, with the coefficients integrated out."""
        used = np.flatnonzero(scale.used)
        index = None if len(used) == x.shape[1] else used
        design = Design(x.tocsc() if sparse.issparse(x) else x, scale.x_mean[used], scale.x_std[used], index)
        groups = self._groups(scale.used)
        problem = augmented.Problem(design, Classes(labels, weight, self.fit_intercept), groups)
        watched = rng.permutation(len(labels))[:WATCHED]
        regressions = [augmented.AugmentedRegression(problem, own) for own in rng.spawn(self.n_chains)]
        posterior = settle(problem, regressions, self._plan(), watched, rng, self._workers())
        draws, p = posterior.draws, design.size
        samples = [draws.effects[:, k * p : (k + 1) * p] for k in range(problem.family.responses)]
        self._describe(samples, draws.beside["intercept"], scale)
        self._describe_models(posterior, design, used, x.shape[1], groups)

    def _learn_by_steps(
        self, x: Any, labels: NDArray[np.intp], weight: Array, scale: Scale, rng: np.random.Generator
    ) -> None:
        """Sample by Langevin steps."""
        if (weight != np.floor(weight)).any():
            raise ValueError(
                f"weights that are no whole numbers, such as {weight[weight != np.floor(weight)][0]:g}, need "
                f"method='gibbs', got method={self.method!r}"
            )
        x = np.repeat(x.toarray() if sparse.issparse(x) else x.astype(float), weight.astype(int), axis=0)
        labels = np.repeat(labels, weight.astype(int))
        order = rng.permutation(len(labels))  # so that the monitored observations are a random choice
        x, labels = x[order], labels[order]
        targets = np.arange(len(self.classes_))[:, None] == labels
        targets = targets[1:] if len(targets) == 2 else targets
        z = np.ascontiguousarray((x[:, scale.used] - scale.x_mean[scale.used]) / scale.x_std[scale.used])
        chains = self._sample(z, targets.astype(float), rng)
        w, intercept = chains.draws
        samples = list(np.moveaxis(w.reshape(-1, *w.shape[2:]), 1, 0))
        self._describe(samples, intercept.reshape(-1, intercept.shape[2]), scale)
        self.inclusion_probability_ = np.zeros(x.shape[1])
        self.inclusion_probability_[scale.used] = chains.inclusion if self._steps_method().selects else 1.0
        self._report(chains)

    def _sample(self, z: Array, targets: Array, rng: np.random.Generator) -> Chains:
        """Run the chains on standardised predictors."""
        n, p = z.shape
        # On the scale of the scores the noise has standard deviation pi/sqrt(3), and n observations are worth n/4.
        signal = math.pi**2 / 3 * self.expected_r2 / (1 - self.expected_r2)
        hyper = self._hyper(p, 0.2 / math.sqrt(n), signal)
        hyper = hyper._replace(jumps=max(5, p // 20))  # here they cost more than a Langevin step
        batch = n if self.batch_size is None else min(int(self.batch_size), n)
        data = Data(z, np.ascontiguousarray(z.T), targets, batch)
        states = [logistic.initial_state(data, hyper, rng) for _ in range(self.n_chains)]
        watched = z[:: max(1, n // WATCHED)]

        def watch(draws: list[Array]) -> Array:
            """Return the scores of some observations; with several classes a common shift does not matter."""
            scores: Array = draws[0] @ watched.T + draws[1][..., None]
            return scores if scores.shape[2] == 1 else scores - scores.mean(2, keepdims=True)

        return run(logistic.advance, data, hyper, states, self._plan(), watch, rng, self._workers())

    def _constant(self, labels: NDArray[np.intp], weight: Array, scale: Scale) -> Self:
        """Fit the share of each class alone, since no predictor varies."""
        share = np.clip(np.bincount(labels, weight) / weight.sum(), 1e-3, 1 - 1e-3)
        intercept = np.log(share[1:]) - np.log1p(-share[1:]) if len(share) == 2 else np.log(share)
        self._describe([np.zeros((1, 0))] * len(intercept), intercept[None], scale)
        self._describe_no_models(len(scale.x_mean))
        self.rhat_, self.ess_, self.n_steps_ = 1.0, np.inf, 0
        return self

    def _describe(self, samples: list[Samples], intercept: Array, scale: Scale) -> None:
        """Turn standardised draws, one array for each row of ``coef_``, into fitted attributes in the user's units."""
        self._samples = [in_units(part, scale) for part in samples]
        shift = np.column_stack([part @ scale.x_mean for part in self._samples])
        self.intercept_samples_ = intercept - shift
        moments = [moments_of(part) for part in self._samples]
        self.coef_, self.coef_std_ = np.array([mean for mean, _ in moments]), np.array([std for _, std in moments])
        self.intercept_ = self.intercept_samples_.mean(0)
