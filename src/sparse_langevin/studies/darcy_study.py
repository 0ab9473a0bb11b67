"""Runs the cells of a surrogate study, several at a time, each resumable; a finished one is a record in table.json.

In the study's folder:

table.json     one record a cell, rewritten whole whenever a cell is finished
curves.json    their learning curves
figures/       pictures of predictions
work/          data sets and runs; can be deleted when the study is finished
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sparse_langevin.problems.darcy.datasets import DarcyData, generate
from sparse_langevin.reports.page import png
from sparse_langevin.runtime.processes import Job, run_in_processes
from sparse_langevin.storage.errors import StorageError
from sparse_langevin.storage.files import locked, write_atomically
from sparse_langevin.studies.darcy_cells import Cell, Field, Scale
from sparse_langevin.surrogates.calibration import set_apart
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.report import Judged, judge
from sparse_langevin.surrogates.runs import SAMPLES, SurrogateRun, epochs_done
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.training import train

TABLE, CURVES, FIGURES, WORK = "table.json", "curves.json", "figures", "work"
DRAWN = 0  # the test sample of the figures
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class StudyFolder:
    """The folder of a study."""

    folder: Path
    scale: Scale
    image: Path | None = None

    def data(self, field: Field) -> Path:
        """Where a field's data set lies."""
        return self.folder / WORK / "data" / field.name

    def run(self, cell: Cell) -> Path:
        """Where a cell is trained."""
        return self.folder / WORK / "runs" / cell.name

    def made(self, cell: Cell) -> Path:
        """What a finished cell leaves for the table, until it is entered there."""
        return self.folder / WORK / "records" / f"{cell.name}.json"

    def figure(self, cell: Cell) -> Path:
        """A picture of a cell's prediction."""
        return self.folder / FIGURES / f"{cell.name}.png"


def read(path: Path) -> Any:
    """A file of the study, or None."""
    if not path.exists():
        return None
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a file of this study ({error}): restore or delete it") from error


def records(folder: Path) -> list[dict[str, Any]]:
    """All finished cells of a study."""
    found: list[dict[str, Any]] = read(folder / TABLE) or []
    return found


