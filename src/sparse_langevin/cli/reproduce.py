"""Commands that repeat the paper's experiments."""

from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.interrupts import Interrupted, deferred_signals
from sparse_langevin.progress import progress_bar

reproduce = typer.Typer(
    help="Repeat an experiment of the paper: records, table, figures, report.", no_args_is_help=True
)


@reproduce.callback()
def _studies() -> None:
    """Keep the study's name in the command while there is only one."""


@reproduce.command()
def regression(
    replicates: Annotated[int, typer.Option(min=1, help="Data sets of each test.")] = 100,
    paper_replicates: Annotated[
        int,
        typer.Option(min=0, help="Data sets, from the first, on which the algorithms run as printed: these are slow."),
    ] = 20,
    test: Annotated[int | None, typer.Option(min=1, max=2, help="Test 1 or 2 only.")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Run one contender only, such as psgld-sa.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the study. If it was begun, the same command goes on.")] = Path(
        "results/regression"
    ),
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes; one per core unless given, 0 for none.")
    ] = None,
) -> None:
    """Small n, large p: four algorithms beside EM, lasso, ARD and an oracle, and the paper's claims judged."""
    from sparse_langevin.experiments import regression as study  # they load torch, scikit-learn and Numba
    from sparse_langevin.experiments.regression_claims import UNDECIDED
    from sparse_langevin.experiments.regression_contenders import Lengths
    from sparse_langevin.experiments.regression_data import TESTS
    from sparse_langevin.experiments.regression_report import publish

    tests = (test,) if test is not None else TESTS
    extent, lengths = study.Extent(replicates, paper_replicates, tests, only), Lengths()
    with progress_bar(len(extent.cells()), None, "replicate") as advance, deferred_signals(SIGINT, SIGTERM) as pending:

        def report(done: int, total: int) -> None:
            advance(done, "")
            if (number := pending()) is not None and done < total:
                raise Interrupted(number, done, "replicate", out)

        records = study.run(extent, out, lengths, workers=workers, progress=report)
    rows, claims, page = publish(records, extent, lengths, out)
    for number in tests:
        _print_table([row for row in rows if row["test"] == number], f"test {number}")
    for claim in claims:
        if claim.verdict != UNDECIDED:
            print(f"test {claim.test}, {claim.version}: {claim.quote}: {claim.verdict}")
    print(f"table: {out / 'table.json'}\nreport: {page}")


def _print_table(rows: list[dict[str, Any]], title: str) -> None:
    """What fits a terminal of the report's two tables."""
    from sparse_langevin.experiments.regression_report import PREDICTION, SELECTION, prediction_cells, selection_cells

    chosen, errors = slice(2, 6), slice(1, 3)
    table = Table("contender", *SELECTION[chosen], *PREDICTION[errors], title=title)
    for row in rows:
        table.add_row(selection_cells(row)[0], *selection_cells(row)[chosen], *prediction_cells(row)[errors])
    Console().print(table)
