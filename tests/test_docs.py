"""The docstrings behind the API page."""

import importlib
import inspect
import pkgutil
import re

import sparse_langevin

GROUP = re.compile(r"^(?:\w+, )+\w+$", flags=re.MULTILINE)


def documented():
    """Every class, function and method of the package with a docstring that lists parameters."""
    for info in pkgutil.walk_packages(sparse_langevin.__path__, "sparse_langevin."):
        if info.name in ("sparse_langevin.darcy", "sparse_langevin.__main__"):  # the old name warns, the other one runs
            continue
        for thing in vars(importlib.import_module(info.name)).values():
            if inspect.isclass(thing) or inspect.isfunction(thing):
                methods = [m for m in vars(thing).values() if inspect.isfunction(m)] if inspect.isclass(thing) else []
                yield from (one for one in (thing, *methods) if "Parameters\n" in (inspect.getdoc(one) or ""))


def test_parameters_that_share_an_entry_share_a_default():
    """The API page prints the first one's default beside all of them."""
    seen, wrong = 0, set()
    for thing in documented():
        parameters = inspect.getdoc(thing).partition("Parameters\n")[2].partition("\nReturns\n")[0]
        for entry in GROUP.findall(parameters):
            known = inspect.signature(thing).parameters
            values = [repr(known[name].default) for name in entry.split(", ")]
            seen += 1
            if len(set(values)) > 1:
                wrong.add(f"{thing.__module__}.{thing.__qualname__}: {entry} = {', '.join(values)}")
    assert seen > 5 and not wrong, "\n".join(sorted(wrong))
