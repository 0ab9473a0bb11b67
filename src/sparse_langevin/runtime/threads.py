"""A few threads for compiled code that releases the interpreter's lock.

Numba's own thread pools are not used. Of those in its wheels, OpenMP aborts a forked process (data loaders, process
pools), and the work queue aborts a process in which two threads sample at the same time. Python's threads are safe in
both cases, and starting one costs some 50 microseconds.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_pool: ThreadPoolExecutor | None = None
_size = 0


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


def _forget() -> None:
    """Forget the pool in a forked process, where its threads do not exist."""
    global _pool, _size
    _pool, _size = None, 0


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget)
