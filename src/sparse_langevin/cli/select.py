"""The command ``select``: which columns of a table matter for one of them."""

from pathlib import Path
from typing import Annotated

import typer

from sparse_langevin.cli.tables import print_table
from sparse_langevin.storage.files import require_new, write_new


def select(
    *,
    file: Annotated[Path, typer.Argument(help="CSV or TSV file with a header and one row per observation.")],
    target: Annotated[
        str, typer.Option(help="The column to explain. It holds numbers, or the names of two or more classes.")
    ],
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column to leave out, such as an identifier. Repeat the option for more columns."),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="A column is chosen if the probability that it matters is larger than this.")
    ] = 0.5,
    expected_effects: Annotated[float, typer.Option(help="Roughly how many columns you expect to matter.")] = 10.0,
    level: Annotated[float, typer.Option(help="Probability with which an interval holds the true effect.")] = 0.95,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random numbers. The same seed gives the same result.")
    ] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the report, an HTML file.")] = Path("selection.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace the report if it exists already.")] = False,
) -> None:
    """Find out which columns of a table matter for another one, with probabilities, effects and intervals."""
    from sparse_langevin.linear.selection import (  # scikit-learn loads slowly
        read_table,
        select_variables,
        selection_report,
        selection_table,
    )

    require_new(out, overwrite=force)
    data = read_table(file, target, ignore or [])
    result = select_variables(
        data, threshold=threshold, expected_effects=expected_effects, level=level, random_state=seed
    )
    print_table(selection_table(result.rows, level, result.headline))
    for line in result.remarks:
        print(line)
    write_new(out, selection_report(result).encode(), overwrite=force)
    print(out)
