"""Linear regression with variable selection, as a scikit-learn estimator; there may be more predictors than rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import stats
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sparse_langevin.linear import gaussian, normal
from sparse_langevin.linear.base import WATCHED
from sparse_langevin.linear.by_steps import BySteps
from sparse_langevin.linear.checks import check_level, checked_weights
from sparse_langevin.linear.families.student import NU, Student
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.moments import Observations, Rows, Scale, observed
from sparse_langevin.linear.polygenic import Background, affordable
from sparse_langevin.linear.runner import run
from sparse_langevin.linear.samples import Samples, dense, in_units, interval, linear, moments_of
from sparse_langevin.runtime.warn import warn

OUTLIER = 1e-4  # probability with which normal noise alone would give the warning about residuals


@dataclass(repr=False, eq=False, kw_only=True)
class SparseBayesRegressor(RegressorMixin, BySteps):  # type: ignore[misc]
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
    threshold
        A predictor is chosen if its inclusion probability is larger than this.
    selection
        What `get_support` and `transform` choose. ``"auto"``: predictors above the threshold and one representative of
        each credible set; if there are none although predictors matter, a few that together reproduce the predictions,
        with a warning. ``"threshold"``: those above the threshold only. ``"sets"``: the representatives only.
        ``"fdr"``: the most probable ones, as many as keep the expected share of false ones at ``fdr``. ``"best"``: the
        model that was drawn most often.
    fdr
        The expected share of chosen predictors without an effect, for ``selection="fdr"``.
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
        Largest number of steps of each chain after burn-in.
    target_rhat
        Sampling ends when R-hat of all that is reported is at most this and its effective sample size is large enough.
    target_ess
        The effective sample size at which sampling may end.
    warm_start
        If true, the chains are kept, also in a pickle, and another `fit` to the same data goes on where they stopped:
        after raising ``max_steps`` or ``target_ess`` it costs only what is added. If the data or parameters that change
        the chains are others (all but ``max_steps``, the targets, ``threshold``, ``selection``, ``fdr``, ``n_jobs`` and
        ``verbose``), it starts anew, and so it does after an interruption. Needs ``method="gibbs"``.
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
        Posterior means of the coefficients.
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
    coef_samples_
        Posterior draws of the coefficients, of shape (draws, predictors).
    inclusion_samples_
        Which predictors are in the model in each draw, a sparse boolean array of the same shape.
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

    noise: str = "normal"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to (n, p) predictors and n responses; a weight says how often an observation counts."""
        self._check_parameters()
        self._observations: Observations | None = None
        x, y, weight = self._data(X, y, sample_weight, ensure_min_samples=2)
        self._learn(observed(x, y, weight, rows=self.noise != "normal"))
        if self._exact and self.noise == "normal":
            self._look_at_residuals(x, y, weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add observations and sample again; the result is that of `fit` on all observations together."""
        self._check_parameters()
        before: Observations | None = getattr(self, "_observations", None)
        more = self._data(X, y, sample_weight, reset=before is None)
        return self._learn(observed(*more, rows=self.noise != "normal") if before is None else before.plus(*more))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the posterior mean; with ``return_std`` also the standard deviation of a new observation."""
        X = self._new_rows(X)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        return mean, np.sqrt(self._draws(X).var(0) + self._noise_variance())

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Return the bounds between which a new observation lies with probability ``level``."""
        check_level(level)
        X = self._new_rows(X)
        draws = self._draws(X)
        noise = self._noise(np.random.default_rng(0), 1)  # the same for all rows, for smooth bounds
        lower, upper = np.quantile(draws + noise, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper

    def coef_interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return the equal-tailed posterior intervals of the coefficients."""
        check_level(level)
        check_is_fitted(self)
        return interval(self._samples, level)

    @property
    def coef_samples_(self) -> Array:
        """Posterior draws of the coefficients, of shape (draws, predictors)."""
        return dense(self._samples)

    def _draws(self, X: Any) -> Array:
        """Return the expected responses under each posterior draw, of shape (draws, rows)."""
        draws: Array = linear(self._samples, X) + self.intercept_samples_[:, None]
        return draws

    def _noise(self, rng: np.random.Generator, rows: int) -> Array:
        """Draw noise, (draws, rows)."""
        noise = rng.standard_normal((len(self.intercept_samples_), rows))
        if self.noise == "student":
            nu = self.nu_samples_[:, None]
            noise /= np.sqrt(rng.chisquare(nu, noise.shape) / nu)
        found: Array = noise * (self.sigma_samples_[:, None] if self._exact else self.sigma_)
        return found

    def _new_responses(self, X: Any, rng: np.random.Generator) -> Iterator[Array]:
        yield self._draws(X) + self._noise(rng, X.shape[0])

    def _noise_variance(self) -> float:
        """Return the variance of an observation around its mean; infinite for noise with very heavy tails."""
        if self.noise == "normal":
            return self.sigma_**2
        nu = self.nu_samples_
        return float(np.mean(self.sigma_samples_**2 * np.where(nu > 2, nu / np.maximum(nu - 2, 1e-9), np.inf)))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.noise != "normal" and not self._exact:
            raise ValueError(f"noise={self.noise!r} needs method='gibbs', got method={self.method!r}")

    def _data(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, Array, Array | None]:
        """Return X, y and weights after scikit-learn's checks; if models are sampled, X stays as sparse and precise."""
        x, y = self._checked(X, y, y_numeric=True, **options)
        weight = None if sample_weight is None else checked_weights(sample_weight, x)
        return x, np.asarray(y, dtype=float), weight

    def _learn(self, observations: Observations) -> Self:
        """Sample from the posterior given all observations so far."""
        rng = self._generator()
        self.__dict__.pop("nu_samples_", None)  # of other noise
        (self._learn_models if self._exact else self._learn_by_steps)(observations, rng)
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
        self._describe(beta.reshape(-1, beta.shape[2]), sigma.ravel(), scale)
        self.inclusion_probability_ = np.zeros(len(scale.x_mean))
        self.inclusion_probability_[scale.used] = chains.inclusion if hyper.spike_slab else 1.0
        self._report(chains)

    def _learn_models(self, observations: Observations, rng: np.random.Generator) -> None:
        """Sample models, with the coefficients integrated out."""
        if self.noise == "student":
            return self._learn_student(observations, rng)
        design, y, rest, scale = observations.design(self.fit_intercept)
        if not scale.varies:
            return self._describe_a_constant(scale)
        groups = self._groups(scale.used)

        def build() -> normal.Problem:
            background = Background.of(design, y) if affordable(len(y), design.size) else None
            return normal.Problem(
                design,
                y,
                rest,
                float(scale.size),
                background=background,
                fitted_means=int(self.fit_intercept),
                groups=groups,
            )

        watched = np.arange(0, len(y), max(1, len(y) // WATCHED))
        problem, posterior = self._settled(
            observations,
            build,
            lambda problem: [normal.NormalRegression(problem) for _ in range(self.n_chains)],
            watched,
            rng,
        )
        samples, sigma = problem.coefficients(posterior.chains, rng)
        self._describe(samples, sigma, scale)
        self._describe_models(posterior, design, scale, groups)

    def _learn_student(self, observations: Observations, rng: np.random.Generator) -> None:
        """Sample models under noise with heavy tails."""
        assert isinstance(observations, Rows)
        design, _, _, scale = observations.design(self.fit_intercept)
        if not scale.varies:
            return self._describe_a_constant(scale)
        centre, spread = robust(observations.y, self.fit_intercept)
        scale = replace(scale, y_mean=centre, y_std=spread)
        y = (observations.y - scale.y_mean) / scale.y_std
        family = Student(y, observations.weight, self.fit_intercept)
        draws = self._sample_family(observations, replace(design, root=None), family, scale, rng).draws
        self._describe(draws.effects, draws.beside["sigma"], scale, draws.beside["intercept"][:, 0])
        self.nu_samples_ = draws.beside["nu"]

    def _look_at_residuals(self, x: Any, y: Array, weight: Array | None) -> None:
        """Warn if the noise has heavier tails than a normal distribution."""
        residual = (y - x @ self.coef_ - self.intercept_) / (self.sigma_ or 1.0)
        if weight is not None:
            residual[weight == 0] = 0.0
        worst = int(np.abs(residual).argmax())
        expected = float(stats.norm.isf(0.5 * OUTLIER / len(residual)))
        if abs(residual[worst]) > expected:
            warn(
                f"observation {worst} lies {abs(residual[worst]):.1f} standard deviations of the noise from its "
                f"prediction, where normal noise reaches {expected:.1f} once in {1 / OUTLIER:,.0f} data sets: effects "
                "may stay hidden. Look at it, or choose noise='student'.",
                UserWarning,
            )

    def _describe_a_constant(self, scale: Scale) -> None:
        """Fit a constant, since nothing varies."""
        used = int(scale.used.sum())
        self._describe(np.zeros((1, used)), np.full(1, float(not used)), scale)
        self._describe_no_models(len(scale.x_mean))
        if self.noise == "student":
            self.nu_samples_ = np.full(1, NU[-1])

    def _describe(self, samples: Samples, sigma: Array, scale: Scale, intercept: Array | None = None) -> None:
        """Turn standardised draws into fitted attributes in the user's units."""
        self._samples = in_units(samples, scale)
        self.sigma_samples_ = sigma * scale.y_std
        self.sigma_ = float(np.sqrt(np.mean(sigma**2))) * scale.y_std
        shift, mean = intercept, 0.0 if intercept is None else float(intercept.mean())
        if shift is None:
            width = self.fit_intercept / math.sqrt(scale.size)
            shift = np.random.default_rng(1).standard_normal(len(sigma)) * sigma * width
        self.intercept_samples_ = scale.y_mean - self._samples @ scale.x_mean + scale.y_std * shift
        self.coef_, self.coef_std_ = moments_of(self._samples)
        self.intercept_ = float(scale.y_mean - self.coef_ @ scale.x_mean + scale.y_std * mean)


def robust(y: Array, centred: bool) -> tuple[float, float]:
    """Return the median, and the standard deviation of normal noise with the same median distance from it."""
    centre = float(np.median(y)) if centred else 0.0
    distance = float(np.median(np.abs(y - centre)))
    return centre, distance / 0.6745 or float(y.std())
