"""Logistic and softmax regression with variable selection, as a scikit-learn estimator."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from sparse_langevin.linear import logistic
from sparse_langevin.linear.base import WATCHED, SparseBayes
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.likelihood import Data
from sparse_langevin.linear.moments import Scale
from sparse_langevin.linear.runner import Chains, run
from sparse_langevin.sampling.methods import method_named


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesClassifier(ClassifierMixin, SparseBayes):  # type: ignore[misc]
    """Logistic (two classes) or softmax regression with a spike-and-slab prior, sampled by Langevin dynamics.

    All parameters of `SparseBayesRegressor` have the same meaning here, except that ``v0`` and ``v1`` are in units of
    the scores (log-odds): by default 0.2/sqrt(n) and (pi^2/3) expected_r2/(1 - expected_r2)/expected_effects.

    Parameters
    ----------
    batch_size
        Number of observations in each step, chosen at random; None takes all of them. Minibatches make steps cheaper,
        but the posterior somewhat too wide.

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
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, rows of ``coef_``, predictors).
    intercept_samples_
        Posterior draws of the intercepts, of shape (draws, rows of ``coef_``).
    rhat_
        Largest R-hat of the monitored scores.
    ess_
        Smallest effective sample size of the monitored scores.
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

    batch_size: int | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to (n, p) predictors and n labels."""
        self._check_parameters()
        x, y = self._rows(X, y, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"the labels have one class only, {str(self.classes_[0])!r}: a classifier needs at least two"
            )
        return self._learn(x, labels)

    def decision_function(self, X: Any) -> Array:
        """Return the log-odds of the second of two classes; for more classes, the logarithms of all probabilities."""
        logarithm = np.log(np.maximum(self.predict_proba(X), 1e-300))
        scores: Array = logarithm[:, 1] - logarithm[:, 0] if logarithm.shape[1] == 2 else logarithm
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (rows, classes), averaged over the posterior."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        total = np.zeros((len(X), len(self.classes_)))
        for coefficients, intercept in zip(self.coef_samples_, self.intercept_samples_, strict=True):
            scores = X @ coefficients.T + intercept
            if scores.shape[1] == 1:
                scores = np.column_stack([np.zeros(len(X)), scores])
            scores = np.exp(scores - scores.max(1, keepdims=True))
            total += scores / scores.sum(1, keepdims=True)
        return total / len(self.coef_samples_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _learn(self, x: Array, labels: NDArray[np.intp]) -> Self:
        """Sample from the posterior; ``labels`` are indices of classes."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        order = rng.permutation(len(labels))  # so that the monitored observations are a random choice
        x, labels = x[order], labels[order]
        scale = Scale(len(x), x.mean(0), x.std(0), 0.0, 1.0)
        targets = np.arange(len(self.classes_))[:, None] == labels
        targets = targets[1:] if len(targets) == 2 else targets
        if not scale.used.any():
            return self._constant(targets, x.shape[1])
        z = np.ascontiguousarray((x[:, scale.used] - scale.x_mean[scale.used]) / scale.x_std[scale.used])
        chains = self._sample(z, targets.astype(float), rng)
        inclusion = chains.inclusion if method_named(self.method).selects else np.ones(z.shape[1])
        self._describe(chains.draws[0], chains.draws[1], inclusion, scale)
        self._report(chains)
        return self

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

    def _constant(self, targets: NDArray[np.bool_], p: int) -> Self:
        """Fit the share of each class alone, since no predictor varies."""
        share = np.clip(targets.mean(1), 1e-3, 1 - 1e-3)
        intercept = np.log(share) - np.log1p(-share) if len(share) == 1 else np.log(share)
        scale = Scale(1, np.zeros(p), np.zeros(p), 0.0, 1.0)
        self._describe(np.zeros((1, 1, len(share), 0)), intercept[None, None], np.zeros(0), scale)
        self.rhat_, self.ess_, self.n_steps_ = 1.0, np.inf, 0
        return self

    def _describe(self, w: Array, intercept: Array, inclusion: Array, scale: Scale) -> None:
        """Turn standardised draws into fitted attributes in the user's units."""
        rows, p, draws = w.shape[2], len(scale.x_mean), w.shape[0] * w.shape[1]
        coefficients = np.zeros((draws, rows, p))
        coefficients[..., scale.used] = w.reshape(draws, rows, -1) / scale.x_std[scale.used]
        self.coef_samples_ = coefficients
        self.intercept_samples_ = intercept.reshape(draws, rows) - coefficients @ scale.x_mean
        self.coef_, self.coef_std_ = coefficients.mean(0), coefficients.std(0)
        self.intercept_ = self.intercept_samples_.mean(0)
        self.inclusion_probability_ = np.zeros(p)
        self.inclusion_probability_[scale.used] = inclusion
