"""Run the benchmark of record: ``python -m benchmarks.classification [--data FOLDER] [--seeds 0 1 2]``.

First the trials of the search that are not recorded yet, then the runs of the table, then the tables of the page.
Records are in OUT/costs.jsonl, OUT/search.jsonl and OUT/table.jsonl; a command that was stopped goes on when it is
given again. All of it runs on one thread: CPU seconds are the currency.
"""

import argparse
import sys
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks.classification import data, page
from benchmarks.classification.field import CONTENDERS, SHARES, TRIALS
from benchmarks.classification.harness import Cell, Harness
from benchmarks.classification.records import Record
from sparse_langevin.runtime.memory import keep_memory
from sparse_langevin.storage.errors import StorageError
from sparse_langevin.storage.files import locked

ROOT = Path(__file__).parents[2]


def main(words: list[str] | None = None) -> int:
    """Search, run, write the page; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.classification", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--data", type=Path, help=f"folder of Fashion-MNIST; default: the package {data.PACKAGE}")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "classification", help="folder of the records")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "classification.md", help="page of the tables")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="of the table; none: only the search")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="contenders to run")
    parser.add_argument("--zeros", type=float, nargs="+", choices=SHARES, default=list(SHARES), help="shares of zeros")
    options = parser.parse_args(words)
    folder = options.data or data.FOLDER
    if lost := data.missing(folder):
        wanted = f"install the Debian package {data.PACKAGE}, or give the folder of its files with --data FOLDER"
        print(f"skipped: {folder} has no {', '.join(lost)}: {wanted}")
        return 0 if options.data is None else 2
    torch.set_num_threads(1)
    keep_memory()  # `fit` does it for its process; here all contenders are to have the advantage
    try:
        with threadpool_limits(1), locked(options.out):
            return run(Harness(data.load(folder), options.out), options)
    except (ValueError, OSError, StorageError, FloatingPointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run(harness: Harness, options: argparse.Namespace) -> int:
    """Run what is not recorded, and say how it went."""
    cells: list[Cell] = [(name, zeros) for zeros in options.zeros for name in options.only]
    for cell in cells:
        if cell in TRIALS:
            for record in harness.tried(cell):
                tell(record, record["validation"], "validation")
    for seed in options.seeds:
        for cell in cells:
            record = harness.final(cell, seed)
            tell(record, record["test"], "test")
            write_page(harness, options.page)
    write_page(harness, options.page)
    return 0


def tell(record: Record, scores: Record | None, words: str) -> None:
    """Print one line about a record."""
    who = f"{record['contender']}, {record['zeros']:.0%} zeros, seed {record['seed']}"
    numbers = "failed"
    if scores is not None:
        numbers = f"accuracy {scores['accuracy']:.4f}, NLL {scores['nll']:.4f}, ECE {scores['ece']:.4f}"
    print(f"{words}: {who}: {numbers}, {record['cpu_seconds']:.1f} CPU s, {record['settings']}", flush=True)


def write_page(harness: Harness, path: Path) -> None:
    """Enter the tables of all records into the page, if there is one."""
    if path.exists():
        cells = [(name, zeros) for zeros in SHARES for name in CONTENDERS]
        page.enter(path, page.render(harness.finished(cells)))


if __name__ == "__main__":
    sys.exit(main())
