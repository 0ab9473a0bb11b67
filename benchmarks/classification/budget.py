"""Equal CPU time: how many steps each contender may take, and the seconds that it really used.

Runs of a contender and of the reference are timed in turns, so that whatever else the machine does slows down both. The
cost of a contender is the median, over these pairs, of the ratio of their CPU seconds; with the whole budget it takes
as many steps as the reference, divided by its cost. For the search one cost per size of batches will do; for the table
it is measured again, on longer runs with the settings that were chosen. Costs are recorded, so that schedules and
results do not depend on the load of the machine once they are there.
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
    ratios = []
    for number in range(rounds + 1):
        spent = {}
        for name, (function, chosen, share) in pair.items():
            watch = Stopwatch()
            function(part, chosen, Run(steps, 0, share, passes=1, tick=watch.tick))
            spent[name] = sum(watch.steps[1:])  # the first one has the setting up in it
        if number:  # the first round compiles
            ratios.append(spent["contender"] / spent["reference"])
    return median(ratios)


def reference_steps(part: Part, epochs: float) -> int:
    """Return the number of steps of the reference run."""
    return max(1, round(epochs * len(part[0]) / REFERENCE["batch_size"]))
