"""Names of a package that are loaded when they are asked for, so that nobody waits for torch in vain."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package
        Its ``__name__``.
    homes
        Modules of the package, and the names that they lend to it.
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
