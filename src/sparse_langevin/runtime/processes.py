"""Work in several processes at a time, each of which saves itself when it is asked to stop."""

import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from sparse_langevin.runtime.interrupts import EXIT_CODE
from sparse_langevin.storage.files import StorageError

Job = tuple[Callable[..., None], tuple[object, ...]]


def run_in_processes(
    jobs: Mapping[str, Job],
    workers: int,
    *,
    done: Callable[[str], None] = lambda name: None,
    tick: Callable[[list[str]], None] = lambda running: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run named jobs, so many at a time, in their order; raise at the end if some failed, after all others have run.

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
    """
    context = multiprocessing.get_context("spawn")  # a fork of a process that has used torch's threads can hang
    waiting, failures = list(jobs), list[str]()
    running: dict[str, tuple[BaseProcess, Connection]] = {}
    try:
        while (waiting or running) and not stop():
            while waiting and len(running) < workers:
                name = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(target=_work, args=(*jobs[name], theirs), daemon=True)
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
    if failures:
        raise ValueError("; ".join(failures))


def _work(target: Callable[..., None], arguments: tuple[object, ...], words: Connection) -> None:
    """Run a job in its process; tell the parent what went wrong."""
    try:
        target(*arguments)
    except Exception as error:
        words.send("".join(traceback.format_exception_only(error)).strip())
        if isinstance(error, ValueError | FloatingPointError | StorageError):  # it says all there is to say
            sys.exit(1)
        raise


def _last_words(words: Connection) -> str:
    try:
        return str(words.recv()) if words.poll() else ""
    except EOFError:  # it was killed
        return ""
