"""Damage: a bit is flipped in a file of ours, or its end is cut off, and a command reads it.

A command notices (exit code 2 and one line that names the file or its folder), or it is not affected (the same standard
output and the same files as without the damage), or it makes the file again. A changed answer is never accepted.
"""

import json
import os
import re
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from threading import Lock

from tests.campaign.command import run
from tests.campaign.ground import DARCY, MAKE, MLP, TINY
from tests.campaign.trials import Trial, require

ROOT = Path(__file__).parents[2]
PART = "damage"
FLIPS, CUTS = 1000, 200  # per format
LIMIT = 20.0  # seconds
CLOCKS = {"seconds", "cpu_seconds", "mean_seconds"}  # what differs between two runs of the same command
STOPPED, STEPS = 50, (*DARCY, *MLP, "--epochs", 12, "--burn-in", 0.5, "--samples", 16)  # killed after 50 of 60 steps

HALF = ("train", "--data", "data/mine", "--run", "runs/half", *STEPS)
THIN = ("train", "--data", "data/mine", "--run", "runs/thin", *STEPS)
THIN_HALF = ("train", "--data", "data/mine", "--run", "runs/thin-half", *STEPS)
STUDY = (
    "reproduce",
    "regression",
    "--replicates",
    2,
    "--test",
    1,
    "--only",
    "oracle",
    "--workers",
    0,
    "--out",
    "study",
)
ONE = ("--run", "runs/new", "--epochs", 1)
KLE, MINE = ("data/kle", "runs/kle"), ("data/mine", "runs/mine")


@dataclass(frozen=True)
class Reader:
    """A command, and what it needs."""

    words: tuple
    needs: tuple


