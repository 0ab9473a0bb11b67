"""A few threads for compiled code that releases the interpreter's lock.

Numba's own thread pools are not used. Of those in its wheels, OpenMP aborts a forked process (data loaders, process
pools), and the work queue aborts a process in which two threads sample at the same time. Python's threads are safe in
both cases, and starting one costs some 50 microseconds.

Linear algebra in NumPy and SciPy has threads of its own. How many there are decides in which order sums are taken, and
so the last bits, from which chains diverge: `one_blas_thread` is for results that are the same in any process.
"""

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

Function = TypeVar("Function", bound=Callable[..., Any])

_pool: ThreadPoolExecutor | None = None
_size = 0
_lock = threading.Lock()
_inside, _limits = 0, contextlib.ExitStack()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Do linear algebra without threads of its own. Several threads may be inside: the last one to leave ends it."""
    global _inside
    with _lock:
        if _inside == 0:
            _limits.enter_context(_libraries().limit(limits=1))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.close()


def in_one_blas_thread(function: Function) -> Function:
    """Let a function do so; warnings find their way past this frame, but not past one of the standard library."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        with one_blas_thread():
            return function(*arguments, **options)

    return cast(Function, call)


def run(tasks: deque[Callable[[], None]], threads: int) -> None:
    """Carry out all tasks on up to ``threads`` threads, one of which is the caller's."""
    helpers = min(threads, len(tasks)) - 1
    waiting = [_threads(helpers).submit(_work_off, tasks) for _ in range(helpers)]
    _work_off(tasks)
    for future in waiting:
        future.result()


def _work_off(tasks: deque[Callable[[], None]]) -> None:
    while True:
        try:
            task = tasks.popleft()
        except IndexError:
            return
        task()


def _threads(count: int) -> ThreadPoolExecutor:
    """The pool; a larger one replaces it when more threads are wanted, and the old one finishes its work."""
    global _pool, _size
    if _pool is None or _size < count:
        _pool, _size = ThreadPoolExecutor(count, thread_name_prefix="sparse-langevin"), count
    return _pool


@functools.cache
def _libraries() -> ThreadpoolController:
    """The libraries that have threads of their own: finding them takes some milliseconds."""
    return ThreadpoolController()


def _forget() -> None:
    """Forget the pool in a forked process, where its threads do not exist."""
    global _pool, _size
    _pool, _size = None, 0


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget)
