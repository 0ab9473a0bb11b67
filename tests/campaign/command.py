"""The command sparse-langevin in a process of its own that begins in milliseconds, and how it ended.

Processes are forks of a server that has loaded the library, see `tests.processes`. Each is the leader of a session, so
that everything it starts can be found.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from tests.processes import fork_quickly, processes

GONE = 10.0  # seconds after which nothing that a killed command has started may be left


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int | None
    """Exit code, minus the signal that ended it, or None if it was still running at the limit."""
    out: str
    err: str
    seconds: float
    grown: float
    """Megabytes of memory that it took in addition to what it began with."""

    @property
    def line(self) -> str:
        """What it said last on standard error."""
        return self.err.strip().rpartition("\n")[2]

    @property
    def refused(self) -> bool:
        """Whether it ended as bad input should: exit code 2 and a line that says what is wrong, or a list below it."""
        lines = [line for line in self.err.splitlines() if line and not line.startswith(("warning: ", "  "))]
        return self.code == 2 and len(lines) == 1 and lines[0].startswith("error: ")


class Command:
    """A command that runs; use it in a ``with`` statement, which ends it."""

    def __init__(self, arguments, folder, *, prepare=None, name="command"):
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the folder: its disk may be full.
        self._out, self._err, self._memory = (folder.parent / f".{folder.name}-{name}-{kind}" for kind in "oem")
        words = [str(word) for word in arguments]
        files = str(self._out), str(self._err), str(self._memory)
        self.process = processes.Process(target=_be, args=(words, str(folder), files, prepare))
        self.begin = time.monotonic()
        self.process.start()
        # Another thread that starts a process asks all children for their exit codes, which can be read only once.
        multiprocessing.process._children.discard(self.process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def wait_for_begin(self):
        """Wait until the process is the command."""
        while not self._memory.exists() and self.process.is_alive():
            time.sleep(0.001)

    def signal(self, number):
        """Send a signal to the command alone, as ``kill`` does."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def kill(self):
        """Kill the command, not what it has started."""
        self.signal(signal.SIGKILL)
        self.process.join()

    def wait(self, limit):
        """Wait for the end, at most so many seconds."""
        self.process.join(max(0.0, limit))
        seconds, code = time.monotonic() - self.begin, self.process.exitcode
        if code is None:
            self.kill()
        text = [path.read_text(errors="replace") if path.exists() else "" for path in (self._out, self._err)]
        grown = float(self._memory.read_text() or 0) if self._memory.exists() else 0.0
        for path in (self._out, self._err, self._memory):
            path.unlink(missing_ok=True)
        return Outcome(code, *text, seconds, grown)

    def orphans(self, seconds=GONE):
        """Processes that it has started and that are still there after some seconds."""
        end = time.monotonic() + seconds
        while (left := in_session(self.process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        return left


def run(arguments, folder, *, limit=60.0, prepare=None):
    """Run a command in a folder to its end."""
    with Command(arguments, folder, prepare=prepare) as command:
        return command.wait(limit)


def in_session(leader):
    """Numbers of the processes in a session that have not ended, without its leader."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX" and int(path.parent.name) != leader:
                found.append(int(path.parent.name))
    return found


def _be(words, folder, files, prepare):
    """Become the command; executed in the new process."""
    os.setsid()
    os.chdir(folder)
    sys.path[:] = [path for path in sys.path if path not in ("", folder)]
    for number, path in zip((1, 2), files, strict=False):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    import torch

    from sparse_langevin.__main__ import main

    torch.set_num_threads(1)
    # It would not find the server that it comes from; having used no threads, it can be forked itself.
    fork_quickly(SimpleNamespace(setattr=setattr), multiprocessing.get_context("fork"))
    if prepare is not None:
        prepare()
    sys.argv = ["sparse-langevin", *words]
    before = _peak()
    Path(files[2]).touch()  # it begins
    try:
        main()
    finally:
        Path(files[2]).write_text(str(_peak() - before))
        sys.stdout.flush()


def _peak():
    """Most megabytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
