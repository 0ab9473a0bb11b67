"""A progress bar for long work, with rate and time left; nothing is shown when the output is not a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text


@contextmanager
def progress_bar(total: int | None, show: bool | None, unit: str = "step") -> Iterator[Callable[[int, str], None]]:
    """Yield a function of (units done, what to say) that moves the bar; ``show=None`` shows it on a terminal."""
    with progress_bars([""], total, show, unit) as advance:
        yield lambda done, text: advance("", done, text)


@contextmanager
def progress_bars(
    names: Sequence[str], total: int | None, show: bool | None, unit: str = "step"
) -> Iterator[Callable[[str, int, str], None]]:
    """Show several bars, and yield a function of (name, units done, what to say) that moves one of them."""
    console = Console(stderr=True)
    if not (console.is_terminal if show is None else show):
        yield lambda name, done, text: None
        return
    columns = (
        TextColumn(unit),
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        _Rate(),
        TextColumn("{task.description}", table_column=Column(no_wrap=False)),  # on narrow terminals, over several lines
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as bar:
        tasks = {name: bar.add_task(name, total=total) for name in names}
        yield lambda name, done, text: bar.update(tasks[name], completed=done, description=text)


class _Rate(ProgressColumn):
    """Units per second, averaged over the most recent ones."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.4g}/s" if task.speed else "")
