"""Numba's compiler with the options that all kernels share.

`compiled` releases the interpreter's lock and keeps machine code on disk, next to the source or in the user's cache
folder, so that compilation is paid once per machine; where neither can be written, code is compiled in every process.

The same call gives the same bits in every process. Numba compiles a function for itself and again within its callers,
and which copy runs depends on whether it was compiled or read from disk: both must compute the same. So `compiled` code
is strict: no operation is fused or moved. `fused` code may contain fused multiply-adds, and `reassociated` code also
sums split over vector lanes; these are always inlined, so that only their caller's copy runs. None of them lets the
compiler assume that numbers are finite.

Numba's own cache looks at the date of a function's own file alone: it would run old machine code after a change in a
file whose functions or constants are used from another one, and fail on an index that names a class which has moved.
Here the key of an entry covers the source of everything that a function reaches (`fingerprint`), and what cannot be
read is compiled anew.
"""

import contextlib
import functools
import hashlib
import types
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher
from numba.extending import overload

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
    result: Any = numba.njit(function, **options)
    with contextlib.suppress(RuntimeError):  # no folder to keep the code in
        result._cache = _Cache(function, options)
    return result  # type: ignore[no-any-return]


class _Cache(FunctionCache):
    """Numba's cache of one function, with a key that covers all that the function reaches."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function)
        self._options = _described(options)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple(), (self._options, fingerprint(self._py_func))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code from the disk; None, so that it is compiled, if that cannot be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling raises whatever it likes
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep machine code on disk; what was there and cannot be read is replaced."""
        try:
            super().save_overload(sig, data)
        except Exception:
            self.flush()
            super().save_overload(sig, data)


def choosing(stub: Callable[..., Any], **options: Any) -> Callable[[Function], Function]:
    """Let the types of its arguments decide, when a caller is compiled, what a call of ``stub`` means.

    Numba's ``overload``, which also tells `fingerprint` of the function that makes the choice.
    """

    def register(choice: Function) -> Function:
        CHOICES[stub] = choice
        overload(stub, jit_options=cast(Any, options), strict=False)(choice)  # types may be annotated
        return choice

    return register


CHOICES: dict[Callable[..., Any], Callable[..., Any]] = {}


@functools.cache
def fingerprint(function: Callable[..., Any]) -> str:
    """SHA-256 over the code of a function and of everything in Python that it refers to, directly or not."""
    digest = hashlib.sha256()
    waiting, seen = [function], {function}
    while waiting:
        one = waiting.pop()
        digest.update(_code_bytes(one.__code__))
        for name, value in _references(one):
            if isinstance(value, types.FunctionType):
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
                value = value.__qualname__
            digest.update(f"{name}={value!r};".encode())
    return digest.hexdigest()


def _references(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names that a function uses, with the functions and constants behind them."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    scope = function.__globals__ | dict(zip(function.__code__.co_freevars, cells, strict=True))
    names = sorted(_names(function.__code__))
    for name in names:
        if isinstance(module := scope.get(name), types.ModuleType):
            yield from (pair for other in names for pair in _resolved(other, getattr(module, other, None)))
        else:
            yield from _resolved(name, module)
    if function in CHOICES:
        yield "choice", CHOICES[function]


def _resolved(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a name stands for, if it can take part in compiled code."""
    if isinstance(value, Dispatcher):
        yield name, _described(value.targetoptions)
        yield name, value.py_func
    elif isinstance(value, tuple):
        for item in value:
            yield from _resolved(name, item)
    elif isinstance(value, types.FunctionType | bool | int | float | complex | str | np.generic):
        yield name, value
    elif fields := getattr(value, "_fields", None):  # the class of a named tuple
        yield name, fields


def _described(options: dict[str, Any]) -> str:
    """A compiler's options, the same way in every process."""
    return repr([(name, sorted(v) if isinstance(v, set) else v) for name, v in sorted(options.items())])


def _names(code: types.CodeType) -> set[str]:
    """Names that some code and the functions nested in it refer to."""
    nested = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return {*code.co_names, *code.co_freevars}.union(*nested)


def _code_bytes(code: types.CodeType) -> bytes:
    """Instructions and constants, those of nested functions included; line numbers do not matter."""
    constants = [
        _code_bytes(c) if isinstance(c, types.CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else c
        for c in code.co_consts
    ]
    return code.co_code + repr((code.co_names, code.co_varnames, constants)).encode()
