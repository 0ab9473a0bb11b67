"""Packages that only some need: found, or named with the command that installs them."""

from importlib import import_module
from typing import Any


class MissingExtraError(ImportError):
    """A package is not installed that the library can do without, but not this part of it."""


def require(purpose: str, extra: str, *modules: str) -> Any:
    """Import modules that come with an extra, and return the first one."""
    try:
        first, *_ = [import_module(name) for name in modules]
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs an extra ({error}): pip install 'sparse-langevin[{extra}]'"
        ) from error
    return first
