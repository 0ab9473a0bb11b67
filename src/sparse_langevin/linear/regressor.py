"""Linear regression with variable selection, as a scikit-learn estimator; there may be more predictors than rows."""

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparse_langevin.linear import gaussian
from sparse_langevin.linear.base import WATCHED, SparseBayes, check_level
from sparse_langevin.linear.collapsed import Problem
from sparse_langevin.linear.credible import CredibleSet, credible_sets, summary
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.moments import Observations, Scale, observed
from sparse_langevin.linear.polygenic import Background, affordable
from sparse_langevin.linear.runner import run
from sparse_langevin.linear.samples import Samples, in_units, mean_and_std, models, quantiles
from sparse_langevin.linear.settling import settle
from sparse_langevin.runtime.warn import warn
from sparse_langevin.sampling.methods import Method, method_named

GIBBS = Method("gibbs", preconditioned=False, selects=True)


class SparseBayesRegressor(RegressorMixin, SparseBayes):  # type: ignore[misc]
    """Linear regression with a spike-and-slab prior, sampled by Langevin dynamics.

    Predictors and response are standardised internally. The prior expects that about ``expected_effects`` predictors
    matter and that they explain about ``expected_r2`` of the variance; neither guess has to be close to the truth. For
    each predictor the probability that it matters is learned.

    Parameters
    ----------
    method
        ``"psgld-sa"``: preconditioned Langevin steps and a spike-and-slab prior. ``"sgld-sa"``: the same without the
        preconditioner. ``"psgld"`` and ``"sgld"``: a Gaussian prior, which selects nothing (all inclusion
        probabilities are 1). ``"gibbs"``: coefficients that are either zero or normal, integrated out of a chain over
        models (weighted tempered Gibbs sampling); how many effects there are and how large they are is learned, many
        small ones included, and predictors that stand for one effect are named in ``credible_sets_``.
    expected_effects
        Rough number of predictors that matter; it sets the prior of the share of effects, and the width of the slab.
    expected_r2
        Rough share of the response's variance that they explain, between 0 and 1; it sets the width of the slab.
    v0
        Scale of the spike for standardised predictors, in units of the noise's standard deviation. The default is
        0.1/sqrt(n), a tenth of what n observations can resolve.
    v1
        Variance of the slab for standardised predictors, in units of the response's variance. The default is
        expected_r2/expected_effects.
    threshold
        A predictor is chosen if its inclusion probability is larger than this.
    n_chains
        Number of chains.
    burn_in
        Number of steps at the beginning of each chain that are discarded.
    max_steps
        Largest number of steps of each chain after burn-in.
    target_rhat
        Sampling ends when R-hat of the predictions is at most this and their effective sample size is large enough.
    target_ess
        The effective sample size at which sampling may end.
    n_jobs
        Number of chains that run at the same time, each in a thread. As everywhere in scikit-learn, None means 1 unless
        a `joblib.parallel_config` says otherwise, and -1 uses all cores. The results do not depend on it.
    random_state
        A seed, or a NumPy RandomState.

    Attributes
    ----------
    coef_
        Posterior means of the coefficients.
    coef_std_
        Posterior standard deviations of the coefficients.
    intercept_
        Posterior mean of the intercept.
    inclusion_probability_
        Posterior probability that each predictor has an effect.
    sigma_
        Standard deviation of the noise.
    credible_sets_
        With ``method="gibbs"``: sets of predictors of which at least one has an effect, see `CredibleSet`.
        `get_support` chooses one representative of each, beside all predictors above the threshold.
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, predictors).
    inclusion_samples_
        With ``method="gibbs"``: which predictors are in the model in each draw, small effects of all of them apart; a
        sparse boolean array of shape (draws, predictors). It has all draws, of which ``coef_samples_`` may have a part.
    intercept_samples_
        Posterior draws of the intercept, of shape (draws,).
    rhat_
        Largest R-hat of the monitored predictions.
    ess_
        Smallest effective sample size of the monitored predictions.
    n_steps_
        Number of steps of each chain after burn-in.

    Notes
    -----
    So that `partial_fit` can continue after `fit`, the estimator keeps a copy of the n observations while n is at most
    the number of predictors p, and their second moments beyond that: at most (p + 1)^2 numbers, also in its pickle.

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
        """Fit the model to (n, p) predictors and n responses."""
        self._check_parameters()
        self._observations: Observations | None = None
        x, y = self._data(X, y, ensure_min_samples=2)
        return self._learn(observed(x, np.asarray(y, dtype=float)))

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Add observations and sample again; the result is that of `fit` on all observations together."""
        self._check_parameters()
        before: Observations | None = getattr(self, "_observations", None)
        x, y = self._data(X, y, reset=before is None)
        more = x, np.asarray(y, dtype=float)
        return self._learn(observed(*more) if before is None else before.plus(*more))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the posterior mean; with ``return_std`` also the standard deviation of a new observation."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        return mean, np.sqrt(self._draws(X).var(0) + self.sigma_**2)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the bounds between which a new observation lies with probability ``level``."""
        check_level(level)
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        draws = self._draws(X)
        noise = np.random.default_rng(0).standard_normal((len(draws), 1))  # the same for all rows, for smooth bounds
        lower, upper = np.quantile(draws + self.sigma_ * noise, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper

    def coef_interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the equal-tailed posterior intervals of the coefficients."""
        check_level(level)
        check_is_fitted(self)
        lower, upper = quantiles(self._samples, [(1 - level) / 2, (1 + level) / 2])
        return lower, upper

    @property
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, predictors)."""
        draws: Array = self._samples.toarray() if sparse.issparse(self._samples) else self._samples
        return draws

    def _draws(self, X: Array) -> Array:
        """Return the expected responses under each posterior draw, of shape (draws, rows)."""
        draws: Array = self._samples @ X.T + self.intercept_samples_[:, None]
        return draws

    def _method(self) -> Method:
        return method_named(self.method, also=[GIBBS])

    def _data(self, X: Any, y: Any, **options: Any) -> Any:
        """Return X and y after scikit-learn's checks; for exact sampling X stays sparse, and in its precision."""
        if self.method != GIBBS.name:
            return self._rows(X, y, y_numeric=True, **options)
        kinds = [np.float64, np.float32]
        return validate_data(self, X, y, accept_sparse=("csc", "csr"), dtype=kinds, y_numeric=True, **options)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        chosen = super()._get_support_mask()
        for group in getattr(self, "credible_sets_", ()):
            chosen[group.representative] = True
        if not chosen.any() and len(getattr(self, "_summary", ())):
            chosen[self._summary] = True
            warn(
                "predictors matter, but it cannot be told which: the inclusion probability of none is above "
                f"{self.threshold:g}, and no credible set stands for an effect. The {len(self._summary)} chosen ones "
                "together reproduce 90 % of the variance of the predictions; others may do so as well.",
                UserWarning,
            )
        return chosen

    def _learn(self, observations: Observations) -> Self:
        """Sample from the posterior given all observations so far."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        learn = self._learn_exactly if self.method == GIBBS.name else self._learn_by_steps
        learn(observations, rng)
        self._observations = observations  # only now, so that an interrupted call can be repeated
        return self

    def _learn_by_steps(self, observations: Observations, rng: np.random.Generator) -> None:
        """Sample by Langevin steps."""
        data, scale = observations.standardised()
        if data is None:
            return self._describe_a_constant(scale)
        hyper = self._hyper(len(data.square), 0.1 / math.sqrt(scale.size), self.expected_r2)
        states = [gaussian.initial_state(data, hyper, rng) for _ in range(self.n_chains)]
        watched = data.x[:: max(1, len(data.x) // WATCHED)]
        plan, workers = self._plan(), self._workers()
        chains = run(gaussian.advance, data, hyper, states, plan, lambda draws: draws[0] @ watched.T, rng, workers)
        beta, sigma = chains.draws
        inclusion = chains.inclusion if hyper.spike_slab else np.ones(len(data.square))
        self._describe(beta.reshape(-1, beta.shape[2]), sigma.ravel(), inclusion, scale)
        self._report(chains)

    def _learn_exactly(self, observations: Observations, rng: np.random.Generator) -> None:
        """Sample models, with the coefficients integrated out."""
        design, y, rest, scale = observations.design()
        self.credible_sets_: list[CredibleSet] = []
        self._summary: NDArray[np.intp] = np.empty(0, np.intp)
        self.inclusion_samples_ = sparse.csr_array((1, len(scale.x_mean)), dtype=bool)
        if not scale.varies:
            return self._describe_a_constant(scale)
        background = Background.of(design, y) if affordable(len(y), design.size) else None
        problem = Problem(design, y, rest, float(scale.size), background=background)
        watched = np.arange(0, len(y), max(1, len(y) // WATCHED))
        posterior = settle(problem, self._plan(), watched, rng, self._workers())
        samples, sigma = problem.coefficients(posterior.chains, rng)
        self._describe(samples, sigma, posterior.inclusion, scale)
        self.inclusion_samples_ = models(posterior.effects, scale)
        used = np.flatnonzero(scale.used)
        self.credible_sets_ = [
            replace(found, members=used[found.members])
            for found in credible_sets(posterior.effects, posterior.inclusion, design)
        ]
        if (np.diff(posterior.effects.indptr) > 0).mean() > self.threshold:
            fitted = design.combine(np.asarray(posterior.effects.mean(0)).ravel())
            self._summary = used[summary(design, fitted)]
        self._report_unsettled(posterior)

    def _describe_a_constant(self, scale: Scale) -> None:
        """Fit a constant, since nothing varies."""
        used = int(scale.used.sum())
        self._describe(np.zeros((1, used)), np.full(1, float(not used)), np.zeros(used), scale)
        self.rhat_, self.ess_, self.n_steps_ = 1.0, np.inf, 0

    def _describe(self, samples: Samples, sigma: Array, inclusion: Array, scale: Scale) -> None:
        """Turn standardised draws into fitted attributes in the user's units."""
        self._samples = in_units(samples, scale)
        self.sigma_ = float(np.sqrt(np.mean(sigma**2))) * scale.y_std
        shift = np.random.default_rng(1).standard_normal(len(sigma)) * self.sigma_ / math.sqrt(scale.size)
        self.intercept_samples_ = scale.y_mean - self._samples @ scale.x_mean + shift
        self.coef_, self.coef_std_ = mean_and_std(self._samples)
        self.intercept_ = float(scale.y_mean - self.coef_ @ scale.x_mean)
        self.inclusion_probability_ = np.zeros(len(scale.x_mean))
        self.inclusion_probability_[scale.used] = inclusion
