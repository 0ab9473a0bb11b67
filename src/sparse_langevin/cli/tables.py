"""Tables of the reports, on a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from sparse_langevin import report


def print_table(page: report.Table) -> None:
    """Print a table of a report: the first column to the left, numbers to the right, the caption above."""
    table = Table(title=page.caption, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for index, column in enumerate(page.columns):
        words = " ".join([column, *(row[index].text for row in page.cells())]).split()
        narrowest = min(20, max(map(len, words), default=0))  # lines break between words, as long as there is room
        left = index == 0 or page.prose
        table.add_column(column, justify="left" if left else "right", overflow="fold", min_width=narrowest)
    for row in page.cells():
        table.add_row(*(cell.text for cell in row))
    Console().print(table)
