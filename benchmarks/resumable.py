"""Work that takes hours, as one record per job in a file of lines: it goes on where it stopped.

A job is a tuple of numbers, which its record has under the same names. Workers are processes with one thread each, so
that as many jobs as there are cores run at the same time.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from sparse_langevin.storage.lines import read_lines, write_line

Record = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def options(description: str | None, name: str, replicates: int) -> argparse.ArgumentParser:
    """Return a parser of the options that all such benchmarks have; ``name`` is that of the file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=replicates)
    parser.add_argument("--workers", type=int, default=2, help="processes with one thread; 0: only print")
    parser.add_argument(
        "--records",
        type=Path,
        default=RESULTS / f"{name}.jsonl",
        help="file of the records so far; records of another version of the library belong into another file",
    )
    return parser


def gather(
    job: Callable[..., Record], todo: Sequence[tuple[int, ...]], names: tuple[str, ...], path: Path, workers: int
) -> list[Record]:
    """Return the records of all jobs in ``todo``, in this order, those that are not in the file computed anew.

    Without workers, nothing is computed, and only what is in the file is returned.
    """
    known = {tuple(record[name] for name in names): record for record in read_lines(path)}
    missing = [arguments for arguments in todo if arguments not in known]
    if missing and workers:
        os.environ |= dict.fromkeys(THREADS, "1")  # read by the processes when they start
        path.parent.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool, path.open("ab") as file:
            jobs = {pool.submit(job, *arguments): arguments for arguments in missing}
            for number, done in enumerate(as_completed(jobs), 1):
                known[jobs[done]] = record = dict(zip(names, jobs[done], strict=True)) | done.result()
                file.write(write_line(record))
                file.flush()
                print(f"\r{number} of {len(missing)} done", end="", flush=True)
        print()
    return [known[arguments] for arguments in todo if arguments in known]
