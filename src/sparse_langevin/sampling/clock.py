"""The time that a run has taken, over all of its processes."""

import time

CLOCKS = {"seconds": time.perf_counter, "cpu_seconds": time.process_time}  # CPU time hardly depends on other processes


class Clock:
    """Seconds since the run began, in this process and in those before it."""

    def __init__(self) -> None:
        self.before: dict[str, float] = {}
        self.begin = {name: clock() for name, clock in CLOCKS.items()}

    def read(self) -> dict[str, float]:
        """Return the time on each clock."""
        passed = {name: clock() - self.begin[name] for name, clock in CLOCKS.items()}
        return {name: round(self.before.get(name, 0.0) + value, 3) for name, value in passed.items()}
