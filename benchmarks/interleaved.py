"""Timing side by side: contenders take turns, so that a noisy machine is noisy for all of them.

A record is {name, value, unit, versus, ratio, spread}. Its name is "group: contender"; its ratio is its own value
divided by that of ``versus``, turn by turn, as a median with the interquartile range as spread. Without ``versus`` the
spread is the interquartile range of the values divided by their median.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Record = dict[str, object]
SCALE = {"us": 1e6, "ms": 1e3, "s": 1.0}


def measure(contenders: Mapping[str, Callable[[], object]], repeats: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds per call in each turn, after one call each that does not count.

    Short calls need several of them in a turn, or each would find the caches as its neighbour left them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(repeats):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(calls):
                call()
            seconds[name].append((time.perf_counter() - start) / calls)
    return seconds


def record(
    name: str, values: Sequence[float], versus: str = "", others: Sequence[float] | None = None, unit: str = "ms"
) -> Record:
    """Median of some values (seconds, if the unit is one of time), and of their turn-by-turn ratio to a peer's."""
    median = statistics.median(values)
    ratios = sorted(v / o for v, o in zip(values, others or [median] * len(values), strict=True))
    quarter = len(ratios) // 4
    row: Record = {"name": name, "value": SCALE.get(unit, 1.0) * median, "unit": unit, "versus": versus}
    return row | {"ratio": statistics.median(ratios), "spread": ratios[-quarter - 1] - ratios[quarter]}


def compare(group: str, seconds: Mapping[str, Sequence[float]], versus: str, unit: str = "ms") -> list[Record]:
    """One record per contender, all against ``versus``."""
    return [record(f"{group}: {name}", times, versus, seconds[versus], unit) for name, times in seconds.items()]
