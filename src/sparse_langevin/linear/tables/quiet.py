"""Fits whose warnings are collected, so that they can be told once and in the report."""

import warnings
from typing import Any

from sparse_langevin.linear.tables.cells import Values


def fitted_quietly(model: Any, x: Values, y: Any) -> tuple[Any, list[str]]:
    """Return the fitted model, and what it warned about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y)
    return model, [str(warning.message) for warning in caught]
