"""Estimators that can also take the Langevin steps of the paper: those methods' parameters, prior and diagnostics."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sparse_langevin.linear.base import MAX_STEPS, SparseBayes
from sparse_langevin.linear.gaussian import Array, Hyper
from sparse_langevin.linear.runner import Chains
from sparse_langevin.runtime.warn import warn
from sparse_langevin.sampling.methods import Method, method_named

BURN_IN_STEPS = 2000
GIBBS = Method("gibbs", preconditioned=False, selects=True)
STEPS = "psgld-sa"  # the Langevin method where one is needed
OF_STEPS = ("expected_effects", "expected_r2", "v0", "v1")  # parameters that only the Langevin methods have


@dataclass(repr=False, eq=False)
class BySteps(SparseBayes):
    """An estimator with the parameter ``method``, and those that Langevin methods have."""

    method: str = GIBBS.name
    _: KW_ONLY
    expected_effects: float = 10.0
    expected_r2: float = 0.75
    v0: float | None = None
    v1: float | None = None

    def _check_parameters(self) -> None:
        method_named(self.method, also=[GIBBS])
        super()._check_parameters()
        if self.groups is not None and not self._exact:
            raise ValueError(f"groups need method='gibbs', got method={self.method!r}")
        if not (self.fit_intercept or self._exact):
            raise ValueError(f"fit_intercept=False needs method='gibbs', got method={self.method!r}")
        if self.warm_start and not self._exact:
            raise ValueError(f"warm_start=True needs method='gibbs', got method={self.method!r}")
        set_anyway = [name for name in OF_STEPS if getattr(self, name) != getattr(BySteps, name)]
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

    def _checked(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Return X, or X and y, after all checks; to fit by Langevin steps, X is dense and in double precision."""
        checked = super()._checked(X, y, **options)
        if self._exact or isinstance(y, str):
            return checked
        x, y = checked
        return (x.toarray() if sparse.issparse(x) else x).astype(float, copy=False), y

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

    def _lengths(self) -> tuple[int, int]:
        return super()._lengths() if self._exact else (BURN_IN_STEPS, MAX_STEPS)

    def _report(self, chains: Chains) -> None:
        """Store the diagnostics, and warn if the chains have not converged."""
        for name in ("inclusion_samples_", "credible_sets_", "diagnostics_", "_summary", "_warm"):
            self.__dict__.pop(name, None)  # of a fit by another method
        self._beside: dict[str, Array] = {}
        self.rhat_, self.ess_, self.n_steps_ = chains.rhat, chains.ess, chains.steps
        if chains.rhat > self.target_rhat or chains.ess < self.target_ess:
            warn(
                f"{self._of}after {chains.steps} steps the predictions of {self.n_chains} chains have R-hat "
                f"{chains.rhat:.3f} (target: at most {self.target_rhat:g}) and an effective sample size of "
                f"{chains.ess:.0f} (target: at least {self.target_ess:g}). Means are usually fine; intervals may be "
                "rough. Increase max_steps, or relax the targets.",
                ConvergenceWarning,
            )
