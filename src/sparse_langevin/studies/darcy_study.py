"""Trains the cells of a surrogate study, several at a time. Each can be resumed, and ends as a record in table.json.

The study's folder holds

table.json     one record per cell, written anew whenever a cell is finished
curves.json    their learning curves
figures/       pictures of predictions
work/          data sets and runs, which can be deleted when the study is finished

Each record has a checksum (`storage.lines`), and so have the curves.
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
from sparse_langevin.problems.darcy.recipes import Recipe
from sparse_langevin.reports.page import png
from sparse_langevin.runtime.processes import Job, run_in_processes
from sparse_langevin.storage.errors import DamagedError, MismatchError, StorageError
from sparse_langevin.storage.files import locked, write_atomically
from sparse_langevin.storage.lines import read_lines, sealed, unsealed, write_line
from sparse_langevin.studies.darcy_cells import Cell, Field, Record, Scale
from sparse_langevin.surrogates.calibration import set_apart
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.report import Judged, judge
from sparse_langevin.surrogates.runs import SAMPLES, SurrogateRun, epochs_done
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.training import train

TABLE, CURVES, FIGURES, WORK = "table.json", "curves.json", "figures", "work"
REMEDY = "Restore it, or delete it and train its cells again"
DRAWN = 0  # the test sample that is drawn
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class StudyFolder:
    """The folder of a study, and the paths in it."""

    folder: Path
    scale: Scale
    image: Path | None = None

    def data(self, field: Field) -> Path:
        """The folder of a field's data set."""
        return self.folder / WORK / "data" / field.name

    def run(self, cell: Cell) -> Path:
        """The folder in which a cell is trained."""
        return self.folder / WORK / "runs" / cell.name

    def made(self, cell: Cell) -> Path:
        """The file with what a finished cell has for the table."""
        return self.folder / WORK / "records" / f"{cell.name}.json"

    def figure(self, cell: Cell) -> Path:
        """The file with a picture of a cell's prediction."""
        return self.folder / FIGURES / f"{cell.name}.png"


def curves(folder: Path) -> dict[str, Any]:
    """The learning curves of all finished cells of a study, by cell."""
    path = folder / CURVES
    found = _read(path)
    return {} if found is None else _unsealed(found, path)


def records(folder: Path) -> list[Record]:
    """The records of all finished cells of a study."""
    path = folder / TABLE
    found = _read(path) or []
    if not isinstance(found, list) or any(isinstance(one, dict) and "contender" in one for one in found):
        raise MismatchError(f"{path} is the table of another study: choose another folder with --out")
    return [_unsealed(record, path) for record in found]


def _read(path: Path) -> Any:
    """The content of a JSON file of the study, or None if there is no such file."""
    try:
        return json.loads(path.read_bytes()) if path.exists() else None
    except (ValueError, RecursionError) as error:
        raise DamagedError(path, str(error), REMEDY) from error


def _unsealed(record: Any, path: Path) -> dict[str, Any]:
    try:
        return unsealed(record)
    except ValueError as error:
        name = record.get("cell", "a record") if isinstance(record, dict) else "a record"
        raise DamagedError(path, f"{name}: {error}" if path.name == TABLE else str(error), REMEDY) from error


def _made(path: Path) -> dict[str, Any]:
    """What a cell has left to be entered into the table; nothing if it is not there."""
    return next(iter(read_lines(path, remedy=REMEDY)), {})


def run(
    cells: Sequence[Cell],
    place: StudyFolder,
    *,
    workers: int = 2,
    progress: Progress = lambda epochs, text: None,
    finished: Callable[[Record], None] = lambda record: None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Record]:
    """Train the cells that have no record with their settings yet, and return all records.

    Parameters
    ----------
    cells
        The cells to train, in this order.
    place
        The folder of the study.
    workers
        How many cells are trained at a time, with one thread each: two cells side by side finish sooner than one after
        the other on two threads.
    progress
        Called with the number of epochs done, over all cells, and with the names of the running cells.
    finished
        Called with the record of each cell that has been trained.
    stop
        Called again and again. Once it returns true, the running cells save their state, and the function returns.
    """
    recipes = {c.field.name: c.field.recipe(place.scale, place.image) for c in cells}
    for recipe in recipes.values():
        recipe.fields()  # an image that cannot be used fails here, before anything is written
    with locked(place.folder):
        missing = {cell.name: cell for cell in _missing(cells, place, recipes)}
        for field in {cell.field.name: cell.field for cell in missing.values()}.values():
            progress(0.0, f"data of {field.name}")
            generate(recipes[field.name], place.data(field), workers=workers)
        for cell in missing.values():
            if place.run(cell).exists() and not _can_resume(place.run(cell), cell.settings):
                shutil.rmtree(place.run(cell))
        (place.folder / WORK / "records").mkdir(parents=True, exist_ok=True)
        (place.folder / FIGURES).mkdir(parents=True, exist_ok=True)
        before = float(sum(cell.settings.epochs for cell in cells if cell.name not in missing))

        def enter(name: str) -> None:
            nonlocal before
            finished(_enter(missing[name], place))
            before += missing[name].settings.epochs

        def tick(running: list[str]) -> None:
            progress(before + sum(epochs_done(place.run(missing[name])) for name in running), ", ".join(running))

        jobs: dict[str, Job] = {name: (_work, (cell, place)) for name, cell in missing.items()}
        run_in_processes(jobs, workers, done=enter, tick=tick, stop=stop)
        return records(place.folder)


