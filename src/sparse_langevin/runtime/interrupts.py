"""Stopping a run cleanly: after SIGTERM or Ctrl-C it finishes the current step and saves."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

GRACE = 8.0  # seconds to save in, after the parent has died
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: it stopped early, and the same command continues


class Interrupted(SystemExit):
    """Long work was asked to stop and has saved its state; uncaught, this ends the program with exit code 75."""

    def __init__(self, number: int, done: int | None = None, unit: str = "", folder: Path | None = None) -> None:
        super().__init__(EXIT_CODE)
        self.signal = signal.Signals(number)
        self.done = done
        self.told = False  # whether the message has been logged
        saved = "" if done is None else f", {done} {unit}s are saved in {folder}"
        self.message = f"{self.signal.name}: stopped{saved}; run the same again to go on"

    def __str__(self) -> str:
        return self.message


def answer_signals(*, at_once: bool = False) -> Callable[[], Interrupted | None]:
    """Let SIGINT and SIGTERM raise `Interrupted` from now on; the returned function gives it once it was raised.

    A program that ends after that was interrupted, whatever error the interruption turned into on its way. With
    ``at_once`` the program says so and ends on the spot, which is for its start, when libraries are being loaded.
    """
    stopped: list[Interrupted] = []

    def answer(number: int, frame: FrameType | None) -> None:
        again = bool(stopped)
        stopped.append(Interrupted(number))
        if at_once or again:
            os.write(2, b"" if again else f"{stopped[0]}\n".encode())
            os._exit(EXIT_CODE)
        raise stopped[0]

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, answer)
    if sys.platform != "win32":  # whoever started this program may have blocked them
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    return lambda: stopped[0] if stopped else None


@contextmanager
def deferred_signals(*numbers: signal.Signals) -> Iterator[Callable[[], int | None]]:
    """Hold back some signals; the yielded function returns the first one received, or None.

    A second SIGINT takes effect at once. Python lets only the main thread handle signals; in other threads this does
    nothing. Windows never delivers SIGTERM: there a process that is terminated ends at once.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    main = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, note) for number in numbers if main}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_with_the_parent(*, save: bool) -> None:
    """Let this process end when the one that started it is gone, however that ended: nobody would ever stop it.

    With ``save`` it is asked to by SIGTERM first, and has some seconds.
    """
    from multiprocessing import connection, parent_process  # not needed to answer signals, which comes first

    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        if save:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(GRACE)
        os._exit(EXIT_CODE)

    threading.Thread(target=watch, daemon=True).start()
