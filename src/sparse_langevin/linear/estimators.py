"""Variable selection with uncertainty, as scikit-learn estimators: more predictors than observations are welcome."""

import math
import os
import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sparse_langevin.linear import gaussian, logistic
from sparse_langevin.linear.gaussian import Array, Hyper
from sparse_langevin.linear.moments import Moments, Scale, from_moments, standardise
from sparse_langevin.linear.runner import Chains, Plan, run

Method = Literal["psgld-sa", "sgld-sa", "psgld", "sgld"]
METHODS = ("psgld-sa", "sgld-sa", "psgld", "sgld")
WATCHED = 12  # observations whose predictions are watched for convergence


class _SparseBayes(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """What the regressor and the classifier share: parameters, the model's scales, selection."""

    def __init__(
        self,
        method: Method = "psgld-sa",
        *,
        expected_effects: float = 10.0,
        expected_r2: float = 0.75,
        v0: float | None = None,
        v1: float | None = None,
        threshold: float = 0.5,
        n_chains: int = 4,
        burn_in: int = 2000,
        max_steps: int = 20_000,
        target_rhat: float = 1.02,
        target_ess: float = 400.0,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.expected_effects = expected_effects
        self.expected_r2 = expected_r2
        self.v0 = v0
        self.v1 = v1
        self.threshold = threshold
        self.n_chains = n_chains
        self.burn_in = burn_in
        self.max_steps = max_steps
        self.target_rhat = target_rhat
        self.target_ess = target_ess
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        chosen: NDArray[np.bool_] = self.inclusion_probability_ > self.threshold
        return chosen

    def _hyper(self, p: int, spike: float, slab: float) -> Hyper:
        """The prior for p standardised predictors; ``spike`` and ``slab`` are the default scales."""
        _check_parameters(self)
        share = min(0.5, self.expected_effects / p)
        return Hyper(
            v0=spike if self.v0 is None else self.v0,
            slab=slab / max(share * p, 1.0) if self.v1 is None else self.v1,
            a=share * p,
            b=(1 - share) * p,
            nu=1.0,
            lambda_=1 - self.expected_r2,
            prior_variance=slab / p,
            spike_slab=self.method.endswith("-sa"),
            precondition=self.method.startswith("p"),
            jumps=max(30, p // 20),  # fewer leave correlated predictors stuck in one of several models
        )

    def _plan(self) -> Plan:
        return Plan(self.n_chains, self.burn_in, self.max_steps, self.target_rhat, self.target_ess)

    def _workers(self) -> int:
        cores = os.cpu_count() or 1
        return cores if self.n_jobs in (None, -1) else max(1, int(self.n_jobs))

    def _report(self, chains: Chains) -> None:
        """Keep the diagnostics, and say so if the chains have not converged."""
        self.rhat_, self.ess_, self.n_steps_ = chains.rhat, chains.ess, chains.steps
        if chains.rhat > self.target_rhat or chains.ess < self.target_ess:
            warnings.warn(
                f"after {chains.steps} steps the predictions of {self.n_chains} chains have R-hat {chains.rhat:.3f} "
                f"(wanted: at most {self.target_rhat:g}) and an effective sample size of {chains.ess:.0f} (wanted: "
                f"{self.target_ess:g}). Means are usually fine; intervals may be rough. Raise max_steps, or lower the "
                "targets.",
                ConvergenceWarning,
                stacklevel=3,
            )


class SparseBayesRegressor(RegressorMixin, _SparseBayes):  # type: ignore[misc]
    """Linear regression under a spike-and-slab prior, sampled by Langevin dynamics.

    Predictors and response are standardised inside. The prior expects about ``expected_effects`` predictors to matter,
    and these to explain about ``expected_r2`` of the variance; neither has to be near the truth. Which ones matter is
    learned, with a probability for each.

    Parameters
    ----------
    method
        ``"psgld-sa"``: preconditioned Langevin steps, spike-and-slab prior. ``"sgld-sa"``: without preconditioner.
        ``"psgld"`` and ``"sgld"``: a Gaussian prior, which selects nothing (all inclusion probabilities are 1).
    expected_effects, expected_r2
        Prior guesses; they set the width of the slab v1 and the prior of the share of effects.
    v0, v1
        Scale of the spike in units of sigma, and variance of the slab in units of the response's, for standardised
        predictors. By default 0.1/sqrt(n), a tenth of what the data can resolve, and expected_r2/expected_effects.
    threshold
        A predictor is chosen if its inclusion probability is larger.
    n_chains, burn_in, max_steps
        Chains, their steps of burn-in, and the most steps after it.
    target_rhat, target_ess
        Sampling ends when R-hat and effective sample size of the predictions reach these.
    n_jobs
        Threads; one per core unless given.
    random_state
        A seed, or a NumPy RandomState.

    Attributes
    ----------
    coef_, coef_std_, intercept_
        Posterior means and standard deviations.
    inclusion_probability_
        Posterior probability of each predictor to have an effect.
    sigma_
        Standard deviation of the noise.
    coef_samples_, intercept_samples_
        Posterior draws, (draws, predictors) and (draws,).
    rhat_, ess_, n_steps_
        Worst R-hat and effective sample size over predictions; steps of each chain.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 100))
    >>> y = 2 * X[:, 3] + 0.5 * rng.standard_normal(50)
    >>> model = SparseBayesRegressor(random_state=0).fit(X, y)
    >>> model.get_support(indices=True)
    array([3])
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to (n, p) predictors and n responses."""
        X, y = validate_data(
            self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
        self._moments: Moments | None = None
        return self._sample(*standardise(_dense(X), np.asarray(y, dtype=float)))

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Take in more observations, and sample again: the result is that of `fit` on all of them together."""
        moments: Moments | None = getattr(self, "_moments", None)
        X, y = validate_data(
            self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, y_numeric=True, reset=moments is None
        )
        more = Moments.of(_dense(X), np.asarray(y, dtype=float))
        if moments is not None:
            moments.add(more)
        self._moments = moments or more
        return self._sample(*from_moments(self._moments))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Posterior mean of the response; with ``return_std`` also the standard deviation of a new observation."""
        check_is_fitted(self)
        X = _dense(validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False))
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        return mean, np.sqrt(self._draws(X).var(0) + self.sigma_**2)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Bounds between which a new observation lies with probability ``level``."""
        _check_level(level)
        check_is_fitted(self)
        X = _dense(validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False))
        draws = self._draws(X)
        noise = np.random.default_rng(0).standard_normal((len(draws), 1))  # the same for all rows: bounds are smooth
        lower, upper = np.quantile(draws + self.sigma_ * noise, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper

    def coef_interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Equal-tailed posterior intervals of the coefficients."""
        _check_level(level)
        check_is_fitted(self)
        lower, upper = np.quantile(self.coef_samples_, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper

    def _draws(self, X: Array) -> Array:
        """Expected responses under each posterior draw, (draws, rows)."""
        draws: Array = self.coef_samples_ @ X.T + self.intercept_samples_[:, None]
        return draws

    def _sample(self, data: gaussian.Data | None, scale: Scale) -> Self:
        hyper = self._hyper(max(int(scale.used.sum()), 1), 0.1 / math.sqrt(scale.size), self.expected_r2)
        if data is None:  # nothing varies: the mean is all there is to say
            used = int(scale.used.sum())
            self._describe(np.zeros((1, 1, used)), np.full((1, 1), float(not used)), np.zeros(used), scale)
            self.rhat_, self.ess_, self.n_steps_ = 1.0, np.inf, 0
            return self
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        states = [gaussian.initial_state(data, hyper, rng) for _ in range(self.n_chains)]
        watched = data.x[:: max(1, len(data.x) // WATCHED)]
        plan, workers = self._plan(), self._workers()
        chains = run(gaussian.advance, data, hyper, states, plan, lambda draws: draws[0] @ watched.T, rng, workers)
        inclusion = chains.inclusion if hyper.spike_slab else np.ones(int(scale.used.sum()))
        self._describe(chains.draws[0], chains.draws[1], inclusion, scale)
        self._report(chains)
        return self

    def _describe(self, beta: Array, sigma: Array, inclusion: Array, scale: Scale) -> None:
        """Turn standardised draws into fitted attributes in the user's units."""
        p, draws = len(scale.x_mean), beta.shape[0] * beta.shape[1]
        coefficients = np.zeros((draws, p))
        factor = scale.y_std / scale.x_std[scale.used]
        coefficients[:, scale.used] = beta.reshape(draws, -1) * factor
        self.sigma_ = float(np.sqrt(np.mean(sigma**2))) * scale.y_std
        shift = np.random.default_rng(1).standard_normal(draws) * self.sigma_ / math.sqrt(scale.size)
        self.coef_samples_ = coefficients
        self.intercept_samples_ = scale.y_mean - coefficients @ scale.x_mean + shift
        self.coef_, self.coef_std_ = coefficients.mean(0), coefficients.std(0)
        self.intercept_ = float(scale.y_mean - self.coef_ @ scale.x_mean)
        self.inclusion_probability_ = np.zeros(p)
        self.inclusion_probability_[scale.used] = inclusion


class SparseBayesClassifier(ClassifierMixin, _SparseBayes):  # type: ignore[misc]
    """Logistic (two classes) or softmax regression under a spike-and-slab prior, sampled by Langevin dynamics.

    Parameters, attributes and methods are those of `SparseBayesRegressor` where they make sense.

    Parameters
    ----------
    batch_size
        Observations per step; all unless given. With minibatches the posterior is somewhat too wide.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> y = np.where(X[:, 3] + 0.3 * rng.standard_normal(100) > 0, "yes", "no")
    >>> model = SparseBayesClassifier(random_state=0).fit(X, y)
    >>> model.get_support(indices=True)
    array([3])
    """

    def __init__(
        self,
        method: Method = "psgld-sa",
        *,
        expected_effects: float = 10.0,
        expected_r2: float = 0.75,
        v0: float | None = None,
        v1: float | None = None,
        threshold: float = 0.5,
        n_chains: int = 4,
        burn_in: int = 2000,
        max_steps: int = 20_000,
        target_rhat: float = 1.02,
        target_ess: float = 400.0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            method,
            expected_effects=expected_effects,
            expected_r2=expected_r2,
            v0=v0,
            v1=v1,
            threshold=threshold,
            n_chains=n_chains,
            burn_in=burn_in,
            max_steps=max_steps,
            target_rhat=target_rhat,
            target_ess=target_ess,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to (n, p) predictors and n labels."""
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"the labels have one class only, {str(self.classes_[0])!r}: a classifier needs two or more"
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        order = rng.permutation(len(y))  # minibatches are runs of rows
        x, labels = _dense(X)[order], labels[order]
        scale = Scale(len(x), x.mean(0), x.std(0), 0.0, 1.0)
        used = scale.used
        z = (x[:, used] - scale.x_mean[used]) / scale.x_std[used]
        targets = np.arange(len(self.classes_))[:, None] == labels
        targets = targets[1:] if len(targets) == 2 else targets
        # On the scale of the scores noise has standard deviation pi/sqrt(3), and n observations inform like n/4.
        signal = math.pi**2 / 3 * self.expected_r2 / (1 - self.expected_r2)
        hyper = self._hyper(max(z.shape[1], 1), 0.2 / math.sqrt(len(x)), signal)
        hyper = hyper._replace(jumps=max(5, z.shape[1] // 20))  # they cost more here than a Langevin step
        if not used.any():
            return self._constant(targets, x.shape[1])
        batch = len(z) if self.batch_size is None else min(int(self.batch_size), len(z))
        data = logistic.Data(np.ascontiguousarray(z), np.ascontiguousarray(z.T), targets.astype(float), batch)
        states = [logistic.initial_state(data, hyper, rng) for _ in range(self.n_chains)]
        watched = z[:: max(1, len(z) // WATCHED)]

        def watch(draws: list[Array]) -> Array:
            """Scores of some observations; those of several classes matter only up to a common shift."""
            scores: Array = draws[0] @ watched.T + draws[1][..., None]
            return scores if scores.shape[2] == 1 else scores - scores.mean(2, keepdims=True)

        chains = run(logistic.advance, data, hyper, states, self._plan(), watch, rng, self._workers())
        inclusion = chains.inclusion if hyper.spike_slab else np.ones(int(used.sum()))
        self._describe(chains.draws[0], chains.draws[1], inclusion, scale)
        self._report(chains)
        return self

    def decision_function(self, X: Any) -> Array:
        """Logarithms of the probabilities' odds (two classes, shape (rows,)) or of the probabilities."""
        logarithm = np.log(np.maximum(self.predict_proba(X), 1e-300))
        scores: Array = logarithm[:, 1] - logarithm[:, 0] if logarithm.shape[1] == 2 else logarithm
        return scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, averaged over the posterior."""
        check_is_fitted(self)
        X = _dense(validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False))
        total = np.zeros((len(X), len(self.classes_)))
        for coefficients, intercept in zip(self.coef_samples_, self.intercept_samples_, strict=True):
            scores = X @ coefficients.T + intercept
            if scores.shape[1] == 1:
                scores = np.column_stack([np.zeros(len(X)), scores])
            scores = np.exp(scores - scores.max(1, keepdims=True))
            total += scores / scores.sum(1, keepdims=True)
        return total / len(self.coef_samples_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class."""
        best = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def _constant(self, targets: NDArray[np.bool_], p: int) -> Self:
        """No predictor varies: the classes' shares are all there is to say."""
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


def _dense(X: Any) -> Array:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")


def _check_parameters(model: _SparseBayes) -> None:
    """Raise if a parameter makes no sense."""
    if model.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {model.method!r}")
    if not 0 < model.expected_r2 < 1:
        raise ValueError(f"expected_r2 must lie between 0 and 1, got {model.expected_r2!r}")
    if not 0 <= model.threshold < 1:
        raise ValueError(f"threshold must lie in [0, 1), got {model.threshold!r}")
    for name in ("expected_effects", "v0", "v1", "target_rhat"):
        value = getattr(model, name)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value!r}")
    for name, least in (("n_chains", 1), ("burn_in", 1), ("max_steps", 1)):
        if getattr(model, name) < least:
            raise ValueError(f"{name} must be at least {least}, got {getattr(model, name)!r}")
