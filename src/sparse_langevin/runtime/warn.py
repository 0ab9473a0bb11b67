"""Warnings that point at the user's line of code, whatever the depth from which they come."""

import sys
import warnings


def warn(message: str, category: type[Warning]) -> None:
    """Give a warning in the name of the first caller outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("sparse_langevin"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
