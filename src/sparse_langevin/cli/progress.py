"""The progress bar of a command that can be stopped and resumed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGTERM

from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.progress import progress_bar


@contextmanager
def stoppable(total: int, unit: str, folder: Path) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves the bar and, after SIGTERM or Ctrl-C, raises `Interrupted`."""
    with progress_bar(total, None, unit) as advance, deferred_signals(SIGINT, SIGTERM) as pending:

        def report(done: int, total: int) -> None:
            advance(done, "")
            if (number := pending()) is not None and done < total:
                raise Interrupted(number, done, unit, folder)

        yield report
