"""Numba's compiler with the options that all kernels share.

`compiled` releases the interpreter's lock and keeps machine code on disk, next to the source or in the user's cache
folder, so that compilation is paid once per machine; where neither can be written, code is compiled in every process.

The same call gives the same bits in every process. Numba compiles a function for itself and again within its callers,
and which copy runs depends on whether it was compiled or read from disk: both must compute the same. So `compiled` code
is strict: no operation is fused or moved. `fused` code may contain fused multiply-adds, and `reassociated` code also
sums split over vector lanes; these are always inlined, so that only their caller's copy runs. None of them lets the
compiler assume that numbers are finite.

Numba notices that a cached function is out of date by the date of its own file alone: after a change in a file whose
functions are called from another file, touch the other one too.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# The error model: a division by zero gives infinity, as in NumPy and torch, and costs no branch.
STRICT: Any = {"nogil": True, "error_model": "numpy"}
FUSED: Any = STRICT | {"fastmath": {"contract"}, "forceinline": True}


def compiled(function: Function) -> Function:
    """Compile ``function`` for each combination of argument types that it is called with."""
    return _compile(function, STRICT)


def fused(function: Function) -> Function:
    """Like `compiled`, with fused multiply-adds, and inlined into its callers."""
    return _compile(function, FUSED)


def reassociated(function: Function) -> Function:
    """Like `fused`, with sums in any order."""
    return _compile(function, FUSED | {"fastmath": {"contract", "reassoc"}})


def _compile(function: Function, options: dict[str, Any]) -> Function:
    try:
        result: Function = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder to keep the code in
        result = numba.njit(function, **options)
    return result
