"""Names of a package that are imported when they are first used, so that only those who need torch wait for it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package
        The ``__name__`` of the package.
    homes
        For each of its modules, the names that the package takes from it.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    there = vars(sys.modules[package])

    def find(name: str) -> object:
        if name in homes:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        there[name] = found = getattr(import_module(home[name]), name)
        return found

    return find, lambda: sorted({*there, *home, *homes})
