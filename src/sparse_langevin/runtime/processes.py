"""Work in several processes at a time.

`Workers` is an executor for many small jobs, `each` runs them, here or there; `run_in_processes` gives each of a few
long jobs a process of its own, which saves itself when it is asked to stop. No process is forked: a fork of one that
has used torch's threads can hang.
"""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from sparse_langevin.runtime.interrupts import EXIT_CODE, end_with_the_parent

logger = logging.getLogger(__name__)

DEATHS = 5  # of workers, without a job done in between, after which there is no hope
T = TypeVar("T")
Job = tuple[Callable[..., None], tuple[object, ...]]
_CONTEXT = multiprocessing.get_context("spawn")


class _Worker(SpawnProcess):
    def terminate(self) -> None:  # by the pool, when another one has died: SIGTERM is left to the parent
        self.kill()


class _WorkerContext(SpawnContext):
    Process = _Worker


def each(
    function: Callable[..., T],
    arguments: Sequence[tuple[object, ...]],
    workers: int | None = None,
    executor: Executor | None = None,
) -> Generator[T, None, None]:
    """Call a function with each of the arguments, and yield its results as they come.

    Parameters
    ----------
    function, arguments
        Picklable, unless the work is done in this process.
    workers
        Processes; by default one per core. 0 works in this process.
    executor
        Any executor instead; it is not shut down.

    Closing the generator early lets those jobs be finished that have begun.
    """
    if not arguments or (workers == 0 and executor is None):
        yield from (function(*some) for some in arguments)
        return
    if (pool := executor) is None:
        script = b"__main__" in bytes(ForkingPickler.dumps((function, arguments)))
        pool = Workers(min(workers or os.cpu_count() or 1, len(arguments)), script=script)
    try:
        for future in as_completed([pool.submit(function, *some) for some in arguments]):
            yield future.result()
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)


class Workers(Executor):
    """Worker processes that leave signals to their parent; when one dies, what it had in work is done again.

    Parameters
    ----------
    count
        Processes.
    script
        Whether jobs need what the script that runs has defined. Each worker then imports the script, which must do its
        work below ``if __name__ == "__main__":``.
    """

    def __init__(self, count: int, *, script: bool = True) -> None:
        self._count, self._script, self._deaths, self._closed = count, script, 0, False
        self._guard = threading.RLock()
        self._pool = self._new()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a function called in one of the processes."""
        if self._closed:
            raise RuntimeError("the worker processes were shut down: they take no more jobs")
        promise: Future[T] = Future()
        self._send(promise, partial(fn, *args, **kwargs))
        return promise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; jobs that have begun are finished."""
        with self._guard:
            self._closed = True
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._count, _WorkerContext(), begin_worker)

    def _send(self, promise: Future[T], task: Callable[[], T]) -> None:
        with self._guard, _without_interrupts(), nullcontext() if self._script else _without_script():
            pool = self._pool
            try:
                attempt = pool.submit(task)
            except RuntimeError as error:  # a worker died just now
                attempt = Future()
                attempt.set_exception(error)
        attempt.add_done_callback(lambda attempt: self._settle(pool, attempt, promise, task))

    def _settle(self, pool: Executor, attempt: Future[T], promise: Future[T], task: Callable[[], T]) -> None:
        """Pass on how an attempt ended, or make another one."""
        if attempt.cancelled():
            promise.cancel()
            promise.set_running_or_notify_cancel()
            return
        error = attempt.exception()
        if isinstance(error, BrokenProcessPool) and self._replace(pool):
            self._send(promise, task)
        elif promise.set_running_or_notify_cancel():
            if error is not None:
                promise.set_exception(error)
            else:
                self._deaths = 0
                promise.set_result(attempt.result())

    def _replace(self, broken: Executor) -> bool:
        """Start new processes, unless that was done for another job; false if they only die."""
        with self._guard:
            if self._pool is broken and not self._closed:
                self._deaths += 1
                self._closed = self._deaths > DEATHS
                if self._closed:
                    logger.error(
                        "worker processes died %s times in a row: they lack memory, or the script that starts them "
                        'lacks if __name__ == "__main__": around its work. workers=0 does without them',
                        self._deaths,
                    )
                else:
                    logger.warning("a worker process died; what it had in work is done again")
                    self._pool = self._new()
            return not self._closed


def begin_worker() -> None:
    """Leave all signals to the parent, which lets workers finish what they began; end with it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with_the_parent(save=False)


def begin_job() -> None:
    """Leave Ctrl-C to the parent, which asks its jobs to stop by SIGTERM; end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    end_with_the_parent(save=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started here see no signals before they can say what to do with them."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which lets signals through again, the first time
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes that are started here do not import the script that runs, which could do its work all over again."""
    script = vars(sys.modules["__main__"])
    known: dict[str, Any] = {name: script[name] for name in ("__file__", "__spec__") if name in script}
    script.update(dict.fromkeys(known))
    try:
        yield
    finally:
        script.update(known)


def run_in_processes(
    jobs: Mapping[str, Job],
    workers: int,
    *,
    done: Callable[[str], None] = lambda name: None,
    tick: Callable[[list[str]], None] = lambda running: None,
    stop: Callable[[], bool] = lambda: False,
    patient: bool = True,
    script: bool = True,
    nested: bool = False,
) -> None:
    """Run named jobs, so many at a time, in their order; raise an error if some failed.

    Parameters
    ----------
    jobs
        A function and its arguments for each name; both must be picklable.
    workers
        Jobs at a time.
    done
        Called with the name of a job that has come to its end.
    tick
        Called several times a second with the names of the jobs at work.
    stop
        Asked as often; true asks the jobs at work to end (SIGTERM), waits for them, and returns.
    patient
        Whether all others run to their end before a failure is raised; otherwise they are stopped.
    script
        Whether jobs need what the script that runs has defined, see `Workers`.
    nested
        Whether jobs may start processes of their own, such as those of a data loader.
    """
    waiting, failures = list(jobs), list[str]()
    running: dict[str, tuple[BaseProcess, Connection]] = {}
    try:
        while (waiting or running) and not stop() and (patient or not failures):
            while waiting and len(running) < workers:
                name = waiting.pop(0)
                ours, theirs = _CONTEXT.Pipe(duplex=False)
                process: BaseProcess = _CONTEXT.Process(target=_work, args=(*jobs[name], theirs), daemon=not nested)
                with _without_interrupts(), nullcontext() if script else _without_script():
                    process.start()
                theirs.close()
                running[name] = process, ours
            time.sleep(0.3)
            for name, (process, words) in list(running.items()):
                if process.is_alive():
                    continue
                running.pop(name)
                if process.exitcode == 0:
                    done(name)
                elif process.exitcode != EXIT_CODE:
                    failures.append(f"{name} failed: {_last_words(words) or f'exit code {process.exitcode}'}")
            tick(list(running))
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()
    if failures and not stop():  # a signal to all processes may reach a job before it can answer, and end it
        raise ValueError("; ".join(failures))


def _work(target: Callable[..., None], arguments: tuple[object, ...], words: Connection) -> None:
    """Run a job in its process; tell the parent what went wrong."""
    begin_job()
    try:
        target(*arguments)
    except Exception as error:
        words.send("".join(traceback.format_exception_only(error)).strip())
        ours = type(error).__module__.startswith(__name__.partition(".")[0])
        if ours or isinstance(error, ValueError | FloatingPointError):  # it says all there is to say
            sys.exit(1)
        raise


def _last_words(words: Connection) -> str:
    try:
        return str(words.recv()) if words.poll() else ""
    except EOFError:  # it was killed
        return ""
