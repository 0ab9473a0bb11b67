"""Networks by name: those of the problem, or ``module:Class`` for any other.

Code outside this package is imported only for a caller who named it or declared it trusted, never because a file in
some folder names it.
"""

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from torch import nn

from sparse_langevin.surrogates.problem import Problem

OURS = "sparse_langevin."


@contextmanager
def blaming(who: str) -> Iterator[None]:
    """Report an error of a user's network in one line; a ValueError is passed on as it is."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{who} failed: {type(error).__name__}: {' '.join(str(error).split())}") from error


def make_network(name: str, problem: Problem, options: Mapping[str, Any], *, trust: bool = False) -> nn.Module:
    """Make a network for a problem: one of its own by name, its default if the name is empty, or ``module:Class``.

    ``trust`` allows importing a module from outside this package.
    """
    name = name or problem.default_network
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in problem.networks:
            raise ValueError(
                f"{problem.title} has no network {name!r}: choose one of {', '.join(problem.networks)}, or name your "
                "own as module:Class"
            )
        make = problem.networks[name]
    elif not module or not attribute:
        raise ValueError(f"a network of your own is named module:Class, got {name!r}")
    elif not trust and not module.startswith(OURS):
        raise ValueError(
            f"the network {name!r} is code outside sparse-langevin, which would be run: if you trust it, name it "
            f"yourself with --network {name}, or pass trust=True"
        )
    else:
        try:
            make = getattr(_import(module) if trust else importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"there is no network {name!r} among the installed packages or in the working directory: {error}"
            ) from error
        if not trust and not (isinstance(make, type) and issubclass(make, nn.Module)):
            raise ValueError(f"{name!r} is not a class of networks: name one of {problem.title}, or your own")
    with blaming(f"{name}, made for {problem.title} with options {dict(options)},"):
        made = problem.build(make, options)
    if not isinstance(made, nn.Module):
        raise ValueError(f"{name} made a {type(made).__name__}, not a torch.nn.Module")
    return made


def _import(name: str) -> ModuleType:
    """Import a module; one that is not installed from the working directory, which is searched only meanwhile."""
    if name.partition(".")[0] in sys.modules or find_spec(name.partition(".")[0]) is not None:
        return importlib.import_module(name)
    sys.path.append(here := os.getcwd())
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(here)
