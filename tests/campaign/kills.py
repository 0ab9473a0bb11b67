"""Commands that are killed, again and again, and given again: they end with the same bytes, and leave nothing behind.

Half of the trials kill at random times, up to three times each; the others at one operation on files after the other.
"""

import os
import shutil
import signal
from functools import partial

from sparse_langevin.storage import artefact, files
from tests.campaign.command import Command, run
from tests.campaign.trials import Trial, require
from tests.campaign.work import LONG, WORK, finish, reference

PART = "killed (SIGKILL)"
TIMED, COUNTED = 250, 260
OPERATIONS = ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "unlink"), (os, "truncate"), (shutil, "rmtree"))


def trials(random):
    """Kills at random times, mostly of long work, and at operations."""
    names = [*WORK, *LONG, *LONG]
    timed = []
    for number in range(TIMED):
        name = names[number % len(names)]
        shares = tuple(round(random.uniform(0, 1.05), 4) for _ in range(random.choice((1, 2, 3))))
        timed.append(Trial(f"{name}, after {shares} of its time", name, ("time", shares)))
    counted = []
    for number in range(COUNTED):
        name, operation = [*WORK][number % len(WORK)], 1 + number // len(WORK)
        counted.append(Trial(f"{name}, at operation {operation}", name, ("operation", operation)))
    return timed + counted


def attempt(ground, scratch, trial):
    """Kill a command, see that nothing of it lives on, and give it again."""
    work, (how, when) = WORK[trial.group], trial.facts
    _, seconds = reference(ground, trial.group)
    ground.copy(scratch, *work.needs)
    if how == "time":
        for share in when:
            with Command(work.arguments, scratch) as command:
                command.process.join(share * seconds)
                command.kill()
                left = command.orphans()
            require(not left, f"{len(left)} processes outlive it by 10 s")
    else:
        run(work.arguments, scratch, prepare=partial(die_at, when))
    return finish(ground, scratch, trial.group)


def die_at(count):
    """Let this process, and each that it starts, be killed at an operation on files: half of a write is done then."""
    left = [count]

    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(original):
        def operation(*arguments, **named):
            tick()
            return original(*arguments, **named)

        return operation

    def torn(path, data):
        if left[0] == 1:
            path.write_bytes(data[: len(data) // 2])
        tick()
        whole(path, data)

    whole = files.write_synced
    files.write_synced = artefact.write_synced = torn
    for module, name in OPERATIONS:
        setattr(module, name, dying(getattr(module, name)))
