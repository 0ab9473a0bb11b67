"""The range of the training inputs: outside of it a network only guesses."""

from typing import Any

import numpy as np

from sparse_langevin.surrogates.problem import Array

EACH = 64  # vectors of so many numbers have a range for each of them; longer ones, and fields, one for all


def range_of(inputs: Array) -> dict[str, Any]:
    """Smallest and largest values, as JSON."""
    flat = inputs.reshape(len(inputs), -1)
    axis = 0 if inputs.ndim == 2 and flat.shape[1] <= EACH else None
    return {"low": np.min(flat, axis=axis).tolist(), "high": np.max(flat, axis=axis).tolist()}


def outside(inputs: Array, known: dict[str, Any] | None) -> str | None:
    """A sentence about inputs that lie outside a range; None if all are inside, or if no range is known."""
    if known is None or not len(inputs):
        return None
    flat = np.asarray(inputs).reshape(len(inputs), -1)
    low, high = np.asarray(known["low"]), np.asarray(known["high"])
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
        f"{row} with {flat[row, column]:.4g}{where}, where training had {span}. What a network says there is a guess, "
        "and so are its error bars."
    )
