"""The command ``select``: which columns of a table matter for one of them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.storage.files import require_new, write_new


def select(
    file: Annotated[Path, typer.Argument(help="CSV or TSV with a header; one row per observation.")],
    target: Annotated[str, typer.Option(help="Column to explain: numbers, or two or more classes.")],
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out, such as an identifier; repeat.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="Choose columns with a larger inclusion probability.")] = 0.5,
    expected_effects: Annotated[float, typer.Option(help="How many columns may matter, roughly.")] = 10.0,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the chains.")] = 0,
    out: Annotated[Path, typer.Option(help="Report to write.")] = Path("selection.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace a report that exists.")] = False,
) -> None:
    """Choose the columns of a table that explain another, with probabilities, effects and intervals."""
    from sparse_langevin.linear.selection import (  # scikit-learn loads slowly
        read_table,
        select_variables,
        selection_report,
    )

    require_new(out, overwrite=force)
    data = read_table(file, target, ignore or [])
    result = select_variables(
        data, threshold=threshold, expected_effects=expected_effects, level=level, random_state=seed
    )
    table = Table("column", "probability", "effect", f"{level:.0%} interval", title=result.headline)
    for row in result.rows:
        table.add_row(row.name, f"{row.probability:.3f}", f"{row.effect:.4g}", f"{row.lower:.4g} to {row.upper:.4g}")
    Console().print(table)
    for line in result.remarks:
        print(line)
    write_new(out, selection_report(result).encode(), overwrite=force)
    print(out)