READERS = {
    "info": Reader(("info", "data/kle"), ("data/kle",)),
    "info --verify": Reader(("info", "data/kle", "--verify"), ("data/kle",)),
    "show": Reader(("show", "data/kle", "--sample", 3, "--out", "a.png"), ("data/kle",)),
    "convert to npz": Reader(("convert", "data/kle", "--out", "a.npz"), ("data/kle",)),
    "convert to vti": Reader(("convert", "data/kle", "--sample", 3, "--out", "a.vti"), ("data/kle",)),
    "generate": Reader(MAKE["generate"], ("data/kle",)),
    "train on kle": Reader(("train", "--data", "data/kle", *ONE, *DARCY, *TINY), ("data/kle",)),
    "train kle": Reader(MAKE["train --chains"], KLE),
    "evaluate kle": Reader(("evaluate", "runs/kle", "--out", "a.csv"), KLE),
    "predict kle": Reader(("predict", "runs/kle", "--input", "kappa.npy", "--out", "a.npz"), (*KLE, "kappa.npy")),
    "predict kle --recalibrated": Reader(
        ("predict", "runs/kle", "--input", "kappa.npy", "--recalibrated", "--out", "a.npz"), (*KLE, "kappa.npy")
    ),
    "report kle": Reader(("report", "runs/kle", "--out", "a.html"), KLE),
    "export kle": Reader(("export", "runs/kle", "--out", "new"), KLE),
    "info mine": Reader(("info", "data/mine"), ("data/mine",)),
    "info mine --verify": Reader(("info", "data/mine", "--verify"), ("data/mine",)),
    "import": Reader(MAKE["import"], ("data/mine", "x.npy", "y.npy")),
    "train on mine": Reader(("train", "--data", "data/mine", *ONE, *DARCY, *MLP), ("data/mine",)),
    "train": Reader(MAKE["train"], MINE),
    "evaluate": Reader(("evaluate", "runs/mine", "--out", "a.csv"), MINE),
    "predict": Reader(
        ("predict", "runs/mine", "--input", "x.npy", "--quantiles", 0.1, "--out", "a.npz"), (*MINE, "x.npy")
    ),
    "predict --last": Reader(
        ("predict", "runs/mine", "--input", "x.npy", "--last", "--out", "a.npz"), (*MINE, "x.npy")
    ),
    "predict --recalibrated": Reader(
        ("predict", "runs/mine", "--input", "x.npy", "--recalibrated", "--out", "a.npz"), (*MINE, "x.npy")
    ),
    "report": Reader(("report", "runs/mine", "--out", "a.html"), MINE),
    "export": Reader(("export", "runs/mine", "--out", "new"), MINE),
    "train, resumed": Reader(HALF, ("data/mine", "runs/half")),
    "train, thinned": Reader(THIN, ("data/mine", "runs/thin")),
    "train, thinned and resumed": Reader(THIN_HALF, ("data/mine", "runs/thin-half")),
    "evaluate thinned": Reader(("evaluate", "runs/thin"), ("data/mine", "runs/thin")),
    "predict thinned": Reader(("predict", "runs/thin", "--input", "x.npy", "--out", "a.npz"), ("runs/thin", "x.npy")),
    "report thinned": Reader(("report", "runs/thin", "--out", "a.html"), ("data/mine", "runs/thin")),
    "predict by the export": Reader(("predict", "small", "--input", "x.npy", "--out", "a.npz"), ("small", "x.npy")),
    "export again": Reader(("export", "runs/mine", "--out", "small", "--force"), (*MINE, "small")),
    "import predictions": Reader(
        ("import", "--inputs", "x.npy", "--outputs", "predictions.npz:outputs", "--out", "new"),
        ("x.npy", "predictions.npz"),
    ),
    "import predicted deviations": Reader(
        ("import", "--inputs", "predictions.npz:outputs", "--outputs", "predictions.npz:std", "--out", "new"),
        ("predictions.npz",),
    ),
    "import converted": Reader(("import", "converted.npz", "--out", "new", "--workers", 0), ("converted.npz",)),
    "predict converted": Reader(
        ("predict", "runs/kle", "--input", "converted.npz", "--last", "--out", "a.npz"), ("runs/kle", "converted.npz")
    ),
    "reproduce": Reader(STUDY, ("study",)),
    "reproduce search": Reader(("reproduce", "search", "--out", "search"), ("search",)),
}
OF_KLE = tuple(name for name, reader in READERS.items() if "data/kle" in reader.needs)
OF_MINE = tuple(name for name, reader in READERS.items() if "data/mine" in reader.needs and "small" not in reader.needs)
OF_RUNS = tuple(name for name, reader in READERS.items() if any(need.startswith("runs/") for need in reader.needs))
RESUMED = ("train, resumed", "train, thinned and resumed")
FINISHED = tuple(name for name in OF_RUNS if name not in RESUMED)
SLOW = ("show", "report")  # they draw for seconds, and are chosen less often
FORMATS = {  # names of the files below what a command needs, and the commands that read them
    "data set of Darcy flow": ("data/kle/artefact.json", OF_KLE),
    "HDF5 shard": ("data/kle/shard-*.h5", OF_KLE),
    "data set of arrays": ("data/mine/artefact.json", OF_MINE),
    "array": ("data/mine/*.npy", OF_MINE),
    "statistics": ("data/mine/statistics.json", OF_MINE),
    "rivals": ("data/*/baselines-*.jsonl", (*OF_KLE, *OF_MINE)),
    "run": ("runs/**/artefact.json", OF_RUNS),
    "history": ("runs/**/history.jsonl", OF_RUNS),
    "result": ("runs/**/result.json", FINISHED),
    "network": ("runs/**/model.safetensors", FINISHED),
    "recalibration": ("runs/**/recalibration.jsonl", FINISHED),
    "checkpoint": ("runs/*/checkpoints/*/artefact.json", RESUMED),
    "state of a checkpoint": ("runs/*/checkpoints/*/state.safetensors", RESUMED),
    "bank": ("runs/**/samples/artefact.json", OF_RUNS),
    "sample": ("runs/**/samples/sample-*", OF_RUNS),
    "base": ("runs/**/samples/base-*", OF_RUNS),
    "mask": ("runs/**/samples/mask-*", OF_RUNS),
    "thinning": ("runs/**/samples/thinning.safetensors", tuple(name for name in OF_RUNS if "thinned" in name)),
    "model": ("small/artefact.json", ("predict by the export", "export again")),
    "weights of a model": ("small/weights-*", ("predict by the export", "export again")),
    "prediction": ("predictions.npz", ("import predictions", "import predicted deviations")),
    "converted data set": ("converted.npz", ("import converted", "predict converted")),
    "record of a study": ("study/records/*.json", ("reproduce",)),
    "table of a study": ("search/table.json", ("reproduce search",)),
    "settings of a study": ("study/settings.json", ("reproduce",)),
}
NUMBER = (FLIPS + CUTS) * len(FORMATS)


