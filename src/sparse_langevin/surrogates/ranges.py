"""The range of the training inputs, outside of which a network can only guess."""

from typing import Any

import numpy as np

from sparse_langevin.storage.artefact import SENSELESS
from sparse_langevin.surrogates.problem import Array

EACH = 64  # longest vector with a range for each entry; longer ones, and fields, have one range for all


def range_of(inputs: Array) -> dict[str, Any]:
    """Smallest and largest values, as JSON."""
    flat = inputs.reshape(len(inputs), -1)
    axis = 0 if inputs.ndim == 2 and flat.shape[1] <= EACH else None
    return {"low": np.min(flat, axis=axis).tolist(), "high": np.max(flat, axis=axis).tolist()}


def outside(inputs: Array, known: dict[str, Any] | None) -> str | None:
    """A warning about inputs outside a range; None if all are inside, or if no range is known."""
    if known is None or not len(inputs):
        return None
    flat = np.asarray(inputs).reshape(len(inputs), -1)
    try:
        low, high = (np.asarray(known[name], dtype=float) for name in ("low", "high"))
        np.broadcast_to(low, flat.shape), np.broadcast_to(high, flat.shape)
    except (*SENSELESS, ValueError) as error:
        raise ValueError(f"the range of the training inputs makes no sense: {str(known)[:60]} ({error})") from error
    excess = np.maximum(np.maximum(low - flat, flat - high), 0.0)
    beyond = np.flatnonzero(excess.max(1) > 0)
    if not len(beyond):
        return None
    row, column = np.unravel_index(int(excess.argmax()), excess.shape)
    bounds = (np.broadcast_to(limit, flat.shape[1:])[column] for limit in (low, high))
    span = " to ".join(f"{bound:.4g}" for bound in bounds)
    where = f" in entry {column}" if low.ndim else ""
    return (
        f"{len(beyond)} of {len(flat)} inputs have values outside the range of the training data; the worst is number "
        f"{row} with {flat[row, column]:.4g}{where}, where training had {span}. Predictions there are guesses, and "
        "so are their error bars."
    )
