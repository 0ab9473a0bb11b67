"""Optional packages: imported where they are needed; if one is missing, the error has the command that installs it."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

SURROGATES = ("h5py", "jinja2", "matplotlib", "PIL", "pydantic", "qdldl", "typer")  # as in pyproject.toml


class MissingExtraError(ImportError):
    """A part of the library needs a package that is not installed; the message has the command that installs it."""


def require(purpose: str, extra: str, *modules: str) -> Any:
    """Import modules that come with an extra, and return the first one."""
    try:
        first, *_ = [import_module(name) for name in modules]
    except ImportError as error:
        raise _missing(purpose, extra, str(error)) from error
    return first


def expect_surrogates(purpose: str) -> None:
    """Raise if the extra ``surrogates`` is not installed; nothing is imported, so that nobody waits for it in vain."""
    absent = [name for name in SURROGATES if find_spec(name) is None]
    if absent:
        raise _missing(purpose, "surrogates", f"not installed: {', '.join(absent)}")


def _missing(purpose: str, extra: str, reason: str) -> MissingExtraError:
    return MissingExtraError(f"{purpose} needs an extra ({reason}): pip install 'sparse-langevin[{extra}]'")
