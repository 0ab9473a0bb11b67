"""The base of both scikit-learn estimators: parameters and their checks, the prior's scales, selection, diagnostics."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from sparse_langevin.linear.choices import CHOICES, chosen
from sparse_langevin.linear.credible import CredibleSet, credible_sets, summary
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.gaussian import Array, Hyper
from sparse_langevin.linear.groups import Groups
from sparse_langevin.linear.runner import Chains, Plan
from sparse_langevin.linear.settling import Diagnosis, Posterior
from sparse_langevin.runtime.warn import warn
from sparse_langevin.sampling.methods import Method, method_named

WATCHED = 12  # number of observations whose predictions are monitored for convergence
BURN_IN_MODELS, BURN_IN_STEPS = 1000, 2000  # steps of chains over models, and of Langevin chains
GIBBS = Method("gibbs", preconditioned=False, selects=True)
STEPS = "psgld-sa"  # the Langevin method where one is needed
OF_STEPS = ("expected_effects", "expected_r2", "v0", "v1")  # parameters that only the Langevin methods have


@dataclass(repr=False, eq=False)
class SparseBayes(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class with the common parameters as fields, which scikit-learn reads from the generated ``__init__``."""

    method: str = GIBBS.name
    _: KW_ONLY
    threshold: float = 0.5
    selection: str = "auto"
    fdr: float = 0.1
    fit_intercept: bool = True
    groups: Any = None
    expected_effects: float = 10.0
    expected_r2: float = 0.75
    v0: float | None = None
    v1: float | None = None
    n_chains: int = 4
    burn_in: int | None = None
    max_steps: int = 20_000
    target_rhat: float = 1.02
    target_ess: float = 400.0
    n_jobs: int | None = None
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        present = getattr(self, "inclusion_samples_", None)
        if present is None and self.selection in ("sets", "best"):
            raise ValueError(f"selection={self.selection!r} needs draws of models: choose method='gibbs'")
        found = chosen(self.selection, self.inclusion_probability_, self.threshold, self.fdr, present, self._sets())
        rest = getattr(self, "_summary", np.empty(0, np.intp))
        if self.selection == "auto" and len(rest):
            found[rest] = True
            warn(
                f"more predictors matter than can be named: for {len(rest)} of the {found.sum()} chosen ones the "
                f"inclusion probability is not above {self.threshold:g}, and no credible set stands for them. They are "
                "chosen because all together reproduce 90 % of the variance of the predictions; others may do so as "
                "well.",
                UserWarning,
            )
        return found

    def _sets(self) -> list[CredibleSet]:
        return getattr(self, "credible_sets_", [])

    def _check_parameters(self) -> None:
        """Raise an error if a parameter has a bad value; every fit does this before it computes anything."""
        method_named(self.method, also=[GIBBS])
        check_random_state(self.random_state)
        for name, value in self.get_params(deep=False).items():
            if name in RULES and not RULES[name][0](value):
                raise ValueError(f"{name} must be {RULES[name][1]}, got {value!r}")
        if self.groups is not None and not self._exact:
            raise ValueError(f"groups need method='gibbs', got method={self.method!r}")
        if not (self.fit_intercept or self._exact):
            raise ValueError(f"fit_intercept=False needs method='gibbs', got method={self.method!r}")
        set_anyway = [name for name in OF_STEPS if getattr(self, name) != getattr(SparseBayes, name)]
        if self._exact and set_anyway:
            warn(
                f"method='gibbs' learns how many effects there are and how large they are, and does not use "
                f"{' and '.join(set_anyway)}; the other methods do, such as method='psgld-sa'",
                UserWarning,
            )

    @property
    def _exact(self) -> bool:
        """Whether models are sampled, instead of Langevin steps taken."""
        return self.method == GIBBS.name

    def _rows(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Return X, or X and y, after scikit-learn's checks; X is dense, in double precision."""
        checked = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, **options)
        if isinstance(y, str):
            return _dense(checked)
        return _dense(checked[0]), checked[1]

    def _hyper(self, p: int, spike: float, slab: float) -> Hyper:
        """Return the prior of p standardised predictors; ``spike`` and ``slab`` are the default scales."""
        method = self._steps_method()
        share = min(0.5, self.expected_effects / p)
        return Hyper(
            v0=spike if self.v0 is None else self.v0,
            slab=slab / max(share * p, 1.0) if self.v1 is None else self.v1,
            a=share * p,
            b=(1 - share) * p,
            nu=1.0,
            lambda_=1 - self.expected_r2,
            prior_variance=slab / p,
            spike_slab=method.selects,
            precondition=method.preconditioned,
            jumps=max(30, p // 20),  # with fewer, correlated predictors would stay stuck in one of several models
        )

    def _steps_method(self) -> Method:
        """Return the Langevin method."""
        return method_named(STEPS if self.method == GIBBS.name else self.method)

    def _plan(self) -> Plan:
        burn_in = self.burn_in or (BURN_IN_MODELS if self._exact else BURN_IN_STEPS)
        return Plan(self.n_chains, burn_in, self.max_steps, self.target_rhat, self.target_ess)

    def _workers(self) -> int:
        workers: int = joblib.effective_n_jobs(self.n_jobs)
        return workers

    def _groups(self, used: NDArray[np.bool_]) -> Groups | None:
        """Return which of the used predictors belong together; None if each is on its own."""
        if self.groups is None:
            return None
        labels = np.asarray(self.groups)
        if labels.shape != used.shape:
            raise ValueError(
                f"groups must have one label for each of the {len(used)} predictors, the same for those that belong "
                f"together: got an array of shape {labels.shape}"
            )
        found = Groups.of(labels[used])
        return found if found.several else None

    def _describe_models(
        self, posterior: Posterior, design: Design, used: NDArray[np.intp], size: int, groups: Groups | None
    ) -> None:
        """Store what draws of models say of the predictors, of which the ``used`` ones of ``size`` vary."""
        p, draws = design.size, posterior.draws.effects
        by_response = [draws[:, start : start + p] for start in range(0, draws.shape[1], p)]
        present = sum(((effects != 0).astype(np.int8) for effects in by_response[1:]), (by_response[0] != 0)) != 0
        present = sparse.csr_array(present)
        inclusion = posterior.inclusion if len(by_response) == 1 else np.asarray(present.mean(0)).ravel()
        self.inclusion_probability_ = np.zeros(size)
        self.inclusion_probability_[used] = inclusion
        self.inclusion_samples_ = sparse.csr_array(
            (present.data, used[present.indices], present.indptr), shape=(present.shape[0], size)
        )
        sets = credible_sets(present, inclusion, design, groups=groups.several if groups else ())
        self.credible_sets_ = [replace(found, members=used[found.members]) for found in sets]
        self._summary = np.empty(0, np.intp)
        if (np.diff(present.indptr) > 0).mean() > self.threshold:
            fitted = [design.combine(np.asarray(effects.mean(0)).ravel()) for effects in by_response]
            sure = chosen("auto", inclusion, self.threshold, self.fdr, None, sets)
            self._summary = used[summary(design, max(fitted, key=np.linalg.norm), np.flatnonzero(sure))]
        self._report_unsettled(posterior)

    def _describe_no_models(self, size: int) -> None:
        """Store that there is no predictor that varies."""
        self.inclusion_probability_, self.inclusion_samples_ = np.zeros(size), sparse.csr_array((1, size), dtype=bool)
        self.credible_sets_ = []
        self.diagnostics_: dict[str, Diagnosis] = {}
        self._summary = np.empty(0, np.intp)

    def _report_unsettled(self, posterior: Posterior) -> None:
        """Store the diagnostics, and warn if something that is reported has not settled."""
        found = posterior.diagnoses.values()
        self.rhat_ = max((d.rhat for d in found), default=1.0)
        self.ess_ = min((d.ess for d in found), default=math.inf)
        self.n_steps_, self.diagnostics_ = posterior.steps, posterior.diagnoses
        if wrong := posterior.unsettled(self._plan()):
            named = "; ".join(f"{name}: R-hat {d.rhat:.3f}, {d.ess:.0f} effective draws" for name, d in wrong.items())
            warn(
                f"after {posterior.steps} steps {self.n_chains} chains have not settled. {named} (targets: at most "
                f"{self.target_rhat:g}, and at least {self.target_ess:g}). Increase max_steps, or relax the targets.",
                ConvergenceWarning,
            )

    def _report(self, chains: Chains) -> None:
        """Store the diagnostics, and warn if the chains have not converged."""
        self.rhat_, self.ess_, self.n_steps_ = chains.rhat, chains.ess, chains.steps
        if chains.rhat > self.target_rhat or chains.ess < self.target_ess:
            warn(
                f"after {chains.steps} steps the predictions of {self.n_chains} chains have R-hat {chains.rhat:.3f} "
                f"(target: at most {self.target_rhat:g}) and an effective sample size of {chains.ess:.0f} (target: at "
                f"least {self.target_ess:g}). Means are usually fine; intervals may be rough. Increase max_steps, or "
                "relax the targets.",
                ConvergenceWarning,
            )


def check_level(level: float) -> None:
    """Raise an error unless ``level`` is a probability strictly between 0 and 1."""
    if not (_is_number(level) and 0 < level < 1):
        raise ValueError(f"level must be between 0 and 1, for example 0.95, got {level!r}")


def checked_weights(sample_weight: Any, x: Any) -> Array:
    """Return weights in double precision; raise an error if there is a bad one, or nothing but zeros."""
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if not (np.isfinite(weight).all() and weight.min() >= 0 and weight.max() > 0):
        raise ValueError(
            f"sample_weight must be finite and at least 0, and not all zero: got {weight.min():g} to {weight.max():g}"
        )
    found: Array = weight
    return found


def _dense(X: Any) -> Array:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_number_of_jobs(value: Any) -> bool:
    return value is None or (isinstance(value, Integral) and not isinstance(value, bool) and int(value) != 0)


POSITIVE = "a positive, finite number"
COUNT = "a whole number of at least 1"
# For each parameter, a check of its value and the description of what is allowed.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "expected_effects": (_is_positive, POSITIVE),
    "expected_r2": (lambda value: _is_number(value) and 0 < value < 1, "between 0 and 1, both excluded"),
    "v0": (lambda value: value is None or _is_positive(value), f"{POSITIVE}, or None"),
    "v1": (lambda value: value is None or _is_positive(value), f"{POSITIVE}, or None"),
    "threshold": (lambda value: _is_number(value) and 0 <= value < 1, "at least 0 and below 1"),
    "selection": (lambda value: value in CHOICES, f"one of {', '.join(CHOICES)}"),
    "fdr": (lambda value: _is_number(value) and 0 < value < 1, "between 0 and 1, both excluded"),
    "fit_intercept": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "noise": (lambda value: value in ("normal", "student"), "'normal' or 'student'"),
    "n_chains": (_is_count, COUNT),
    "burn_in": (lambda value: value is None or _is_count(value), f"{COUNT}, or None"),
    "max_steps": (_is_count, COUNT),
    "target_rhat": (_is_positive, POSITIVE),
    "target_ess": (_is_positive, POSITIVE),
    "batch_size": (lambda value: value is None or _is_count(value), f"{COUNT}, or None for all observations"),
    "n_jobs": (_is_number_of_jobs, "None, -1 for all cores, or a number of jobs"),
}