def _missing(cells: Sequence[Cell], place: StudyFolder, recipes: Mapping[str, Recipe]) -> list[Cell]:
    """The cells that are not in the table; those that were finished just before a stop are entered there now."""
    table = {record["cell"]: record for record in records(place.folder)}
    _check_recipes(table.values(), {name: recipe.as_json() for name, recipe in recipes.items()}, place.folder)
    missing = []
    for cell in cells:
        if _is_of(table.get(cell.name), cell):
            continue
        if _is_of(_made(place.made(cell)).get("record"), cell):
            _enter(cell, place)
        else:
            missing.append(cell)
    return missing


def _check_recipes(found: Iterable[Record], wanted: Mapping[str, dict[str, Any]], folder: Path) -> None:
    """Raise an error if a record is about other data than its field has now, of another scale or another image."""
    for record in found:
        field, there = record["field"]["name"], record.get("recipe", {})
        for name, value in wanted.get(field, {}).items():
            if there.get(name) != value:
                raise MismatchError(
                    f"{folder} has {record['cell']} on {field} with {name} = {there.get(name)}, now it is {value}: "
                    "use the same scale and image, or choose another folder with --out"
                )


def _work(cell: Cell, place: StudyFolder) -> None:
    """Train and judge one cell, in a process of its own."""
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
    except FloatingPointError as error:  # this is a result, too: the steps were too large
        _leave(cell, place, {"e1": None, "e2": None, "diverged": str(error)})


def _validation_errors(run: SurrogateRun) -> dict[str, float]:
    """Errors in percent on the validation data: of the mean over the samples, or of the network if there are none."""
    kappa, true = set_apart(run.settings, run.find_data())
    found = run.problem.errors(predict(run, kappa).mean.double().numpy(), true, kappa)
    return {name: 100 * float(found[name].mean()) for name in ("e1", "e2")}


def _enter(cell: Cell, place: StudyFolder) -> Record:
    """Enter a finished cell into the table, delete the large files of its run, and return its record."""
    made = _made(place.made(cell))
    record: Record = made["record"]
    drawn = curves(place.folder) | {cell.name: made["curve"]}
    write_atomically(place.folder / CURVES, json.dumps(sealed(drawn)).encode())
    kept = [one for one in records(place.folder) if one["cell"] != cell.name]
    table = [sealed(one) for one in sorted([*kept, record], key=lambda one: one["cell"])]
    write_atomically(place.folder / TABLE, (json.dumps(table, indent=1, allow_nan=False) + "\n").encode())
    for name in ("checkpoints", *(() if cell.keep else (SAMPLES,))):
        shutil.rmtree(place.run(cell) / name, ignore_errors=True)
    return record


def _is_of(record: Record | None, cell: Cell) -> bool:
    """Whether a record was made with the settings that the cell has now."""
    return record is not None and Settings.from_json(record["settings"]) == cell.settings


def _can_resume(path: Path, settings: Settings) -> bool:
    """Whether the run in a folder can be read, and has these settings."""
    try:
        return SurrogateRun.open(path).settings == settings
    except (ValueError, StorageError):
        return False


def _leave(cell: Cell, place: StudyFolder, found: Record) -> None:
    """Write the record of a cell and its learning curve, to be entered into the table."""
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
    write_atomically(place.made(cell), write_line({"record": record, "curve": curve}))


def _counts(run: SurrogateRun) -> Record:
    names = ("parameters", "sparse_parameters", "zeros", "sigma", "epochs", "seconds", "cpu_seconds")
    log = run.result["remarks"]["input"].startswith("logarithm")
    return {name: run.result[name] for name in names} | {"log_input": log, "versions": run.versions}


def _errors(cell: Cell, judged: Judged) -> Record:
    """Errors on the test set in percent: of the mean over the samples, if there are any, and of the last sample."""
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
