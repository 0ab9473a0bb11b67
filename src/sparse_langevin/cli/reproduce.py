"""Commands that repeat the paper's experiments."""

import sys
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from sparse_langevin.cli.tables import print_table
from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.progress import progress_bar

reproduce = typer.Typer(
    help="Repeat an experiment of the paper: records, table, figures, report.", no_args_is_help=True
)


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
    from sparse_langevin.studies import regression as study  # they load torch, scikit-learn and Numba
    from sparse_langevin.studies.regression_claims import UNDECIDED
    from sparse_langevin.studies.regression_contenders import Lengths
    from sparse_langevin.studies.regression_data import TESTS
    from sparse_langevin.studies.regression_report import write_report

    tests = (test,) if test is not None else TESTS
    extent, lengths = study.Extent(replicates, paper_replicates, tests, only), Lengths()
    with progress_bar(len(extent.cells()), None, "replicate") as advance, deferred_signals(SIGINT, SIGTERM) as pending:

        def report(done: int, total: int) -> None:
            advance(done, "")
            if (number := pending()) is not None and done < total:
                raise Interrupted(number, done, "replicate", out)

        records = study.run(extent, out, lengths, workers=workers, progress=report)
    rows, claims, page = write_report(records, extent, lengths, out)
    for number in tests:
        _print_table([row for row in rows if row["test"] == number], f"test {number}")
    for claim in claims:
        if claim.verdict != UNDECIDED:
            print(f"test {claim.test}, {claim.version}: {claim.quote}: {claim.verdict}")
    print(f"table: {out / 'table.json'}\nreport: {page}")


Scale = Annotated[
    Literal["small", "paper"], typer.Option(help="small: 25 by 25 cells, minutes. paper: the real thing, hours.")
]
Only = Annotated[
    list[str] | None, typer.Option(metavar="CELL", help="Only cells whose names contain this text: repeat the option.")
]
Cells = Annotated[int, typer.Option("--workers", min=1, help="Cells at a time, one thread each.")]
Folder = Annotated[Path | None, typer.Option(help="Folder of the study. If it was begun, the same command goes on.")]


@reproduce.command()
def kle(scale: Scale = "small", only: Only = None, out: Folder = None, workers: Cells = 2) -> None:
    """Surrogates for Gaussian random fields: the paper's first table, more fields, and Adam beside them."""
    _surrogates("kle", scale, only, out, workers, None)


@reproduce.command()
def channels(
    image: Annotated[
        Path | None, typer.Option(help="Image of facies to crop; cells that need one are left out without it.")
    ] = None,
    scale: Scale = "small",
    only: Only = None,
    out: Folder = None,
    workers: Cells = 2,
) -> None:
    """Surrogates for channelised fields: the paper's second table, other splits, and Adam beside them."""
    _surrogates("channels", scale, only, out, workers, image)


@reproduce.command()
def search(
    only: Only = None,
    out: Annotated[Path, typer.Option(help="Folder of the search.")] = Path("results/search"),
    workers: Cells = 2,
) -> None:
    """The search behind the defaults of 'train': short runs judged on validation data."""
    from sparse_langevin.studies.darcy_search import search_cells, search_table, write_report

    records = _run_cells(search_cells(only or ()), out, "search", workers, None)
    print_table(search_table(records))
    print(f"table: {out / 'table.json'}\nreport: {write_report(records, out)}")


@reproduce.command()
def uncertainty(
    full_ensemble: Annotated[
        bool, typer.Option("--full-ensemble", help="Add an ensemble of full runs: five times the training.")
    ] = False,
    scale: Scale = "small",
    out: Folder = None,
    workers: Cells = 2,
) -> None:
    """Whether the surrogate's error bars can be believed, beside ensembles and dropout for the same training."""
    from sparse_langevin.studies.darcy_study import WORK, StudyFolder
    from sparse_langevin.studies.darcy_uncertainty import contenders, examine
    from sparse_langevin.studies.darcy_uncertainty_report import bars_table, claims_table, main_table, write_report

    folder = out or Path("results" if scale == "paper" else "runs") / "uncertainty"
    chosen = contenders(scale, full_ensemble=full_ensemble)
    _run_cells([cell for one in chosen for cell in one.cells], folder / WORK, scale, workers, None)
    judged = [examine(one, StudyFolder(folder / WORK, scale)) for one in chosen]
    extra = " --full-ensemble" if full_ensemble else ""
    page = write_report(judged, folder, f"sparse-langevin reproduce uncertainty --scale {scale}{extra}")
    for table in (main_table, bars_table, claims_table):
        print_table(table([one.record for one in judged]))
    print(f"table: {folder / 'table.json'}\nreport: {page}")


def _surrogates(
    study: Literal["kle", "channels"],
    scale: Literal["small", "paper"],
    only: list[str] | None,
    out: Path | None,
    workers: int,
    image: Path | None,
) -> None:
    """Run the cells that are missing, and write what is finished."""
    from sparse_langevin.studies.darcy_cells import cells
    from sparse_langevin.studies.darcy_report import main_table, write_report
    from sparse_langevin.studies.darcy_study import TABLE

    folder = out or Path("results" if scale == "paper" else "runs") / study
    chosen = [c for c in cells(study, scale, only or ()) if c.field.kind != "image" or image is not None]
    if not chosen:
        raise ValueError("every cell that was asked for is cut from an image: give it with --image FILE")
    command = f"sparse-langevin reproduce {study} --scale {scale}" + (" --image FILE" if image else "")
    try:
        records = _run_cells(chosen, folder, scale, workers, image)
    finally:
        if (folder / TABLE).exists():
            page = write_report(study, folder, command)
    print_table(main_table(study, records))
    print(f"table: {folder / 'table.json'}\nreport: {page}")


def _run_cells(
    cells: Sequence[Any], folder: Path, scale: Literal["small", "paper", "search"], workers: int, image: Path | None
) -> list[dict[str, Any]]:
    """Train what is missing, with a bar over the epochs of all cells."""
    from sparse_langevin.studies import darcy_study

    total = sum(cell.settings.epochs for cell in cells)
    with progress_bar(total, None, "epoch") as advance, deferred_signals(SIGINT, SIGTERM) as pending:
        records = darcy_study.run(
            cells,
            darcy_study.StudyFolder(folder, scale, image),
            workers=workers,
            progress=lambda epochs, text: advance(int(epochs), text),
            finished=_print_cell,
            stop=lambda: pending() is not None,
        )
        if (number := pending()) is not None:
            raise Interrupted(number, len(records), "cell", folder)
    return records


def _print_cell(record: dict[str, Any]) -> None:
    """A line for a finished cell, at once: studies take hours, and their output often goes to a file."""
    if record["e1"] is None:
        print(f"{record['cell']}: {record['diverged']}", file=sys.stderr, flush=True)
    else:
        minutes = record["cpu_seconds"] / 60
        print(f"{record['cell']}: e1 {record['e1']:.3g} %, {minutes:.1f} CPU minutes", file=sys.stderr, flush=True)


def _print_table(rows: list[dict[str, Any]], title: str) -> None:
    """What fits a terminal of the report's two tables."""
    from sparse_langevin.studies.regression_report import PREDICTION, SELECTION, prediction_cells, selection_cells

    chosen, errors = slice(2, 6), slice(1, 3)
    table = Table("contender", *SELECTION[chosen], *PREDICTION[errors], title=title)
    for row in rows:
        table.add_row(selection_cells(row)[0], *selection_cells(row)[chosen], *prediction_cells(row)[errors])
    Console().print(table)
