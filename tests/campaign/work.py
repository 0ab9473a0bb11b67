"""The commands that write something, what each needs and leaves, and whether it left what it should."""

import hashlib
import json
import shutil
import threading
from typing import Any, NamedTuple

from sparse_langevin.sampling.training import CLOCKS
from tests.campaign.command import run
from tests.campaign.ground import DARCY, MLP, TINY
from tests.campaign.trials import require

LEFTOVER = ".writing-"
_lock = threading.Lock()


class Work(NamedTuple):
    """A command that writes something."""

    arguments: tuple[Any, ...]
    needs: tuple[str, ...]
    """What it reads, from the ground."""
    leaves: str
    """What it writes."""
    again: bool = True
    """Whether it may be given again when it has finished; others refuse to replace what is there."""


def _train(*more):
    return ("train", "--run", "run", *more, *DARCY)


WORK = {
    "generate": Work(("generate", "kle", "--out", "out", "--samples", 600, "--nx", 8, "--ny", 6), (), "out"),
    "generate channels": Work(
        ("generate", "channels", "--out", "out", "--samples", 300, "--nx", 8, "--ny", 8, "--workers", 0), (), "out"
    ),
    "import": Work(("import", "--inputs", "x.npy", "--outputs", "y.npy", "--out", "out"), ("x.npy", "y.npy"), "out"),
    "train": Work(_train("--data", "data/mine", "--epochs", 60, *MLP), ("data/mine",), "run"),
    "train, Adam": Work(
        ("train", "--run", "run", "--data", "data/mine", "--method", "adam", "--epochs", 60, *MLP),
        ("data/mine",),
        "run",
    ),
    "train --chains": Work(_train("--data", "data/kle", "--epochs", 12, "--chains", 2, *TINY), ("data/kle",), "run"),
    "demo": Work(("demo", "--out", "out", "--samples", 30, "--cells", 8, "--epochs", 2, "--force"), (), "out"),
    "reproduce": Work(
        ("reproduce", "regression", "--out", "out", "--replicates", 4, "--paper-replicates", 0, "--only", "lasso-cv"),
        *((), "out"),
    ),
    "evaluate": Work(
        ("evaluate", "runs/mine", "--out", "errors.csv"), ("data/mine", "runs/mine"), "errors.csv", again=False
    ),
    "predict": Work(
        ("predict", "runs/mine", "--input", "x.npy", "--out", "answers.npz"),
        ("x.npy", "runs/mine"),
        "answers.npz",
        again=False,
    ),
    "report": Work(
        ("report", "runs/mine", "--out", "report.html"), ("data/mine", "runs/mine"), "report.html", again=False
    ),
    "export": Work(("export", "runs/mine", "--out", "out"), ("data/mine", "runs/mine"), "out", again=False),
    "convert": Work(("convert", "data/kle", "--out", "all.npz"), ("data/kle",), "all.npz", again=False),
    "select": Work(
        ("select", "table.csv", "--target", "y", "--out", "selection.html"),
        ("table.csv",),
        "selection.html",
        again=False,
    ),
}
LONG = tuple(name for name, work in WORK.items() if work.again)


def reference(ground, name):
    """What a command leaves when nothing disturbs it, and the seconds it takes."""
    work, place = WORK[name], ground.folder / "reference" / name
    with _lock:
        if not (place / "seconds").exists():
            shutil.rmtree(place, ignore_errors=True)
            ground.copy(place, *work.needs)
            outcome = run(work.arguments, place)
            require(outcome.code == 0, f"{name} fails by itself: {outcome}")
            (place / "seconds").write_text(str(outcome.seconds))
    return fingerprint(place / work.leaves), float((place / "seconds").read_text())


def finish(ground, folder, name):
    """Give a command again, undisturbed, and insist that it ends as it would have; returns what happened."""
    work, expected = WORK[name], reference(ground, name)[0]
    outcome = run(work.arguments, folder)
    finished = not work.again and outcome.refused and "exists" in outcome.err  # it is not replaced
    require(outcome.code == 0 or finished, f"given again it ends with {outcome.code}: {outcome.line}")
    found = fingerprint(folder / work.leaves)
    different = sorted(key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))
    require(not different, f"it left something else in {', '.join(different[:3])}")
    left = [str(path.relative_to(folder)) for path in folder.rglob(f"{LEFTOVER}*")]
    require(not left, f"it left {', '.join(left[:3])} behind")
    return "the same bytes"


def fingerprint(path):
    """What a file or a folder holds, up to the time that the work took."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {str(file.relative_to(path)): _digest(file) for file in files}


def _digest(file):
    if file.suffix == ".html":  # it says how long the work took
        return "whole" if file.read_bytes().rstrip().endswith(b"</html>") else "cut"
    if file.suffix == ".png":
        return "a picture" if file.read_bytes().endswith(b"IEND\xaeB`\x82") else "cut"
    data = file.read_bytes()
    if file.suffix == ".jsonl":
        data = json.dumps([_timeless(json.loads(line)) for line in data.splitlines()]).encode()
    elif file.suffix == ".json":
        data = json.dumps(_timeless(json.loads(data)), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()


def _timeless(value):
    """JSON without clocks, and without what follows from them: checksums, and the length of a history."""
    if isinstance(value, dict):
        without = {*CLOCKS, "mean_seconds", "clock", "crc", "sha256", "history_bytes", "history.jsonl", "result.json"}
        return {key: _timeless(one) for key, one in value.items() if key not in without}
    return [_timeless(one) for one in value] if isinstance(value, list) else value
