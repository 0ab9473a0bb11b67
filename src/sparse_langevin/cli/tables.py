"""Tables on a terminal. Text is printed as it is: rich would take brackets in it for markup."""

from collections.abc import Mapping

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from sparse_langevin.reports import page as report


def print_table(page: report.Table) -> None:
    """Print a table of a report. The caption comes first; numbers are aligned to the right."""
    console = Console()
    columns = [[name, *(row[index].text for row in page.cells())] for index, name in enumerate(page.columns)]
    widths = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    # Text is broken between words if the longest words fit, with less space between the columns if necessary.
    room = (console.width - 1 - sum(widths)) // len(columns)
    padding = 1 if room >= 3 else 0
    spare = console.width - 1 - sum(widths) - len(columns) - 2 * padding * (len(columns) - 1)
    wanted = [max(map(len, column)) for column in columns]
    while spare > 0 and (short := [i for i, width in enumerate(widths) if width < wanted[i]]):
        widths[min(short, key=widths.__getitem__)] += 1
        spare -= 1
    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, padding))
    for index, column in enumerate(columns):
        side: JustifyMethod = "left" if index == 0 or page.prose else "right"
        table.add_column(Text(column[0]), justify=side, overflow="fold", width=widths[index] if room >= 1 else None)
    for row in page.cells():
        table.add_row(*(Text(cell.text) for cell in row))
    if page.caption:
        console.print(page.caption, markup=False, highlight=False)
    console.print(table)


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(Text(name, style="bold"), Text(value))
    Console().print(table)
