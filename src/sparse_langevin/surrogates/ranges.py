"""The range of the training inputs, outside of which a network can only guess."""

import math
from typing import Any

import numpy as np

from sparse_langevin.storage.artefact import SENSELESS
from sparse_langevin.surrogates.prediction import slices
from sparse_langevin.surrogates.problem import Array, Inputs

EACH = 64  # longest vector with a range for each entry; longer ones, and fields, have one range for all


def range_of(inputs: Array) -> dict[str, Any]:
    """Smallest and largest values, as JSON."""
    flat = inputs.reshape(len(inputs), -1)
    axis = 0 if inputs.ndim == 2 and flat.shape[1] <= EACH else None
    return {"low": np.min(flat, axis=axis).tolist(), "high": np.max(flat, axis=axis).tolist()}


def outside(inputs: Inputs, known: dict[str, Any] | None) -> str | None:
    """A warning about inputs outside a range; None if all are inside, or if no range is known."""
    if known is None or not len(inputs):
        return None
    size = math.prod(inputs.shape[1:])
    try:
        low, high = (np.asarray(known[name], dtype=float) for name in ("low", "high"))
        np.broadcast_to(low, (size,)), np.broadcast_to(high, (size,))
    except (*SENSELESS, ValueError) as error:
        raise ValueError(f"the range of the training inputs makes no sense: {str(known)[:60]} ({error})") from error
    beyond, worst, where, what = 0, 0.0, (0, 0), 0.0
    for rows in slices(inputs):
        flat = np.asarray(inputs[rows]).reshape(rows.stop - rows.start, -1)
        excess = np.maximum(np.maximum(low - flat, flat - high), 0.0)
        beyond += int((excess.max(1) > 0).sum())
        if excess.max() > worst:
            row, column = (int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
            worst, where, what = float(excess.max()), (rows.start + row, column), float(flat[row, column])
    if not beyond:
        return None
    span = " to ".join(f"{np.broadcast_to(limit, (size,))[where[1]]:.4g}" for limit in (low, high))
    entry = f" in entry {where[1]}" if low.ndim else ""
    return (
        f"{beyond} of {len(inputs)} inputs have values outside the range of the training data; the worst is number "
        f"{where[0]} with {what:.4g}{entry}, where training had {span}. Predictions there are guesses, and "
        "so are their error bars."
    )
