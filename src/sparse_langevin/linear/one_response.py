"""The fit of a linear model to one response, by chains over models or by Langevin steps, and draws from it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparse_langevin.linear import gaussian, normal
from sparse_langevin.linear.base import WATCHED
from sparse_langevin.linear.by_steps import BySteps
from sparse_langevin.linear.families.student import NU, Student
from sparse_langevin.linear.gaussian import Array
from sparse_langevin.linear.going_on import settled
from sparse_langevin.linear.moments import Observations, Rows, Scale
from sparse_langevin.linear.residuals import robust
from sparse_langevin.linear.runner import run
from sparse_langevin.linear.samples import Samples, in_units, linear, moments_of
from sparse_langevin.linear.several import Shared

STEPS_OF_MODELS = 150_000  # at most, with normal noise: such steps are cheap


@dataclass(repr=False, eq=False, kw_only=True)
class OneResponse(BySteps):
    """An estimator of numbers with noise."""

    noise: str = "normal"
    positive: bool = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.noise != "normal" and not self._exact:
            raise ValueError(f"noise={self.noise!r} needs method='gibbs', got method={self.method!r}")
        if self.positive and not self._exact:
            raise ValueError(f"positive=True needs method='gibbs', got method={self.method!r}")
        if self.positive and self.noise != "normal":
            raise ValueError(f"positive=True needs noise='normal', got noise={self.noise!r}: choose one of the two")
        if self.positive and self.groups is not None:
            raise ValueError(
                f"positive=True is for predictors that are each on their own, got groups={self.groups!r}: leave out "
                "groups, or positive"
            )

    def _lengths(self) -> tuple[int, int]:
        burn_in, steps = super()._lengths()
        return burn_in, STEPS_OF_MODELS if self._exact and self.noise == "normal" else steps

    def _learn_one(self, observations: Observations, shared: Shared) -> None:
        """Sample from the posterior of one response."""
        rng = self._generator()
        self.__dict__.pop("nu_samples_", None)  # of other noise
        if not self._exact:
            self._learn_by_steps(observations, rng)
        elif self.noise == "student":
            self._learn_student(observations, rng)
        else:
            self._learn_models(observations, rng, shared)

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

    def _learn_models(self, observations: Observations, rng: np.random.Generator, shared: Shared) -> None:
        """Sample models, with the coefficients integrated out."""
        design, y, rest, scale = observations.design(self.fit_intercept, shared.design)
        if not scale.varies:
            return self._describe_a_constant(scale)
        shared.design = design
        groups = self._groups(scale.used)

        def build() -> normal.Problem:
            return normal.Problem(
                design,
                y,
                rest,
                float(scale.size),
                background=None if self.positive else shared.background_of(design, y, scale.size),  # both signs
                fitted_means=int(self.fit_intercept),
                groups=groups,
            )

        watched = np.arange(0, len(y), max(1, len(y) // WATCHED))
        regression = normal.PositiveRegression if self.positive else normal.NormalRegression
        problem, posterior = settled(
            self,
            observations,
            build,
            lambda problem: [regression(problem) for _ in range(self.n_chains)],
            watched,
            rng,
        )
        samples, sigma = problem.coefficients(posterior.chains, rng)
        self._describe(samples, sigma, scale)
        self._describe_models(posterior, design, scale, groups)

    def _learn_student(self, observations: Observations, rng: np.random.Generator) -> None:
        """Sample models under noise with heavy tails."""
        if not isinstance(observations, Rows):
            raise ValueError(
                "noise='student' needs the observations themselves, but of those that were fitted before only moments "
                "are kept: call fit with all of them"
            )
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
        self.intercept_samples_ = scale.y_mean - linear(self._samples, scale.x_mean[None])[:, 0] + scale.y_std * shift
        self.coef_, self.coef_std_ = moments_of(self._samples)
        self.intercept_ = float(scale.y_mean - self.coef_ @ scale.x_mean + scale.y_std * mean)

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
