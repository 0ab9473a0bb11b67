"""Break one line of the library at a time, and see that the tests notice.

    make mutants                                       all faults of `tests.faults`
    python -m tests.mutants momentum native            those whose label contains one of the words
    python -m tests.mutants --share 0.1 --seed 7       a random tenth

Each fault is put into a copy of the source. The test that caught it last time runs first, then the tests of its room,
those of the broken module and quick files first, until one fails. That test must pass without the fault. A fault that
no test notices has survived; the exit code is 1 then.

`results/mutants.json` is written after every fault, so that a run that is started again goes on where it stopped. A
fault counts as known while neither it nor the code of the file it breaks has changed; survivors are always tried again.
A random share is tried whatever is known, and leaves the records as they are.
"""

import argparse
import ast
import hashlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults import FAULTS, Fault

# Tests that take more than half a minute, or would with a fault: they come last, in this order.
SLOW = [
    "sampling/kernels/test_engines.py",
    "sampling/test_training.py",
    "sampling/statistics/",
    "sampling/test_chains.py",
    "sampling/test_resume.py",
    "linear/test_estimators.py",
    "surrogates/test_train.py",
    "surrogates/test_chains.py",
    "surrogates/test_cli.py",
    "surrogates/test_demo.py",
    "surrogates/test_report_in_browser.py",
]
# Rooms that are also tested elsewhere.
ELSEWHERE = {
    "problems": ["cli/test_data.py"],
    "linear": ["cli/test_select.py"],
    "storage": [
        "problems/darcy/test_vtk.py",
        "cli/test_data.py",
        "sampling/test_training.py",
        "sampling/test_resume.py",
    ],
}
LIMIT = 1200  # seconds for the tests of one fault; beyond, it counts as survived
Record = dict[str, Any]


