"""Several responses to the same predictors: an estimator for each, and what they say put side by side.

The fits are independent. What depends on the predictors alone, `Shared`, is computed for the first response only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.polygenic import Background, affordable

OF_ONE = [  # what a fit to one response leaves, and one to several does not
    "_samples",
    "_beside",
    "_warm",
    "_summary",
    "inclusion_samples_",
    "intercept_samples_",
    "nu_samples_",
    "sigma_samples_",
]


@dataclass
class Shared:
    """What the fits to several responses have in common."""

    design: Design | None = None
    background: Background | None = None

    def background_of(self, design: Design, y: Array, size: float) -> Background | None:
        """Return the small effects of all predictors for a response; None if they would take too long."""
        if not affordable(len(y), design.size):
            return None
        if self.background is None:
            self.background = Background.of(design, y, size)
            return self.background
        return self.background.for_response(design, y)


def names_of(y: Any, responses: Array) -> list[str]:
    """Return how warnings call several responses, by the columns of a frame if they are; empty for one response."""
    if responses.ndim == 1:
        return []
    return [f"response {name!r}: " for name in getattr(y, "columns", range(responses.shape[1]))]


def estimators(model: Any, count: int) -> list[Any]:
    """Return an estimator for each response: those of the fit before if chains may go on, or else new ones."""
    found = getattr(model, "estimators_", [])
    if not (model.warm_start and len(found) == count):
        found = [clone(model) for _ in range(count)]
    parameters = model.get_params(deep=False)
    for one in found:
        one.set_params(**parameters)  # a random generator is shared, and not copied
        one.n_features_in_, one._precision = model.n_features_in_, model._precision
        if (names := getattr(model, "feature_names_in_", None)) is not None:
            one.feature_names_in_ = names
    return found


def describe(model: Any, fitted: Sequence[Any]) -> None:
    """Store what the fits to all responses say, one row for each."""
    for name in OF_ONE:
        model.__dict__.pop(name, None)
    model.estimators_ = list(fitted)
    for name in ("coef_", "coef_std_", "intercept_", "sigma_", "inclusion_probability_"):
        setattr(model, name, np.array([getattr(one, name) for one in fitted]))
    for one in fitted:
        one._rounded()
    model.credible_sets_ = [one._sets() for one in fitted]
    model.diagnostics_ = {
        f"{one._of}{name}": found for one in fitted for name, found in getattr(one, "diagnostics_", {}).items()
    }
    model.rhat_, model.ess_ = max(one.rhat_ for one in fitted), min(one.ess_ for one in fitted)
    model.n_steps_ = max(one.n_steps_ for one in fitted)


def support(model: Any) -> NDArray[np.bool_]:
    """Return the predictors that are chosen for any response."""
    ways = {name: getattr(model, name) for name in ("threshold", "selection", "fdr", "pfer")}
    found: NDArray[np.bool_] = np.any([one.set_params(**ways)._get_support_mask() for one in model.estimators_], axis=0)
    return found
