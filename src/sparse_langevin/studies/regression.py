"""The regression study: one file of records per (test, replicate). Only missing ones are made, so it can be resumed.

A file is one line of JSON with a checksum, see `storage.lines`; one that was changed is refused.
"""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from sparse_langevin.runtime.processes import each
from sparse_langevin.storage.artefact import require_same
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import locked, sweep, write_atomically
from sparse_langevin.storage.lines import read_lines, write_line
from sparse_langevin.studies import regression_data
from sparse_langevin.studies.regression_contenders import LABELS, PAPER, Lengths, Record, fit_record

SETTINGS, RECORDS = "settings.json", "records"
Cell = tuple[int, int]  # (test, replicate)
Records = dict[Cell, dict[str, Record]]

MOST = 10_000  # replicates, whose files have numbers of four digits


@dataclass(frozen=True)
class Extent:
    """Which part of the study to make.

    Parameters
    ----------
    replicates
        The number of data sets of each test.
    paper_replicates
        On how many of them, from the first on, the slow algorithms as printed are run.
    tests
        Test 1, test 2 or both.
    only
        The name of one contender; None for all of them.
    """

    replicates: int = 100
    paper_replicates: int = 20
    tests: tuple[int, ...] = regression_data.TESTS
    only: str | None = None

    def __post_init__(self) -> None:
        if self.only is not None and self.only not in LABELS:
            raise ValueError(f"there is no method {self.only!r}: choose one of {', '.join(LABELS)}")
        if self.replicates < 1 or self.paper_replicates < 0:
            raise ValueError(f"a study needs at least one replicate, got {self.replicates}, {self.paper_replicates}")
        if self.replicates > MOST:
            raise ValueError(f"a study has at most {MOST:,} replicates, got {self.replicates}")

    def contenders(self, replicate: int) -> list[str]:
        """The names of the contenders on a replicate."""
        names = LABELS if self.only is None else [self.only]
        return [name for name in names if replicate < self.paper_replicates or not name.startswith(PAPER)]

    def cells(self) -> list[Cell]:
        """All (test, replicate), replicate by replicate, so that a stopped study has equally many of each test."""
        return [(test, replicate) for replicate in range(self.replicates) for test in self.tests]

    def command(self) -> str:
        """The command that makes this part of the study."""
        test = f" --test {self.tests[0]}" if len(self.tests) == 1 else ""
        only = f" --only {self.only}" if self.only else ""
        sizes = f"--replicates {self.replicates} --paper-replicates {self.paper_replicates}"
        return f"sparse-langevin reproduce regression {sizes}{test}{only}"


def run(
    extent: Extent,
    folder: Path,
    lengths: Lengths = Lengths(),
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Records:
    """Make the records that are missing, and return all records.

    Parameters
    ----------
    extent
        The number of replicates.
    lengths
        The lengths of the chains. A folder made with other lengths is refused.
    folder
        The folder of the records.
    workers
        The number of processes, by default one per core; 0 to work in this process.
    progress
        Called with the number of finished replicates and their total, counted over both tests.
    """
    with locked(folder):
        _claim(folder, lengths)
        sweep(folder / RECORDS)
        cells = extent.cells()
        jobs = [(cell, names, folder, lengths) for cell in cells if (names := _missing(extent, folder, cell))]
        there = len(cells) - len(jobs)
        progress(there, len(cells))
        with closing(each(_make, jobs, workers)) as made:
            for done, _ in enumerate(made, there + 1):
                progress(done, len(cells))
        sweep(folder / RECORDS)  # after workers that died
    return load(extent, folder)


def load(extent: Extent, folder: Path) -> Records:
    """All records within ``extent``, including those of contenders that an earlier call has made."""
    everyone = replace(extent, only=None)
    records = {}
    for cell in extent.cells():
        found = _read(folder, cell)
        if kept := {name: found[name] for name in everyone.contenders(cell[1]) if name in found}:
            records[cell] = kept
    return records


def _make(cell: Cell, names: list[str], folder: Path, lengths: Lengths) -> None:
    """Fit the missing contenders of one replicate and add them to its file."""
    test, replicate = cell
    study = regression_data.make(test, replicate)
    torch.set_num_threads(1)  # the models are tiny, and threads would only wait for each other
    with threadpool_limits(1):
        made = {name: fit_record(name, study, replicate, lengths) for name in names}
    found = _read(folder, cell) | made
    content = {"test": test, "replicate": replicate, "contenders": found}
    write_atomically(_path(folder, cell), write_line(content))


def _missing(extent: Extent, folder: Path, cell: Cell) -> list[str]:
    found = _read(folder, cell)
    return [name for name in extent.contenders(cell[1]) if name not in found]


def _read(folder: Path, cell: Cell) -> dict[str, Record]:
    path = _path(folder, cell)
    if not path.exists():
        return {}
    try:
        if len(lines := read_lines(path)) != 1:
            raise ValueError(f"it has {len(lines)} whole lines, not 1")
        (record,) = lines
        if (record["test"], record["replicate"]) != cell:
            raise ValueError("it holds another record than its name says")
    except (DamagedError, ValueError, KeyError) as error:
        reason = error.reason if isinstance(error, DamagedError) else error
        raise ValueError(f"{path} is not a record of this study ({reason}): delete it to have it made again") from error
    found: dict[str, Record] = record["contenders"]
    return found


def _path(folder: Path, cell: Cell) -> Path:
    return folder / RECORDS / f"test{cell[0]}-{cell[1]:04d}.json"


def _claim(folder: Path, lengths: Lengths) -> None:
    """Enter the lengths of the chains into a new folder, or raise an error if the folder has others."""
    path, wanted = folder / SETTINGS, asdict(lengths)
    if path.exists():
        try:
            there = dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise DamagedError(path, str(error), "Restore it, or begin the study in another folder") from error
        require_same(f"the study in {folder}", there, wanted)
    (folder / RECORDS).mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomically(path, json.dumps(wanted, indent=1).encode())
