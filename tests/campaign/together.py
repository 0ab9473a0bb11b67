"""Two processes that do the same work in the same folder: they never meet, and one of them finishes.

Both are slowed down wherever a file gets its name, so that the second comes while the first is at work.
"""

import os
import time

from tests.campaign.command import Command
from tests.campaign.trials import Trial, require
from tests.campaign.work import WORK, finish, reference

PART = "two at once"
EACH = 5
PAUSE = 0.1  # seconds before a file gets its name


def trials(random):
    """The second begins after a random part of the first one's time."""
    shares = {name: [round(random.uniform(0, 0.9), 4) for _ in range(EACH)] for name in WORK}
    return [Trial(f"{name}, the second after {share}", name, (share,)) for name in WORK for share in shares[name]]


def attempt(ground, scratch, trial):
    """Start two, and look at how both end."""
    work, (share,) = WORK[trial.group], trial.facts
    _, seconds = reference(ground, trial.group)
    ground.copy(scratch, *work.needs)
    with Command(work.arguments, scratch, prepare=slow_down) as first:
        first.wait_for_begin()
        first.process.join(share * seconds)
        with Command(work.arguments, scratch, prepare=slow_down, name="second") as second:
            ends = [first.wait(90), second.wait(90)]
    codes = sorted(end.code if end.code is not None else -99 for end in ends)
    require(codes in ([0, 0], [0, 2]), f"they end with {codes}: {[end.err.strip()[-200:] for end in ends]}")
    for end in ends:
        require(end.code == 0 or end.refused, f"exit code {end.code}: {end.err.strip()[-300:]}")
    finish(ground, scratch, trial.group)
    return "one finished, then the other" if codes == [0, 0] else "one finished, the other was refused"


def slow_down():
    """Let the command wait before each file that it gives a name."""
    replace = os.replace

    def slowly(*names, **options):
        time.sleep(PAUSE)
        replace(*names, **options)

    os.replace = slowly
