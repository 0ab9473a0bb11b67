"""Linear regression with variable selection, as a scikit-learn estimator; there may be more predictors than rows."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sparse_langevin.linear import several
from sparse_langevin.linear.checks import check_level, checked_weights
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.moments import Observations, observed
from sparse_langevin.linear.one_response import OneResponse
from sparse_langevin.linear.residuals import look_at_residuals
from sparse_langevin.linear.samples import Samples, dense
from sparse_langevin.runtime.threads import in_one_blas_thread


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesRegressor(RegressorMixin, OneResponse):  # type: ignore[misc]
    """Linear regression with variable selection: which predictors have an effect, how large, and how sure that is.

    Predictors and response are standardised internally. By default chains over models are run, with the coefficients
    integrated out; how many effects there are and how large they are is learned, many small ones included.

    Parameters
    ----------
    method
        ``"gibbs"``: coefficients that are either zero or normal; weighted tempered Gibbs sampling of which predictors
        are in the model, exact. The other methods are the paper's algorithms: ``"psgld-sa"``, preconditioned Langevin
        steps and a spike-and-slab prior; ``"sgld-sa"``, the same without the preconditioner; ``"psgld"`` and
        ``"sgld"``, a Gaussian prior, which selects nothing (all inclusion probabilities are 1).
    noise
        ``"normal"``, or ``"student"`` for noise with heavy tails, whose degrees of freedom are learned: outliers count
        for little then. The latter needs ``method="gibbs"``, and leaves out the many small effects.
    positive
        If true, no coefficient is negative: effects are half-normal instead of normal, as suits concentrations, spectra
        of mixtures or dose responses. The many small effects, which have both signs, are left out. Needs
        ``method="gibbs"``, normal noise and no groups.
    threshold
        A predictor is chosen if its inclusion probability is larger than this. The default is 0.25, which takes an
        effect that is missed to be three times as bad as one that is not there; with 0.5, the default of the Langevin
        methods, a predictor has to be more likely than not.
    selection
        What `get_support` and `transform` choose. ``"auto"``: predictors above the threshold, but of a credible
        set only one representative, and members that are above the threshold beside it; if these do not reproduce
        the predictions, a few more that do, with a warning. ``"threshold"``: those above the threshold only.
        ``"sets"``: the representatives only. ``"fdr"``: the most probable ones, as many as keep the expected share of
        false ones at ``fdr``. ``"pfer"``: as many as keep their expected number at ``pfer``. ``"best"``: the model that
        was drawn most often.
    fdr
        The expected share of chosen predictors without an effect, for ``selection="fdr"``.
    pfer
        Their expected number, for ``selection="pfer"``. With 1 or more there is always one that is chosen.
    fit_intercept
        Whether the mean of the response is learned; if not, predictors and response are taken as centred at zero.
    groups
        Which predictors belong together, as the columns of one category do, or the genes of a pathway: one label for
        each predictor, the same for those of a group. The predictors of a group have an effect all together or not at
        all. By default each is on its own.
    expected_effects
        Of the Langevin methods: rough number of predictors that matter; it sets the prior of the share of effects, and
        the width of the slab.
    expected_r2
        Of the Langevin methods: rough share of the response's variance that they explain, between 0 and 1; it sets the
        width of the slab.
    v0
        Of the Langevin methods: scale of the spike for standardised predictors, in units of the noise's standard
        deviation. The default is 0.1/sqrt(n), a tenth of what n observations can resolve.
    v1
        Of the Langevin methods: variance of the slab for standardised predictors, in units of the response's variance.
        The default is expected_r2/expected_effects.
    n_chains
        Number of chains.
    burn_in
        Number of steps at the beginning of each chain that are discarded. The default is 1000 for chains over models,
        and 2000 for Langevin chains.
    max_steps
        Largest number of steps of each chain after burn-in. The default is 150,000 for chains over models with normal
        noise, and 20,000 for all others, whose steps take longer. A chain that has slowed down since its burn-in may
        take up to twice as many.
    target_rhat
        Sampling ends when R-hat of all that is reported is at most this and its effective sample size is large enough.
    target_ess
        The effective sample size at which sampling may end.
    warm_start
        If true, the chains are kept, also in a pickle, and another `fit` to the same data goes on where they stopped:
        after raising ``max_steps`` or ``target_ess`` it costs only what is added. If the data or parameters that change
        the chains are others (all but ``max_steps``, the targets, what is chosen, ``n_jobs`` and ``verbose``), it
        starts anew, and so it does after an interruption. Needs ``method="gibbs"``.
    verbose
        Whether to show a progress bar for chains over models: the steps taken, and what has not settled yet.
    n_jobs
        Number of chains that run at the same time, each in a thread. As everywhere in scikit-learn, None means 1 unless
        a `joblib.parallel_config` says otherwise, and -1 uses all cores. The results do not depend on it.
    random_state
        A seed, or a NumPy RandomState.

    Attributes
    ----------
    coef_
        Posterior means of the coefficients, of shape (predictors,), or (k, predictors) for k responses. So are
        ``coef_std_`` and ``inclusion_probability_``; ``intercept_`` and ``sigma_`` have one number for each response.
    coef_std_
        Posterior standard deviations of the coefficients.
    intercept_
        Posterior mean of the intercept.
    inclusion_probability_
        Posterior probability that each predictor has an effect.
    credible_sets_
        Sets of predictors of which at least one has an effect, see `CredibleSet`.
    sigma_
        Standard deviation of the noise; with Student's noise its scale.
    estimators_
        For several responses: the fit to each, which has its draws and `to_arviz`. A predictor is chosen if it is
        chosen for any response.
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, predictors).
    inclusion_samples_
        Which predictors are in the model in each draw, a sparse boolean array, (draws, predictors). There are more
        draws than of the coefficients if those have small effects of all predictors.
    intercept_samples_
        Posterior draws of the intercept, of shape (draws,).
    sigma_samples_
        Posterior draws of sigma.
    nu_samples_
        With Student's noise: posterior draws of its degrees of freedom.
    diagnostics_
        R-hat and effective number of draws of predictions, inclusion, sigma, number and size of effects.
    rhat_
        The largest R-hat of these.
    ess_
        The smallest effective sample size of these.
    n_steps_
        Number of steps of each chain after burn-in.

    Notes
    -----
    So that `partial_fit` can continue after `fit`, the estimator keeps a copy of the n observations while n is at most
    the number of predictors p, and their second moments beyond that: at most (p + 1)^2 numbers, also in its pickle.
    Sparse observations, and those with Student's noise, are kept as they are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 100))
    >>> y = 2 * X[:, 3] + 0.5 * rng.standard_normal(50)
    >>> model = SparseBayesRegressor(random_state=0).fit(X, y)
    >>> model.get_support(indices=True)
    array([3])
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @in_one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to (n, p) predictors and n responses, or (n, k); a weight says how often a row counts."""
        self._check_parameters()
        self._observations: Observations | None = None
        x, responses, weight = self._data(X, y, sample_weight, ensure_min_samples=2)
        self._learn(observed(x, responses, weight, rows=self.noise != "normal"), several.names_of(y, responses))
        if self._exact and self.noise == "normal":
            for one, own in zip(self._fits(), responses.T if responses.ndim == 2 else [responses], strict=True):
                residual = (own - x @ one.coef_ - one.intercept_) / (one.sigma_ or 1.0)
                look_at_residuals(residual, weight, one._of, "noise='student'" + self.positive * " without positive")
        return self._rounded()

    @in_one_blas_thread
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add observations and sample again; the result is that of `fit` on all observations together."""
        self._check_parameters()
        before: Observations | None = getattr(self, "_observations", None)
        more = self._data(X, y, sample_weight, reset=before is None)
        if before is not None and more[1].shape[1:] != (shape := self.coef_.shape[:-1]):
            raise ValueError(
                f"the responses have the shape {more[1].shape}, but before they had {('n', *shape)}: they have to be "
                "the same ones in every call"
            )
        now = observed(*more, rows=self.noise != "normal") if before is None else before.plus(*more)
        return self._learn(now, several.names_of(y, more[1]))._rounded()

    @in_one_blas_thread
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the posterior mean; with ``return_std`` also the standard deviation of a new observation."""
        X = self._new_rows(X)
        mean = X @ self.coef_.T + self.intercept_
        if not return_std:
            return mean
        std = np.stack([np.sqrt(one._draws(X).var(0) + one._noise_variance()) for one in self._fits()], axis=-1)
        return mean, self._as_precise(std.reshape(mean.shape), X)

    @in_one_blas_thread
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the bounds between which a new observation lies with probability ``level``."""
        check_level(level)
        X = self._new_rows(X)
        bounds = []
        for one in self._fits():
            noise = one._noise(np.random.default_rng(0), 1)  # the same for all rows, for smooth bounds
            bounds.append(np.quantile(one._draws(X) + noise, [(1 - level) / 2, (1 + level) / 2], axis=0))
        lower, upper = np.stack(bounds, axis=-1).reshape(2, X.shape[0], *self.coef_.shape[:-1])
        return self._as_precise(lower, X), self._as_precise(upper, X)

    @property
    @in_one_blas_thread
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, predictors)."""
        return dense(self._each()[0])

    def _fits(self) -> "list[SparseBayesRegressor]":
        return getattr(self, "estimators_", [self])

    def _each(self) -> list[Samples]:
        if hasattr(self, "estimators_"):
            raise AttributeError("of several responses each has draws of its own: ask estimators_[0], and so on")
        return super()._each()

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return several.support(self) if hasattr(self, "estimators_") else super()._get_support_mask()

    def _data(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, Array, Array | None]:
        """Return X, y and weights after scikit-learn's checks; if models are sampled, X stays as sparse and precise."""
        x, y = self._checked(X, y, y_numeric=True, multi_output=True, **options)
        if sparse.issparse(y):
            raise TypeError("y is sparse: pass an array, such as y.toarray()")
        weight = None if sample_weight is None else checked_weights(sample_weight, x)
        return x, np.asarray(y, dtype=float), weight

    def _learn(self, observations: Observations, names: list[str]) -> Self:
        """Sample from the posterior given all observations so far; ``names`` are those of several responses."""
        if names:
            fits, shared = several.estimators(self, len(names)), several.Shared()
            for j, (one, name) in enumerate(zip(fits, names, strict=True)):
                one._of = name
                one._learn_one(observations.response(j, len(names)), shared)
            several.describe(self, fits)
        else:
            self._learn_one(observations, several.Shared())
            self.__dict__.pop("estimators_", None)
        self._observations = observations  # only now, so that an interrupted call can be repeated
        return self
