"""Chains over models of an estimator: new ones, or those of the fit before, and a progress bar beside them."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.collapsed import Regression
from sparse_langevin.linear.settling import Posterior, Run
from sparse_langevin.runtime.progress import progress_bar

LATER = {  # parameters that leave the chains as they are, so that these can go on after a change
    "threshold",
    "selection",
    "fdr",
    "pfer",
    "max_steps",
    "target_rhat",
    "target_ess",
    "warm_start",
    "verbose",
    "n_jobs",
}
T = TypeVar("T")


def settled(
    model: Any,
    observations: Any,
    build: Callable[[], T],
    start: Callable[[T], Sequence[Regression]],
    watched: NDArray[np.intp],
    rng: np.random.Generator,
) -> tuple[T, Posterior]:
    """Run a chain over models for each regression that is started on a problem; return the problem, too.

    With ``warm_start``, problem and chains are those of the fit before if nothing that matters has changed.
    """
    plan, before, model._warm = model._plan(), getattr(model, "_warm", None), None
    key = key_of(model, observations) if model.warm_start else ""
    if model.warm_start and before is not None and before[0] == key:
        _, problem, run = before
    else:
        problem = build()
        run = Run(start(problem), rng)
    total = plan.burn_in + plan.max_steps
    with progress_bar(total, bool(model.verbose)) as advance:
        report = partial(_advanced, advance, total, model._of) if model.verbose else None
        posterior = run.go_on(problem, plan, watched, model._workers(), report)
    model._warm = (key, problem, run) if model.warm_start else None  # only now: an interrupted run is forgotten
    return problem, posterior


def key_of(model: Any, observations: Any) -> str:
    """Return a text that differs if chains for these observations and parameters are others."""
    matters = {name: value for name, value in model.get_params(deep=False).items() if name not in LATER}
    if not isinstance(model.random_state, Integral):
        matters["random_state"] = None
    found: str = joblib.hash((type(model).__name__, matters, observations))
    return found


def _advanced(advance: Callable[[int, str], None], total: int, of: str, steps: int, text: str) -> None:
    """Move a progress bar."""
    advance(min(steps, total), of + text)
