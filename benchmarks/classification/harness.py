"""The two stages: a search on the validation images, and the table on the test images with the settings it found."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.classification import budget, scores
from benchmarks.classification.contenders import Run, Train, Trained
from benchmarks.classification.data import Data
from benchmarks.classification.field import CONTENDERS, REFERENCE, TRIALS
from benchmarks.classification.records import Record, Records

Cell = tuple[str, float]
"""A contender's name and its share of zeros."""


@dataclass(frozen=True)
class Scale:
    """Sizes of the benchmark; the defaults are those of record."""

    epochs: float = 6.0
    """Length of the reference run."""
    probe: tuple[int, int] = (40, 5)
    """Steps and rounds in which a contender is timed for the search."""
    final_probe: tuple[int, int] = (1500, 3)
    """The same for the table: so many that what is done once in a run weighs little more than it does there."""
    passes: int = 20
    """Masks of MC dropout."""
    attacked: int = 2000
    """Test images that are perturbed."""


class Harness:
    """Runs what is not recorded in a folder yet."""

    def __init__(self, data: Data, out: Path, scale: Scale = Scale()) -> None:  # noqa: B008, a frozen dataclass
        self.data, self.scale = data, scale
        self.costs, self.search, self.table = (Records(out / f"{n}.jsonl") for n in ("costs", "search", "table"))
        self._warm: set[Cell] = set()

    def steps(self, cell: Cell, settings: dict[str, Any], *, final: bool = False) -> int:
        """Return the number of steps of each network of a contender, in the search or for the table."""
        name, zeros = cell
        contender = CONTENDERS[name]
        kind = contender.member or name
        steps, rounds = self.scale.final_probe if final else self.scale.probe
        key = {"contender": kind, "zeros": zeros}
        key |= {"settings": settings, "probe": steps} if final else {"batch_size": settings["batch_size"]}

        def measure() -> Record:
            train, part = CONTENDERS[kind].train, self.data.train
            return {"cost": budget.relative_cost(train, settings, zeros, part, steps=steps, rounds=rounds)}

        # The reference costs as much as itself, whatever the clock says.
        same = (kind, zeros, settings["batch_size"]) == ("adam", 0.0, REFERENCE["batch_size"])
        cost = 1.0 if same else float(self.costs.known(key, measure)["cost"])
        whole = budget.reference_steps(self.data.train, self.scale.epochs)
        return max(1, round(contender.budget * whole / cost))

    def tried(self, cell: Cell) -> list[Record]:
        """Make the trials of a contender on the validation images, and return their records."""
        return [self._tried(cell, settings) for settings in TRIALS[cell]]

    def chosen(self, cell: Cell) -> dict[str, Any] | None:
        """Return the settings with the lowest NLL on the validation images among the recorded trials."""
        if cell not in TRIALS:
            cell = CONTENDERS[cell[0]].member or cell[0], cell[1]
        keys = [{"contender": cell[0], "zeros": cell[1], "settings": settings} for settings in TRIALS[cell]]
        records = [record for key in keys if (record := self.search.find(key)) and record["validation"]]
        return min(records, key=lambda r: r["validation"]["nll"])["settings"] if records else None

    def final(self, cell: Cell, seed: int) -> Record:
        """Train with the chosen settings and a seed, and return the record of all scores on the test images."""
        settings = self.chosen(cell)
        if settings is None:
            raise RuntimeError(f"no trial of {cell[0]} with {cell[1]:.0%} zeros is recorded: run the search first")
        key = {"contender": cell[0], "zeros": cell[1], "settings": settings, "seed": seed}

        def make() -> Record:
            steps = self.steps(cell, settings, final=True)
            trained, about = self._train(CONTENDERS[cell[0]].train, cell, settings, steps, seed)
            watch = budget.Stopwatch()
            found = scores.full(trained.predictor, self.data, self.scale.attacked)
            return about | {"test": found, "prediction_cpu_seconds": watch.seconds}

        return self.table.known(key, make)

    def finished(self, cells: Iterable[Cell]) -> dict[Cell, list[Record]]:
        """Return the records of the table that have the chosen settings, by cell and in the order of seeds."""
        found = {}
        for cell in cells:
            key = {"contender": cell[0], "zeros": cell[1], "settings": self.chosen(cell)}
            records = [r for r in self.table.all if all(r[name] == key[name] for name in key)]
            found[cell] = sorted(records, key=lambda r: r["seed"])
        return found

    def _tried(self, cell: Cell, settings: dict[str, Any]) -> Record:
        contender = CONTENDERS[cell[0]]

        def attempt() -> Record:
            train = CONTENDERS[contender.member].train if contender.member else contender.train
            steps, watch = self.steps(cell, settings), budget.Stopwatch()
            try:
                trained, about = self._train(train, cell, settings, steps, 0)
                x, y = self.data.validation
                watch = budget.Stopwatch()
                found = scores.basic(trained.predictor.classify(x), y)
            except FloatingPointError as error:  # a trial like the others, which is lost
                return {"steps": steps, "cpu_seconds": watch.seconds, "validation": None, "failed": str(error)}
            return about | {"validation": found, "prediction_cpu_seconds": watch.seconds}

        return self.search.known({"contender": cell[0], "zeros": cell[1], "settings": settings, "seed": 0}, attempt)

    def _train(
        self, train: Train, cell: Cell, settings: dict[str, Any], steps: int, seed: int
    ) -> tuple[Trained, Record]:
        zeros, part = cell[1], self.data.train
        if cell not in self._warm:  # compilation belongs to the machine, not to the run
            train(part, settings, Run(2, 0, zeros, passes=1))
            self._warm.add(cell)
        watch = budget.Stopwatch()
        trained = train(part, settings, Run(steps, seed, zeros, self.scale.passes, watch.tick))
        about = {"steps": steps, "epochs": steps * settings["batch_size"] / len(part[0]), "cpu_seconds": watch.seconds}
        return trained, about | {"share_of_zeros": trained.zeros} | trained.notes
