"""Commands that are asked to stop at any time: they answer in one line, and go on when they are given again.

Half of the signals go to the command alone, as from ``kill``, the others to all its processes, as from a keyboard. A
quarter of the trials start the command as a user does, so that the signal can come while Python loads the library.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import sparse_langevin
from sparse_langevin.runtime.interrupts import EXIT_CODE
from tests.campaign.command import Command, in_session
from tests.campaign.trials import Trial, require
from tests.campaign.work import LONG, WORK, finish, reference

PART = "asked to stop (SIGINT, SIGTERM)"
NUMBER = 120
BOOT = 3.0  # seconds that Python takes to load the library, at most


def trials(random):
    """Signals at random times."""
    found = []
    names = [*WORK, *LONG]
    for number in range(NUMBER):
        name = names[number % len(names)]
        word, everybody = random.choice(("SIGINT", "SIGTERM")), random.random() < 0.5
        fresh, share = number % 4 == 3, round(random.uniform(0, 1), 4)
        where = f"{word} to {'all its processes' if everybody else 'it alone'}"
        start = "started anew" if fresh else "forked"
        found.append(Trial(f"{name}, {start}, {where}, at {share}", name, (word, everybody, fresh, share)))
    return found


def attempt(ground, scratch, trial):
    """Send a signal, look at the answer, and give the command again."""
    work, (word, everybody, fresh, share) = WORK[trial.group], trial.facts
    _, seconds = reference(ground, trial.group)
    ground.copy(scratch, *work.needs)
    number = signal.Signals[word]
    code, err = (_anew if fresh else _forked)(work.arguments, scratch, number, everybody, share, seconds)
    if code == -number and fresh:
        # Python itself may tell where in its own start it was, before any line of ours.
        ours = [line for line in err.splitlines() if "File " in line and "<frozen " not in line]
        require(not ours, f"ended by the signal, after saying {err!r}")
        finish(ground, scratch, trial.group)
        return "before Python could answer"
    require(code in (0, EXIT_CODE), f"exit code {code}: {err.strip()[-300:]}")
    if code == EXIT_CODE:
        lines = [line for line in err.strip().splitlines() if not line.startswith("warning: ")]
        told = len(lines) == 1 and lines[0].startswith(f"{word}: stopped") and "run the same again" in lines[0]
        require(told, f"it answers {err.strip()[-300:]!r}")
    finish(ground, scratch, trial.group)
    return "stopped and went on" if code == EXIT_CODE else "had finished"


def _forked(arguments, folder, number, everybody, share, seconds):
    with Command(arguments, folder) as command:
        command.wait_for_begin()
        command.process.join(share * seconds)
        _send(command.process.pid, number, everybody)
        outcome = command.wait(60)
        left = command.orphans()
    require(not left, f"{len(left)} processes outlive it by 10 s")
    return outcome.code, outcome.err


def _anew(arguments, folder, number, everybody, share, seconds):
    words = [sys.executable, "-m", "sparse_langevin", *map(str, arguments)]
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(sparse_langevin.__file__).parents[1])},
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    time.sleep(share * (BOOT + seconds))
    _send(process.pid, number, everybody)
    _, err = process.communicate(timeout=90)
    end = time.monotonic() + 10
    while (left := in_session(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    require(not left, f"{len(left)} processes outlive it by 10 s")
    return process.returncode, err


def _send(pid, number, everybody):
    with suppress(ProcessLookupError):
        os.killpg(pid, number) if everybody else os.kill(pid, number)
