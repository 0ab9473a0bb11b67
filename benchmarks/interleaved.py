"""Timing side by side: contenders take turns, so that a noisy machine is noisy for all of them."""

import statistics
import time
from collections.abc import Callable, Mapping

Record = dict[str, object]


def measure(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, after one call each that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(repeats):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def record(name: str, seconds: list[float], versus: str = "", others: list[float] | None = None) -> Record:
    """Median milliseconds, and the median and interquartile range of the turn-by-turn ratio to a peer."""
    row: Record = {"name": name, "value": 1e3 * statistics.median(seconds), "unit": "ms", "versus": versus}
    ratios = sorted(s / o for s, o in zip(seconds, others or seconds, strict=True))
    quarter = len(ratios) // 4
    return row | {"ratio": statistics.median(ratios), "spread": ratios[-quarter - 1] - ratios[quarter]}
