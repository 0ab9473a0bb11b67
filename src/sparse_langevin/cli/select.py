"""The command ``select``: which columns of a table matter for one of them."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from sparse_langevin.cli.tables import print_table
from sparse_langevin.runtime.progress import progress_bar
from sparse_langevin.storage.files import require_new, write_new


def select(
    *,
    file: Annotated[Path, typer.Argument(help="CSV or TSV file with a header and one row per observation.")],
    target: Annotated[
        str, typer.Option(help="The column to explain. It holds numbers, or the names of two or more classes.")
    ],
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out. Repeat it for more columns.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="A column to use although it looks like an identifier, or has few values. Repeat it for more."
        ),
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A column whose numbers are names of categories. Repeat it for more.")
    ] = None,
    family: Annotated[
        Literal["auto", "gaussian", "student", "classes", "counts"],
        typer.Option(
            help="What the target is: numbers with normal noise (gaussian) or outliers (student), classes or counts. "
            "auto looks at its values, and takes counts for numbers with a remark."
        ),
    ] = "auto",
    missing: Annotated[
        Literal["auto", "drop", "impute", "error"],
        typer.Option(
            help="What to do about rows with missing values: leave them out, fill them in several times, or stop. auto "
            "leaves them out if they are 5 % of the rows at most."
        ),
    ] = "auto",
    na: Annotated[
        list[str] | None, typer.Option(help="What else stands for a missing value, such as -999. Repeat it for more.")
    ] = None,
    decimal: Annotated[
        Literal["auto", "point", "comma"], typer.Option(help="The decimal sign, if it cannot be seen from the numbers.")
    ] = "auto",
    censored: Annotated[
        Literal["error", "limit", "half", "missing"],
        typer.Option(
            help="What to do about values such as <0.5: stop, take the limit, take half of a lower limit, or "
            "take them for missing."
        ),
    ] = "error",
    threshold: Annotated[
        float, typer.Option(help="A column is chosen if the probability that it matters is larger than this.")
    ] = 0.5,
    level: Annotated[float, typer.Option(help="Probability with which an interval holds the true effect.")] = 0.95,
    folds: Annotated[
        int,
        typer.Option(min=0, max=20, help="Parts for cross-validation, 0 for none; with few rows there may be fewer."),
    ] = 5,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random numbers. The same seed gives the same result.")
    ] = 0,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Longest chains, if they do not settle: by default 150000, or 20000 for outliers, classes, counts.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write the report, an HTML file.")] = Path("selection.html"),
    csv: Annotated[Path | None, typer.Option(help="Where to write the numbers as CSV.")] = None,
    json: Annotated[Path | None, typer.Option(help="Where to write the numbers as JSON.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist already.")] = False,
) -> None:
    """Find out which columns of a table matter for another one, with probabilities, effects and intervals."""
    from sparse_langevin.linear.tables import files, page  # scikit-learn loads slowly
    from sparse_langevin.linear.tables.kinds import Options
    from sparse_langevin.linear.tables.selection import Settings, select_variables
    from sparse_langevin.linear.tables.table import read_table

    paths = [path for path in (out, csv, json) if path is not None]
    _require_different([file, *paths])
    for path in paths:
        require_new(path, overwrite=force)
    table = read_table(file, target, Options(ignore or (), keep or (), category or (), na or (), decimal, censored))
    settings = Settings(family, missing, threshold, level, folds, seed, max_steps)
    with ExitStack() as shown:
        bar: list[Callable[[int, str], None]] = []

        def progress(done: int, total: int, text: str) -> None:
            if not bar:  # only now it is known how many fits there are
                bar.append(shown.enter_context(progress_bar(total, None, "fit")))
            bar[0](done, text)

        result = select_variables(table, settings, progress)
    written = [(out, page.selection_page(result).encode())]
    written += [(csv, files.selection_csv(result))] if csv else []
    written += [(json, files.selection_json(result))] if json else []
    for path, data in written:
        write_new(path, data, overwrite=force)
    print(result.headline)
    for found in page.tables_of(result):
        print_table(found)
    for line in [*page.sentences(result), *result.read, *map(str, paths)]:
        print(line)


def _require_different(paths: list[Path]) -> None:
    """Raise if a file would be written over the table or over another one."""
    seen = [os.path.realpath(path) for path in paths]
    for i, path in enumerate(paths):
        if seen[i] in seen[:i]:
            raise ValueError(f"{path} would be written over {paths[seen.index(seen[i])]}: choose another name")
