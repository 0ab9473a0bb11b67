"""Draws of an estimator as ArviZ's InferenceData: chains kept apart, predictors by their names."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.design import Array
from sparse_langevin.linear.polygenic import VALUES
from sparse_langevin.linear.samples import Samples, dense
from sparse_langevin.runtime.extras import require
from sparse_langevin.runtime.memory import require_memory

if TYPE_CHECKING:
    from arviz import InferenceData

MEANING = {
    "sigma": "standard deviation of the noise",
    "nu": "degrees of freedom of the noise",
    "dispersion": "r of the variance m + m^2/r of counts with mean m",
    "g": "variance of standardised effects in units of the noise's",
    "h": "variance of the small effects of all predictors together in units of the noise's",
    "number_of_effects": "predictors in the model",
    "inclusion": "whether a predictor is in the model",
}


def inference_data(
    model: Any, samples: Sequence[Samples], chosen: Any, predictive: NDArray[Any] | None, observed: NDArray[Any] | None
) -> "InferenceData":
    """Return all draws of a fitted estimator.

    Parameters
    ----------
    model
        The estimator.
    samples
        Draws of its coefficients, (draws, predictors), for each row of ``coef_``.
    chosen
        The predictors whose coefficients are wanted, as indices or a mask; None for all.
    predictive
        Draws of new responses, (draws, observations).
    observed
        The responses that were observed.
    """
    arviz = require("to_arviz", "arviz", "arviz")
    size = len(model.inclusion_probability_)
    places = np.arange(size) if chosen is None else np.arange(size)[chosen]
    require_memory(
        16 * samples[0].shape[0] * len(places) * len(samples), "to_arviz", "choose fewer predictors, as predictors=mask"
    )
    classes = getattr(model, "classes_", None)
    of_class = ["class"] if classes is not None else []
    coef = np.stack([_columns(own, places) for own in samples], axis=1)
    posterior: dict[str, NDArray[Any]] = {"coef": coef if of_class else coef[:, 0]}
    posterior["intercept"] = model.intercept_samples_
    posterior |= {name: getattr(model, f"{name}_samples_") for name in MEANING if _drawn(model, name)}
    posterior |= model._beside
    if "h" in posterior:
        posterior["h"] = VALUES[posterior["h"].astype(int)]
    if model._beside:
        posterior["inclusion"] = _columns(model.inclusion_samples_, places).astype(np.int8)
    names = getattr(model, "feature_names_in_", None)
    coords = {"predictor": np.array([f"x{j}" for j in places] if names is None else names[places], dtype=str)}
    if classes is not None:
        coords["class"] = np.array(classes[-len(samples) :], dtype=str)
    dims = {"coef": [*of_class, "predictor"], "intercept": of_class, "inclusion": ["predictor"]}
    groups: dict[str, Any] = {"posterior": _by_chain(posterior, model.n_chains)}
    if predictive is not None:
        groups["posterior_predictive"] = _by_chain({"y": predictive}, model.n_chains)
    if observed is not None:
        groups["observed_data"] = {"y": observed}
    found: InferenceData = arviz.from_dict(**groups, coords=coords, dims=dims | {"y": ["observation"]})
    variables = found["posterior"]
    for name, text in MEANING.items():
        if name in variables:
            variables[name].attrs["long_name"] = text
    return found


def _drawn(model: Any, name: str) -> bool:
    """Whether there are draws of some quantity; a model without a model to choose has none of inclusion."""
    return name != "inclusion" and hasattr(model, f"{name}_samples_")


def _columns(samples: Samples, places: NDArray[np.intp]) -> Array:
    found: Array = samples[:, places].toarray() if sparse.issparse(samples) else dense(samples)[:, places]
    return found


def _by_chain(draws: Mapping[str, NDArray[Any]], chains: int) -> dict[str, NDArray[Any]]:
    """Return draws of chains that follow each other as (chains, draws, ...), all of the same length.

    Where coefficients were kept for some of the draws only, these are spread evenly over all.
    """
    total = max(len(values) for values in draws.values())
    least = min(len(values) for values in draws.values())
    chains = chains if total % chains == 0 and least >= chains else 1
    kept = np.linspace(0, total - 1, least).astype(int)
    of_chain = np.split(np.arange(least), np.searchsorted(kept, np.arange(1, chains) * (total // chains)))
    length = min(len(part) for part in of_chain)
    places = np.concatenate([part[:length] for part in of_chain])
    found = {}
    for name, values in draws.items():
        some = values[places] if len(values) == least else values[kept[places]]
        found[name] = some.reshape(chains, length, *values.shape[1:])
    return found
