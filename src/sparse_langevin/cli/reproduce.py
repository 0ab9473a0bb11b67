"""The commands that repeat the paper's experiments."""

import sys
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any, Literal

import typer

from sparse_langevin.cli.data import Workers
from sparse_langevin.cli.progress import stoppable
from sparse_langevin.cli.tables import print_table
from sparse_langevin.reports.page import Table
from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.progress import progress_bar
from sparse_langevin.storage.errors import StorageError

reproduce = typer.Typer(
    help="Repeat an experiment of the paper, and write its records, table, figures and report.", no_args_is_help=True
)


@reproduce.command()
def regression(
    replicates: Annotated[int, typer.Option(min=1, help="Number of data sets of each test.")] = 100,
    paper_replicates: Annotated[
        int,
        typer.Option(min=0, help="Number of data sets on which the algorithms are run as printed, which is slow."),
    ] = 20,
    test: Annotated[int | None, typer.Option(min=1, max=2, help="Run only this test, 1 or 2.")] = None,
    only: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Run only this contender, such as psgld-sa.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the study. If it was begun, the same command goes on.")] = Path(
        "results/regression"
    ),
    workers: Workers = None,
) -> None:
    """Compare the algorithms with EM, lasso, ARD and an oracle where p is larger than n; judge the paper's claims."""
    from sparse_langevin.studies import regression as study  # these load torch, scikit-learn and Numba
    from sparse_langevin.studies.regression_claims import UNDECIDED
    from sparse_langevin.studies.regression_contenders import Lengths
    from sparse_langevin.studies.regression_data import TESTS
    from sparse_langevin.studies.regression_report import write_report

    tests = (test,) if test is not None else TESTS
    extent, lengths = study.Extent(replicates, paper_replicates, tests, only), Lengths()
    with stoppable(len(extent.cells()), "replicate", out) as report:
        records = study.run(extent, out, lengths, workers=workers, progress=report)
    rows, claims, page = write_report(records, extent, lengths, out)
    for number in tests:
        _print_table([row for row in rows if row["test"] == number], f"test {number}")
    for claim in claims:
        if claim.verdict != UNDECIDED:
            print(f"test {claim.test}, {claim.version}: {claim.quote}: {claim.verdict}")
    print(f"table: {out / 'table.json'}\nreport: {page}")


Scale = Annotated[
    Literal["small", "paper"], typer.Option(help="small: 25 by 25 cells, minutes. paper: the paper's sizes, hours.")
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CELL", help="Run only cells with this text in their names. Can be repeated."),
]
Cells = Annotated[int, typer.Option("--workers", min=1, help="Number of cells at a time, with one thread each.")]
Folder = Annotated[Path | None, typer.Option(help="Folder of the study. If it was begun, the same command goes on.")]


@reproduce.command()
def kle(scale: Scale = "small", only: Only = None, out: Folder = None, workers: Cells = 2) -> None:
    """Train surrogates for Gaussian random fields: the paper's first table, more fields, and Adam for comparison."""
    _surrogates("kle", scale, only, out, workers, None)


@reproduce.command()
def channels(
    image: Annotated[
        Path | None, typer.Option(help="Image of facies to crop. Without it, the cells that need it are left out.")
    ] = None,
    scale: Scale = "small",
    only: Only = None,
    out: Folder = None,
    workers: Cells = 2,
) -> None:
    """Train surrogates for channelised fields: the paper's second table, other splits, and Adam for comparison."""
    _surrogates("channels", scale, only, out, workers, image)


@reproduce.command()
def search(
    only: Only = None,
    out: Annotated[Path, typer.Option(help="Folder of the search.")] = Path("results/search"),
    workers: Cells = 2,
) -> None:
    """Repeat the search for the defaults of 'train': short runs, judged on validation data."""
    from sparse_langevin.studies.darcy_search import search_cells, search_table, write_report

    records = _run_cells(search_cells(only or ()), out, "search", workers, None)
    print_table(search_table(records))
    print(f"table: {out / 'table.json'}\nreport: {write_report(records, out)}")


@reproduce.command()
def uncertainty(
    full_ensemble: Annotated[
        bool, typer.Option("--full-ensemble", help="Add an ensemble of full runs, which takes five times the training.")
    ] = False,
    scale: Scale = "small",
    out: Folder = None,
    workers: Cells = 2,
) -> None:
    """Compare the surrogate's error bars with those of ensembles and dropout that had as much training."""
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
    """Train the cells that are missing, and write the report, also if a cell has failed or the study was stopped."""
    from sparse_langevin.studies.darcy_cells import cells
    from sparse_langevin.studies.darcy_report import main_table, write_report
    from sparse_langevin.studies.darcy_study import TABLE

    folder = out or Path("results" if scale == "paper" else "runs") / study
    chosen = [c for c in cells(study, scale, only or ()) if c.field.kind != "image" or image is not None]
    if not chosen:
        raise ValueError("all the cells you asked for need an image: give it with --image FILE")
    command = f"sparse-langevin reproduce {study} --scale {scale}" + (" --image FILE" if image else "")
    try:
        records = _run_cells(chosen, folder, scale, workers, image)
    except StorageError:  # the folder is not ours to write to: it keeps its report
        raise
    except BaseException:
        if (folder / TABLE).exists():
            write_report(study, folder, command)
        raise
    print_table(main_table(study, records))
    print(f"table: {folder / 'table.json'}\nreport: {write_report(study, folder, command)}")


def _run_cells(
    cells: Sequence[Any], folder: Path, scale: Literal["small", "paper", "search"], workers: int, image: Path | None
) -> list[dict[str, Any]]:
    """Train the cells that are missing, with a progress bar over the epochs of all cells."""
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
    """Print a line for a finished cell at once: studies take hours, and their output often goes to a file."""
    if record["e1"] is None:
        print(f"{record['cell']}: {record['diverged']}", file=sys.stderr, flush=True)
    else:
        minutes = record["cpu_seconds"] / 60
        print(f"{record['cell']}: e1 {record['e1']:.3g} %, {minutes:.1f} CPU minutes", file=sys.stderr, flush=True)


def _print_table(rows: list[dict[str, Any]], title: str) -> None:
    """Print the columns of the report's two tables that fit a terminal."""
    from sparse_langevin.studies.regression_report import PREDICTION, SELECTION, prediction_cells, selection_cells

    chosen, errors = slice(2, 6), slice(1, 3)
    cells = [(selection_cells(r)[0], *selection_cells(r)[chosen], *prediction_cells(r)[errors]) for r in rows]
    print_table(Table(("contender", *SELECTION[chosen], *PREDICTION[errors]), cells, title))
