"""The base of the scikit-learn estimators: what all have in common, from parameters to selection and diagnostics."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparse_langevin.linear import augmented
from sparse_langevin.linear.checks import RULES, check_level
from sparse_langevin.linear.choices import chosen
from sparse_langevin.linear.credible import CredibleSet, credible_sets, summary
from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.families import Family
from sparse_langevin.linear.going_on import settled
from sparse_langevin.linear.groups import MOST, Groups
from sparse_langevin.linear.inference_data import inference_data
from sparse_langevin.linear.moments import Scale
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.samples import Samples, quantiles, quantiles_in_models
from sparse_langevin.linear.settling import Diagnosis, Posterior
from sparse_langevin.runtime.threads import in_one_blas_thread
from sparse_langevin.runtime.warn import warn

if TYPE_CHECKING:
    from arviz import InferenceData

WATCHED = 12  # number of observations whose predictions are monitored for convergence
BURN_IN = 1000  # steps of chains over models
MAX_STEPS = 20_000
THRESHOLD = 0.25  # in simulations (benchmarks.calibration) the F1 score is as high as with 0.5 or higher
OF_LANGEVIN = 0.5  # of methods whose smaller probabilities are too high
LONGER = "Increase max_steps, or relax the targets."


@dataclass(repr=False, eq=False)
class SparseBayes(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class with the common parameters as fields, which scikit-learn reads from the generated ``__init__``.

    Others have ``_samples``, draws of the coefficients, and ``_new_responses(X, rng)``, which yields draws of new
    responses, (draws, rows), some draws at a time.
    """

    _: KW_ONLY
    threshold: float | None = None
    selection: str = "auto"
    fdr: float = 0.1
    pfer: float = 1.0
    fit_intercept: bool = True
    groups: Any = None
    n_chains: int = 4
    burn_in: int | None = None
    max_steps: int | None = None
    target_rhat: float = 1.02
    target_ess: float = 400.0
    warm_start: bool = False
    verbose: bool | int = False
    n_jobs: int | None = None
    random_state: Any = None

    _of = ""  # the name of the response in warnings, if there are several

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        present = getattr(self, "inclusion_samples_", None)
        if present is None and self.selection in ("sets", "best"):
            raise ValueError(f"selection={self.selection!r} needs draws of models: choose method='gibbs'")
        found = self._chosen(self.selection, self.inclusion_probability_, present, self._sets())
        rest = getattr(self, "_summary", np.empty(0, np.intp))
        rest = rest[~found[rest]]  # the threshold may have been changed since the fit
        if self.selection == "auto" and len(rest):
            found[rest] = True
            warn(
                f"{self._of}more predictors matter than can be named: for {len(rest)} of the {found.sum()} chosen ones "
                f"the inclusion probability is not above {self._threshold:g}, and no credible set stands for them. "
                "They are chosen because all together reproduce most of the variance of the predictions; others may do "
                "so as well.",
                UserWarning,
            )
        return found

    @property
    def _threshold(self) -> float:
        if self.threshold is not None:
            return self.threshold
        return THRESHOLD if getattr(self, "_exact", True) else OF_LANGEVIN

    def _chosen(self, selection: str, inclusion: Array, present: Any, sets: Sequence[CredibleSet]) -> NDArray[np.bool_]:
        groups = None if self.groups is None or len(inclusion) < self.n_features_in_ else np.asarray(self.groups)
        return chosen(selection, inclusion, self._threshold, self.fdr, self.pfer, present, sets, groups)

    def to_arviz(self, X: Any = None, y: Any = None, *, predictors: Any = None) -> "InferenceData":
        """Return all draws as ArviZ's InferenceData, with the chains kept apart.

        With rows ``X`` there are also draws of new responses for them (``posterior_predictive``), and with responses
        ``y`` these as ``observed_data``; labels are given by their place in ``classes_``. ``predictors``, indices or a
        mask such as ``get_support()``, leaves coefficients and inclusion of all others out.
        """
        check_is_fitted(self)
        each, rng = self._each(), np.random.default_rng(0)
        predictive = None if X is None else np.concatenate(list(self._new_responses(self._new_rows(X), rng)))
        return inference_data(self, each, predictors, predictive, None if y is None else self._coded(y))

    @in_one_blas_thread
    def coef_interval(self, level: float = 0.95, *, included: bool = False) -> tuple[Array, Array]:
        """Return the equal-tailed posterior intervals of the coefficients, in the shape of ``coef_``.

        With ``included`` they are those of an effect, if the predictor has one: of the draws whose model has it, and
        NaN where there are none. If effects are as the prior takes them to be, these hold the share ``level`` of all
        effects, those that are too small to be seen among them; without it an interval may be zero alone.
        """
        check_level(level)
        check_is_fitted(self)
        fits = self._fits()
        if included and not all(hasattr(one, "inclusion_samples_") for one in fits):
            raise ValueError("included=True needs draws of models: choose method='gibbs'")
        find = quantiles_in_models if included else quantiles
        each = [find(samples, [(1 - level) / 2, (1 + level) / 2]) for one in fits for samples in one._each()]
        lower, upper = np.stack(each, axis=1).astype(self._precision).reshape(2, *self.coef_.shape)
        return lower, upper

    def _fits(self) -> Sequence["SparseBayes"]:
        """Return the fit to each response."""
        return [self]

    def _each(self) -> list[Samples]:
        """Return draws of the coefficients, (draws, predictors), for each row of ``coef_``."""
        return [self._samples]

    def _coded(self, y: Any) -> NDArray[Any]:
        return np.asarray(y)

    def _sets(self) -> list[CredibleSet]:
        return getattr(self, "credible_sets_", [])

    def _check_parameters(self) -> None:
        """Raise an error if a parameter has a bad value; every fit does this before it computes anything."""
        check_random_state(self.random_state)
        for name, value in self.get_params(deep=False).items():
            if name in RULES and not RULES[name][0](value):
                raise ValueError(f"{name} must be {RULES[name][1]}, got {value!r}")

    def _checked(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Return X, or X and y, after scikit-learn's checks; sparse and imprecise observations stay so."""
        options = {"accept_sparse": ("csc", "csr"), "dtype": [np.float64, np.float32]} | options
        checked = validate_data(self, X, y, **options)
        if not isinstance(y, str):
            self._precision = checked[0].dtype
        return checked

    def _rounded(self) -> Self:
        """Give the coefficients the precision of the predictors; all is computed in double precision before."""
        for name in ("coef_", "coef_std_", "intercept_"):
            value = getattr(self, name)
            setattr(self, name, value if isinstance(value, float) else value.astype(self._precision, copy=False))
        return self

    def _as_precise(self, values: Array, X: Any) -> Array:
        """Give predictions for some rows the precision that sums of products with the coefficients would have."""
        return values.astype(np.result_type(X.dtype, self._precision), copy=False)

    def _new_rows(self, X: Any) -> Any:
        """Return rows to be predicted, after all checks."""
        check_is_fitted(self)
        return self._checked(X, reset=False, accept_sparse=("csr", "csc"))

    def _generator(self) -> np.random.Generator:
        """Return the generator of all random numbers of a fit."""
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def _plan(self) -> Plan:
        burn_in, steps = self._lengths()
        return Plan(self.n_chains, self.burn_in or burn_in, self.max_steps or steps, self.target_rhat, self.target_ess)

    def _lengths(self) -> tuple[int, int]:
        """Return the usual steps of burn-in, and the largest number of those after it."""
        return BURN_IN, MAX_STEPS

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
        largest = max(found.several, key=len, default=np.zeros(0))
        if len(largest) > MOST:
            label = labels[used][largest[0]]
            raise ValueError(f"a group can have at most {MOST} predictors, but {len(largest)} have the label {label!r}")
        return found if found.several else None

    def _sample_family(
        self, observations: Any, design: Design, family: Family, scale: Scale, rng: np.random.Generator
    ) -> Posterior:
        """Sample models for responses that are normal given weights of the rows, and describe them."""
        rows, groups = design.x.shape[0], self._groups(scale.used)
        watched = np.arange(0, rows, max(1, rows // WATCHED))
        _, posterior = settled(
            self,
            observations,
            lambda: augmented.Problem(design, family, groups),
            lambda problem: [augmented.AugmentedRegression(problem, own) for own in rng.spawn(self.n_chains)],
            watched,
            rng,
        )
        weight = None if (observations.weight == 1).all() else np.sqrt(observations.weight)
        self._describe_models(posterior, replace(design, root=weight), scale, groups)
        return posterior

    def _describe_models(self, posterior: Posterior, design: Design, scale: Scale, groups: Groups | None) -> None:
        """Store what draws of models say of the predictors."""
        p, draws, used, size = design.size, posterior.draws.effects, np.flatnonzero(scale.used), len(scale.x_mean)
        drawn = posterior.draws.beside
        self._beside = {name: values for name, values in drawn.items() if name in ("g", "h")}
        self._beside["number_of_effects"] = np.diff(draws.indptr).astype(float)
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
        if (np.diff(present.indptr) > 0).mean() > self._threshold:
            fitted = [design.combine(np.asarray(effects.mean(0)).ravel()) for effects in by_response]
            sure = self._chosen("auto", inclusion, present, sets)
            self._summary = used[summary(design, max(fitted, key=np.linalg.norm), np.flatnonzero(sure))]
        self._report_unsettled(posterior)

    def _describe_no_models(self, size: int) -> None:
        """Store that there is no predictor that varies."""
        self.inclusion_probability_, self.inclusion_samples_ = np.zeros(size), sparse.csr_array((1, size), dtype=bool)
        self.credible_sets_, self._beside = [], {}
        self.diagnostics_: dict[str, Diagnosis] = {}
        self._summary = np.empty(0, np.intp)
        self.rhat_, self.ess_, self.n_steps_ = 1.0, math.inf, 0

    def _report_unsettled(self, posterior: Posterior) -> None:
        """Store the diagnostics, and warn if something that is reported has not settled."""
        found = posterior.diagnoses.values()
        self.rhat_ = max((d.rhat for d in found), default=1.0)
        self.ess_ = min((d.ess for d in found), default=math.inf)
        self.n_steps_, self.diagnostics_ = posterior.steps, posterior.diagnoses
        if wrong := posterior.unsettled(self._plan()):
            named = "; ".join(f"{name}: R-hat {d.rhat:.3f}, {d.ess:.0f} effective draws" for name, d in wrong.items())
            warn(
                f"{self._of}after {posterior.steps} steps {self.n_chains} chains have not settled. {named} (targets: "
                f"at most {self.target_rhat:g}, and at least {self.target_ess:g}). {LONGER}",
                ConvergenceWarning,
            )