def trials(random):
    """Flips and cuts of every format, each read by a command drawn at random."""
    found = []
    for group, (_, readers) in FORMATS.items():
        odds = [1 if name.startswith(SLOW) else 5 for name in readers]
        for kind in ("flip",) * FLIPS + ("cut",) * CUTS:
            # A number that file and place are computed from, as nobody knows here how long the files are.
            facts = group, kind, random.randrange(2**48), random.choices(readers, odds)[0]
            found.append(Trial(f"{group}: {kind} {facts[2]}, {facts[3]}", group, facts))
    return found


def attempt(ground, scratch, trial):
    """Damage a copy, let a command read it, and compare with what it does without the damage."""
    shelf = shelf_of(ground.folder)
    group, kind, number, name = trial.facts
    reader, usual = READERS[name], shelf.usual(name)
    shelf.place(reader, scratch)
    files = _files(group, scratch)
    victim = files[number % len(files)]
    damaged = _damage(scratch / victim, kind, number // len(files))
    before = read_all(scratch)
    outcome = run(reader.words, scratch, limit=LIMIT)
    after = read_all(scratch)
    require(outcome.code is not None, f"it did not end within {LIMIT:g} s: {victim}")
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    wrong = sorted(path for path in changed if meaning(path, after.get(path)) != usual.files.get(path))
    if outcome.code:
        require(outcome.refused, f"exit code {outcome.code} because of {victim}: {outcome.err.strip()[-600:]}")
        require(_names(outcome.line, victim), f"{victim} is not named: {outcome.line}")
        if reader.words[0] != "train":  # which may have cleaned up before
            require(not wrong, f"it was refused, but wrote {', '.join(wrong)}")
        return "detected"
    text = "the same output was printed" if without_times(outcome.out) == usual.out else "another output was printed"
    lacking = sorted(usual.changed - changed - {str(victim)})
    require(
        text.startswith("the same") and not wrong, f"{victim} changed the result: {text}; {', '.join(wrong)} differ"
    )
    require(not lacking, f"{victim} changed the result: {', '.join(lacking)} were not written")
    if after.get(str(victim)) == damaged:
        require(str(victim) not in usual.changed, f"{victim} was to be written, and is still damaged")
        return "no effect"
    return "made again" if str(victim) in usual.files and str(victim) not in usual.changed else "no effect"


class Shelf:
    """What trials copy from, and what each command does with it if nothing is damaged."""

    def __init__(self, folder, ground):
        self.folder, self._usual, self._lock = folder, {}, Lock()
        names = ("data", "runs/kle", "runs/mine", "small", "kappa.npy", "x.npy", "y.npy")
        for name in names:
            copy(ground / name, folder / name)
        copy(ROOT / "results" / "search", folder / "search")  # all of its cells are finished
        for path in folder.glob("runs/**/checkpoints"):  # finished runs do not need them
            shutil.rmtree(path)
        self._run(HALF, stop_at_50, code=-signal.SIGKILL)
        self._run(THIN, small_budget)
        self._run(THIN_HALF, small_budget_and_stop_at_50, code=-signal.SIGKILL)
        shutil.rmtree(folder / "runs/thin/checkpoints")
        self._run(("evaluate", "runs/thin"))
        assert (folder / "runs/thin-half/samples/thinning.safetensors").exists()
        self._run(("predict", "runs/mine", "--input", "x.npy", "--out", "predictions.npz"))
        self._run(("convert", "data/kle", "--out", "converted.npz"))
        self._run(STUDY)

    def _run(self, words, prepare=None, code=0):
        outcome = run(words, self.folder, prepare=prepare)
        assert outcome.code == code, (words, outcome)

    def place(self, reader, scratch):
        """Copy what a command needs."""
        for name in reader.needs:
            copy(self.folder / name, scratch / name)

    def usual(self, name):
        """What a command does if nothing is damaged."""
        with self._lock:
            if name not in self._usual:
                scratch = self.folder.with_name(f"usual-{len(self._usual)}")
                self.place(READERS[name], scratch)
                before = read_all(scratch)
                outcome = run(READERS[name].words, scratch)
                assert outcome.code == 0, (name, outcome)
                after = read_all(scratch)
                files = {path: meaning(path, data) for path, data in after.items()}
                changed = {path for path in after if before.get(path) != after[path]}
                self._usual[name] = Usual(without_times(outcome.out), files, changed)
                shutil.rmtree(scratch)
            return self._usual[name]


@dataclass(frozen=True)
class Usual:
    """What a command prints, the files that are there when it has ended, and which of them it has written."""

    out: str
    files: dict
    changed: set


_making = Lock()


def shelf_of(ground):
    """The shelf beside a ground, made when it is first asked for."""
    with _making:
        return _make_shelf(ground)


@lru_cache(maxsize=1)
def _make_shelf(ground):
    folder = ground.with_name("shelf")
    shutil.rmtree(folder, ignore_errors=True)  # what a failure left
    folder.mkdir()
    return Shelf(folder, ground)


def stop_at_50():
    """Let the command be killed when it has saved its checkpoint of step 50."""
    from sparse_langevin.storage.runs import RunFolder

    save = RunFolder.save

    def saved(self, step, *others):
        save(self, step, *others)
        if step == STOPPED:
            os.kill(os.getpid(), signal.SIGKILL)

    RunFolder.save = saved


def small_budget():
    """Let the command's bank of samples be too small for all of them."""
    from sparse_langevin.surrogates import training

    bank = training.PosteriorBank
    training.PosteriorBank = lambda **options: bank(**options, budget=4000)


def small_budget_and_stop_at_50():
    """Both of the above."""
    small_budget()
    stop_at_50()


def copy(source, target):
    """Copy a file or a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def read_all(folder):
    """Contents of all files by name, without what was being written by a process that was killed."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def meaning(path, data):
    """A digest of what a file says, apart from times; None if there is no file, or its contents depend on times."""
    if data is None or "/checkpoints/" in path:
        return None
    if path.endswith((".json", ".jsonl")):
        with suppress(ValueError):
            data = json.dumps([_timeless(json.loads(line)) for line in _documents(path, data)]).encode()
    if path.endswith(".html"):
        data = without_times(data.decode(errors="replace")).encode()
    return sha256(data).hexdigest()


def _documents(path, data):
    return data.splitlines() if path.endswith(".jsonl") else [data]


def _timeless(value):
    """JSON without times, and without digests of files that contain times or, as sources, were damaged themselves."""
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if not isinstance(value, dict):
        return value
    dropped = (
        CLOCKS | {"crc", "sha256", "file"} | ({"result.json", "history.jsonl"} if "result.json" in value else set())
    )
    return {name: _timeless(one) for name, one in value.items() if name not in dropped}


def without_times(text):
    """What a command printed, with 0 for numbers of seconds and minutes."""
    return re.sub(r"[\d.]+( (?:minutes|seconds))", r"0\1", text)


def _files(group, folder):
    """Files of a format; a pattern for runs leaves the folders of samples and checkpoints to their own patterns."""
    pattern = FORMATS[group][0]
    found = sorted(path.relative_to(folder) for path in folder.glob(pattern))
    inner = {"samples", "checkpoints"} - set(pattern.split("/"))
    return [path for path in found if not inner & set(path.parts)]


def _damage(path, kind, number):
    """Flip a bit of a file, or cut its end off; return the new contents."""
    data = bytearray(path.read_bytes())
    if kind == "flip":
        place, bit = divmod(number % (8 * len(data)), 8)
        data[place] ^= 1 << bit
    else:
        del data[number % len(data) :]
    path.write_bytes(data)
    return bytes(data)


def _names(line, victim):
    """Whether a line names a file, or the folder that it is in."""
    return str(victim) in line or (len(victim.parts) > 1 and str(victim.parent) in line)