def run(
    cells: Sequence[Cell],
    place: StudyFolder,
    *,
    workers: int = 2,
    progress: Progress = lambda epochs, text: None,
    finished: Callable[[dict[str, Any]], None] = lambda record: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[dict[str, Any]]:
    """Train the cells that have no record with their settings yet, and return all records.

    Parameters
    ----------
    cells
        What to train, in this order.
    place
        Where.
    workers
        Cells at a time, one thread each: two cells side by side finish sooner than one after the other on two threads.
    progress
        Called with (epochs done over all cells, what is going on).
    finished
        Called with the record of each cell that is trained.
    stop
        Asked again and again; true lets the cells in work save themselves, and returns.
    """
    with locked(place.folder):
        return _run(cells, place, workers, progress, finished, stop)


def _run(
    cells: Sequence[Cell],
    place: StudyFolder,
    workers: int,
    progress: Progress,
    finished: Callable[[dict[str, Any]], None],
    stop: Callable[[], bool],
) -> list[dict[str, Any]]:
    table = {record["cell"]: record for record in records(place.folder)}
    recipes = {c.field.name: c.field.recipe(place.scale, place.image) for c in cells}
    _check_recipes(table.values(), {name: recipe.as_json() for name, recipe in recipes.items()}, place.folder)
    missing = []
    for cell in cells:
        if _is_of(table.get(cell.name), cell):
            continue
        if _is_of((read(place.made(cell)) or {}).get("record"), cell):  # finished, and then we were stopped
            _enter(cell, place)
            continue
        missing.append(cell)
    for field in {cell.field.name: cell.field for cell in missing}.values():
        progress(0.0, f"data of {field.name}")
        generate(recipes[field.name], place.data(field), workers=workers)
    for cell in missing:
        if place.run(cell).exists() and not _can_resume(place.run(cell), cell.settings):
            shutil.rmtree(place.run(cell))
    (place.folder / WORK / "records").mkdir(parents=True, exist_ok=True)
    (place.folder / FIGURES).mkdir(parents=True, exist_ok=True)
    named = {cell.name: cell for cell in missing}
    before = float(sum(cell.settings.epochs for cell in cells if cell.name not in named))

    def enter(name: str) -> None:
        nonlocal before
        finished(_enter(named[name], place))
        before += named[name].settings.epochs

    def tick(running: list[str]) -> None:
        progress(before + sum(epochs_done(place.run(named[name])) for name in running), ", ".join(running))

    jobs: dict[str, Job] = {cell.name: (_work, (cell, place)) for cell in missing}
    run_in_processes(jobs, workers, done=enter, tick=tick, stop=stop)
    return records(place.folder)


def _check_recipes(found: Iterable[dict[str, Any]], wanted: Mapping[str, dict[str, Any]], folder: Path) -> None:
    """Raise if a record is about other data than those of its field now: another scale, another image."""
    for record in found:
        field, there = record["field"]["name"], record.get("recipe", {})
        for name, value in wanted.get(field, {}).items():
            if there.get(name) != value:
                raise ValueError(
                    f"{folder} has {record['cell']} on {field} with {name} = {there.get(name)}, now it is {value}: "
                    "use the same scale and image, or choose another folder with --out"
                )


def _work(cell: Cell, place: StudyFolder) -> None:
    """Train and judge one cell; runs in a process of its own."""
    torch.set_num_threads(1)
    try:
        finished = train(cell.settings, DarcyData(place.data(cell.field)), place.run(cell), progress=False)
        if cell.settings.validation:
            errors = _validation_errors(finished)
        else:
            judged = judge(finished)
            write_atomically(place.figure(cell), _picture(judged))
            errors = _errors(cell, judged)
        _leave(cell, place, errors | _counts(finished))
    except FloatingPointError as error:  # a result, too: the step was too large
        _leave(cell, place, {"e1": None, "e2": None, "diverged": str(error)})


def _validation_errors(run: SurrogateRun) -> dict[str, float]:
    """Of the mean over the samples, or of the network where there are none, on the part that was set apart."""
    kappa, true = set_apart(run.settings, run.find_data())
    found = run.problem.errors(predict(run, kappa).mean.double().numpy(), true, kappa)
    return {name: 100 * float(found[name].mean()) for name in ("e1", "e2")}


def _enter(cell: Cell, place: StudyFolder) -> dict[str, Any]:
    """Take a finished cell into the table, remove most of the bytes of its run, and return its record."""
    made = read(place.made(cell))
    record: dict[str, Any] = made["record"]
    curves = (read(place.folder / CURVES) or {}) | {cell.name: made["curve"]}
    write_atomically(place.folder / CURVES, json.dumps(curves).encode())
    kept = [one for one in records(place.folder) if one["cell"] != cell.name]
    table = sorted([*kept, record], key=lambda one: one["cell"])
    write_atomically(place.folder / TABLE, (json.dumps(table, indent=1, allow_nan=False) + "\n").encode())
    for name in ("checkpoints", *(() if cell.keep else (SAMPLES,))):
        shutil.rmtree(place.run(cell) / name, ignore_errors=True)
    return record


def _is_of(record: dict[str, Any] | None, cell: Cell) -> bool:
    """Whether a record is that of a cell as it is now, not of what it was before its settings changed."""
    return record is not None and Settings.from_json(record["settings"]) == cell.settings


def _can_resume(path: Path, settings: Settings) -> bool:
    """Whether the run in a folder has these settings, not others or those of an earlier version."""
    try:
        return SurrogateRun.open(path).settings == settings
    except (ValueError, StorageError):
        return False


def _leave(cell: Cell, place: StudyFolder, found: dict[str, Any]) -> None:
    """Write what the table keeps of a cell, errors in percent, and its learning curve."""
    settings = cell.settings
    curve = [[r["epoch"], r["e1"], r["seconds"]] for r in SurrogateRun.open(place.run(cell)).history()]
    head = {
        "cell": cell.name,
        "study": cell.study,
        "field": cell.field.describe(),
        "recipe": DarcyData(place.data(cell.field)).recipe,
        "method": settings.method,
        "sparsity": settings.sparsity,
        "momentum": settings.momentum,
        "seed": settings.seed,
    }
    record = head | found | {"settings": settings.as_json(), "version": version("sparse-langevin")}
    write_atomically(place.made(cell), json.dumps({"record": record, "curve": curve}).encode())


def _counts(run: SurrogateRun) -> dict[str, Any]:
    names = ("parameters", "sparse_parameters", "zeros", "sigma", "epochs", "seconds", "cpu_seconds")
    log = run.result["remarks"]["input"].startswith("logarithm")
    return {name: run.result[name] for name in names} | {"log_input": log, "versions": run.versions}


def _errors(cell: Cell, judged: Judged) -> dict[str, Any]:
    """Errors on the test set: of the mean over the samples where there are some, and of the last sample."""
    best, (mean, first) = judged.best, judged.best.baselines
    return {
        "e1": 100 * best.mean("e1"),
        "e2": 100 * best.mean("e2"),
        "e1_last": 100 * judged.last.mean("e1"),
        "e2_last": 100 * judged.last.mean("e2"),
        "samples": judged.prediction.samples,
        "mass_residual": best.mean("mass_residual"),
        "baseline_e1": 100 * mean.errors["e1"],
        "baseline_e2": 100 * mean.errors["e2"],
        "first_order_e1": 100 * first.errors["e1"],
        "first_order_e2": 100 * first.errors["e2"],
        "paper": dict(zip(("e1", "e2"), cell.paper, strict=True)) if cell.paper else None,
    }


def _picture(judged: Judged) -> bytes:
    data, std = judged.data, judged.prediction.std
    figure = judged.run.problem.figure(
        data.inputs("test")[DRAWN],
        data.outputs("test")[DRAWN],
        judged.prediction.mean[DRAWN].double().numpy(),
        None if std is None else std[DRAWN].double().numpy(),
    )
    return png(figure, 60)
