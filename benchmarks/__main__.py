"""Run the benchmarks: ``python -m benchmarks [--only update linear] [--out results] [--quick]``.

Each part is a module with ``records(figures, quick)``. Their records are merged into OUT/bench.json, a list of {name,
value, unit, versus, ratio, spread} with names "part: group: contender", where parts that were not run keep the records
they had. The page docs/performance.md and its pictures follow from it, unless this was a quick run.
"""

import argparse
import importlib
import json
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import page
from benchmarks.interleaved import Record
from sparse_langevin.storage.files import write_atomically

PARTS = ("update", "training", "linear", "darcy", "deploy")
DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Measure, keep, show."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of bench.json and figures")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and no peers: only to see that all works")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    for part in arguments.only:
        rows = importlib.import_module(f"benchmarks.{part}").records(out, arguments.quick)
        merged = merge(out / "bench.json", part, rows)
    show(merged)
    if arguments.quick:
        write_atomically(out / "performance.md", page.render(merged).encode())
        return
    for picture in out.glob("bench-*.png"):
        shutil.copy(picture, DOCS / "images" / picture.name)
    write_atomically(DOCS / "performance.md", page.render(merged).encode())


def merge(path: Path, part: str, rows: list[Record]) -> list[Record]:
    """Replace the records of one part in a file; return all of them, in the order of the parts."""
    earlier: list[Record] = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in earlier if page.split(row)[0] not in (part, "")]
    merged = kept + [row | {"name": f"{part}: {row['name']}"} for row in rows]
    merged.sort(key=lambda row: PARTS.index(page.split(row)[0]))
    write_atomically(path, (json.dumps(merged, indent=1) + "\n").encode())
    return merged


def show(rows: list[Record]) -> None:
    """One table of everything on the terminal."""
    table = Table("what", "value", "unit", "ratio", "spread", "to")
    for row in rows:
        table.add_row(
            str(row["name"]), page.number(row["value"]), str(row["unit"]), *page.ratio(row), str(row["versus"])
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


if __name__ == "__main__":
    main()