@dataclass(frozen=True)
class Project:
    """A package in ``src``, its tests in ``tests``, and the faults to put into it."""

    root: Path
    package: str
    faults: Sequence[Fault]
    sound: dict[str, bool] = field(default_factory=dict)
    """tests that have been run without any fault: whether they passed"""
    lock: Any = field(default_factory=threading.Lock)

    @property
    def source(self) -> Path:
        return self.root / "src"

    @property
    def records(self) -> Path:
        return self.root / "results" / "mutants.json"

    def file(self, fault: Fault) -> Path:
        """The file to break, below `source`."""
        return Path(self.package, fault.file)

    def broken(self, fault: Fault) -> str:
        """The text of the fault's file with the fault in it."""
        text = (self.source / self.file(fault)).read_text()
        if fault.old not in text:
            raise ValueError(f"{fault.label!r}: {fault.old!r} is no longer in {fault.file}; update tests/faults.py")
        return text.replace(fault.old, fault.new)

    def digest(self, fault: Fault) -> str:
        """Changes with the fault and with the code of the file it breaks."""
        code = code_of((self.source / self.file(fault)).read_text())
        return hashlib.sha256(json.dumps([fault.file, fault.old, fault.new, code]).encode()).hexdigest()[:16]

    def commit(self) -> str:
        command = ["git", "-C", str(self.root), "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main(arguments: Sequence[str], project: Project) -> int:
    """Try faults and say which test caught each; return the exit code."""
    options = parse(arguments)
    chosen = [f for f in project.faults if not options.words or any(word in f.label for word in options.words)]
    if options.share is not None:
        seed = options.seed or project.commit()
        chosen = random.Random(seed).sample(chosen, min(len(chosen), max(1, round(options.share * len(chosen)))))
        print(f"{len(chosen)} faults, chosen with --seed {seed}")
    for fault in chosen:
        project.broken(fault)  # refuses those whose line is gone
    known = read_records(project)
    if options.again:
        known = {label: record for label, record in known.items() if label not in {f.label for f in chosen}}
    fresh = [f for f in chosen if options.share is None and is_fresh(project, f, known.get(f.label))]
    todo = [f for f in chosen if f not in fresh]
    survivors, tried, begin = [], 0, time.monotonic()
    for fault, record in try_all(project, todo, known, begin + 60 * options.minutes):
        tried += 1
        caught = record["test"] is not None
        verdict = f"caught    {fault.label:42s} {record['test']}" if caught else f"SURVIVED  {fault.label:42s}"
        print(f"[{tried:3d}/{len(todo)}] {verdict}  {record['seconds']} s", flush=True)
        survivors += [] if caught else [fault.label]
        known[fault.label] = record
        if options.share is None:
            write_records(project, known)
    total, left, seconds = len(fresh) + tried - len(survivors), len(todo) - tried, time.monotonic() - begin
    print(
        f"{total} of {len(chosen)} faults caught, {len(fresh)} of them known from before; {seconds:.0f} s"
        + (f"; {left} not tried for lack of time" if left else "")
        + "".join(f"\nSURVIVED: {label}" for label in survivors)
    )
    return 1 if survivors else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests notice seeded faults?")
    parser.add_argument("words", nargs="*", help="parts of labels; without any, all faults")
    parser.add_argument("--again", action="store_true", help="forget the records of these faults")
    parser.add_argument("--share", type=float, help="try a random share, between 0 and 1, whatever is known")
    parser.add_argument("--seed", help="of the random share; by default the commit")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fault after this time")
    return parser.parse_args(arguments)


def read_records(project: Project) -> dict[str, Record]:
    """What is known of each fault, by its label."""
    if not project.records.exists():
        return {}
    return {record["fault"]: record for record in json.loads(project.records.read_text())}


def write_records(project: Project, known: dict[str, Record]) -> None:
    """Replace the file of records at once, in the order of the faults."""
    rows = [json.dumps(known[f.label]) for f in project.faults if f.label in known]
    project.records.parent.mkdir(exist_ok=True)
    temporary = project.records.with_suffix(".tmp")
    temporary.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    temporary.replace(project.records)


def is_fresh(project: Project, fault: Fault, record: Record | None) -> bool:
    """Whether a fault was caught and nothing has changed since."""
    return record is not None and record["test"] is not None and record["digest"] == project.digest(fault)


def try_all(
    project: Project, faults: list[Fault], known: dict[str, Record], deadline: float
) -> Iterator[tuple[Fault, Record]]:
    """Try faults on all cores until the deadline; give each with its record as it is done."""

    def work(fault: Fault) -> Record | None:
        last = known.get(fault.label, {}).get("test")
        return try_fault(project, fault, last) if time.monotonic() < deadline else None

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        jobs = {pool.submit(work, fault): fault for fault in faults}
        for done in as_completed(jobs):
            if (record := done.result()) is not None:
                yield jobs[done], record
    finally:
        pool.shutdown(cancel_futures=True)


def try_fault(project: Project, fault: Fault, last: str | None) -> Record:
    """Put a fault into a copy of the source and run tests until one fails, first the one that did so last time."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "src")
        copy_with_fault(project, fault, tree)
        caught = run_tests(project, tree, [last]) if last else None
        caught = caught or run_tests(project, tree, suite(project, fault))
    if caught:
        check_sound(project, caught)
    return {
        "fault": fault.label,
        "file": fault.file,
        "test": caught,
        "seconds": round(time.monotonic() - begin, 1),
        "commit": project.commit(),
        "digest": project.digest(fault),
    }


def suite(project: Project, fault: Fault) -> list[str]:
    """All test files of the fault's room: first those that name the broken module, then quick ones, then slow ones."""
    tests, room, name = project.root / "tests", fault.file.split("/")[0], Path(fault.file).stem

    def rank(path: Path) -> tuple[bool, int, bool, str]:
        slow = next((i for i, start in enumerate(SLOW, 1) if str(path.relative_to(tests)).startswith(start)), 0)
        meant = path.stem == f"test_{name}" or f"{room}.{name} import" in path.read_text()
        return not meant, slow, path.parent != tests / Path(fault.file).parent, str(path)

    files = sorted((tests / room).rglob("test_*.py"), key=rank)
    files += [tests / path for path in ELSEWHERE.get(room, []) if (tests / path).exists()]
    return [str(path.relative_to(project.root)) for path in files]


def run_tests(project: Project, source: Path, tests: list[str]) -> str | None:
    """Run tests against the package in ``source``; return the name of the first that fails, or None."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        options = ["-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={folder}/tests"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        try:
            done = subprocess.run(
                command, cwd=project.root, env=environment, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return None
    summary = done.stdout.rpartition("short test summary info")[2]
    first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", summary, flags=re.MULTILINE)
    if done.returncode in (1, 2) and first:
        return first.group(1)
    if done.returncode == 0 or (done.returncode == 4 and "not found" in done.stderr):  # a test that has been renamed
        return None
    raise RuntimeError(f"pytest gave no verdict on {tests}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def check_sound(project: Project, test: str) -> None:
    """Refuse the verdict of a test that fails without any fault."""
    with project.lock:
        known = project.sound.get(test)
    if known is None:
        known = project.sound[test] = run_tests(project, project.source, [test]) is None
    if not known:
        raise RuntimeError(f"{test} fails without any fault")


def copy_with_fault(project: Project, fault: Fault, tree: Path) -> None:
    """Copy the source to ``tree`` with a fault in it; cached machine code comes along, as it knows what it is of."""
    broken = project.file(fault)
    shutil.copytree(project.source, tree, ignore=shutil.ignore_patterns(f"{broken.stem}.*.pyc", "*.tmp.*"))
    (tree / broken).write_text(project.broken(fault))


def code_of(text: str) -> str:
    """Source without comments, docstrings and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return ast.unparse(tree)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Project(Path(__file__).parents[1], "sparse_langevin", FAULTS)))
