"""A progress bar for long runs; silent when the output is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sparse_langevin.sampler import Info


@contextmanager
def progress_bar(total: int | None, show: bool | None) -> Iterator[Callable[[int, Info], None]]:
    """Yield a function of (steps done, info) that moves the bar."""
    console = Console(stderr=True)
    if not (console.is_terminal if show is None else show):
        yield lambda done, info: None
        return
    columns = (
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as bar:
        task = bar.add_task("", total=total)

        def advance(done: int, info: Info) -> None:
            text = f"loss {info.loss:.4g}  sigma {info.sigma:.3g}  sparsity {info.sparsity:.0%}"
            bar.update(task, completed=done, description=text)

        yield advance
