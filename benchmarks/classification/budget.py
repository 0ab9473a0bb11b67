"""Equal CPU time: how many steps each contender may take, and the seconds that it really used.

For the search, a step of a contender is timed beside a step of the reference, in turns, so that whatever else the
machine does slows down both. With c and c_0 the median CPU seconds of their steps, a contender that gets the whole
budget takes steps_0 c_0/c steps. Setting up, pruning and taking samples are not in the median of a step, and it is
known to some ten per cent only. For the table, the number of steps is therefore that of the chosen trial, times the CPU
seconds of the reference's trial over those of its own. Both numbers come from records, so that schedules and results do
not depend on the load of the machine once these are there.
"""

import time
from dataclasses import dataclass, field
from statistics import median

from benchmarks.classification.contenders import Run, Settings, Train, adam
from benchmarks.classification.data import Part
from benchmarks.classification.field import REFERENCE


@dataclass
class Stopwatch:
    """CPU seconds of this process, step by step; call `tick` after each."""

    began: float = field(default_factory=time.process_time)
    steps: list[float] = field(default_factory=list)
    _last: float = field(default_factory=time.process_time)

    def tick(self) -> None:
        """Note the time since the last step."""
        now = time.process_time()
        self.steps.append(now - self._last)
        self._last = now

    @property
    def seconds(self) -> float:
        """CPU seconds since the beginning."""
        return time.process_time() - self.began


def relative_cost(train: Train, settings: Settings, zeros: float, part: Part, *, steps: int, rounds: int) -> float:
    """Return the CPU time of a step as a multiple of the reference's."""
    pair: dict[str, tuple[Train, Settings, float]] = {"reference": (adam, REFERENCE, 0.0)}
    pair["contender"] = (train, settings, zeros)
    found: dict[str, list[float]] = {name: [] for name in pair}
    for number in range(rounds + 1):
        for name, (function, chosen, share) in pair.items():
            watch = Stopwatch()
            function(part, chosen, Run(steps, 0, share, passes=1, tick=watch.tick))
            if number:  # the first round compiles
                found[name] += watch.steps[1:]
    return median(found["contender"]) / median(found["reference"])


def reference_steps(part: Part, epochs: float) -> int:
    """Return the number of steps of the reference run."""
    return max(1, round(epochs * len(part[0]) / REFERENCE["batch_size"]))
