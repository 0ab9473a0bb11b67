"""The search behind the defaults of each method: short runs on KLE fields, judged on validation data alone.

The grid has 25 by 25 cells instead of 50 by 50, there are 1500 samples as in the paper, and a tenth of the training
data is set apart. Each run differs in one choice from the defaults in `surrogates.settings`; samplers are judged by the
mean over their samples. Choices that depend on the length of a run are also tried in runs of full length (long). The
steps of Adam and of the methods without a preconditioner depend on the grid, and are also tried on 50 by 50 cells
(fine). Runs with other seeds show which differences mean something.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.network import EncoderDecoder
from sparse_langevin.reports.page import Section, Table, number, render
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.studies.darcy_cells import EPOCHS, FIELDS, Cell, Record, named
from sparse_langevin.surrogates.settings import Settings

SHORT = 30  # epochs
FULL, FULL_ADAM = EPOCHS["kle"]
KINDS = ("long", "fine")  # the first word in the name of a run that is not short


class ReLUNetwork(EncoderDecoder):
    """The network with ReLU as its activation."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, activation=nn.ReLU)


_RELU = ("relu", {"network": f"{__name__}:ReLUNetwork"})


def _without_preconditioner(*steps: float) -> list[tuple[str, dict[str, Any]]]:
    """The default, other step sizes with momentum, and the paper's algorithm, which has no momentum."""
    return [
        ("default", {}),
        *((f"step-{s:g}", {"step_size": s}) for s in steps),
        ("step-1-noise-from-0.5", {"step_size": 1.0, "noise_from": 0.5}),
        *((f"fine-step-{s:g}", {"step_size": s, "epochs": FULL}) for s in (0.5, 1.0)),
        *((f"no-momentum-step-{s:g}", {"momentum": 0.0, "step_size": s}) for s in (0.1, 0.3, 0.5, 1.0, 2.0)),
    ]


def _pruned_adam(kind: str, *choices: dict[str, float]) -> list[tuple[str, dict[str, Any]]]:
    """Adam with pruning, in runs of full length, with each of these changes."""
    words = {"step_size": "step", "prune_end": "prune-end", "warmup": "warmup"}
    return [
        (
            "-".join([f"{kind}-pruned-70", *(f"{words[name]}-{value:g}" for name, value in changes.items())]),
            {"sparsity": 0.7, "epochs": FULL_ADAM} | changes,
        )
        for changes in choices
    ]


# The runs of each method: a name, and what is changed. Methods that select weights have a sparsity of 70 %.
VARIATIONS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "psgld": [
        ("default", {}),
        _RELU,
        ("no-momentum", {"momentum": 0.0}),
        ("no-momentum-step-3e-4", {"momentum": 0.0, "step_size": 3e-4}),
        ("no-momentum-step-3e-3", {"momentum": 0.0, "step_size": 3e-3}),
        ("no-warmup", {"warmup": 0.0}),
        ("batch-32", {"batch_size": 32}),
        ("step-1e-3", {"step_size": 1e-3}),
        ("step-4e-3", {"step_size": 4e-3}),
        ("pruned-70", {"sparsity": 0.7}),
        ("sigma0-0.1", {"sigma0": 0.1}),
    ],
    "psgld-sa": [
        ("default", {}),
        ("no-momentum", {"momentum": 0.0}),
        ("noise-from-0", {"noise_from": 0.0}),
        ("noise-from-0.85", {"noise_from": 0.85}),
        ("final-step-0.02", {"final_step": 0.02}),
        ("spike-0.02-slab-1", {"v0": 0.02, "v1": 1.0}),
        ("spike-0.1-slab-10", {"v0": 0.1, "v1": 10.0}),
        ("spike-0.5-slab-50", {"v0": 0.5, "v1": 50.0}),
        ("prune-end-0.3", {"prune_end": 0.3}),
        ("prune-end-0.7", {"prune_end": 0.7}),
        *((f"seed-{seed}", {"seed": seed}) for seed in (1, 2)),
        ("long", {"epochs": FULL}),
        ("long-noise-from-0", {"epochs": FULL, "noise_from": 0.0}),
        ("long-spike-0.1-slab-10", {"epochs": FULL, "v0": 0.1, "v1": 10.0}),
    ],
    "sgld": _without_preconditioner(1.0, 2.0),
    "sgld-sa": [*_without_preconditioner(0.5, 2.0), ("spike-0.1-slab-10", {"v0": 0.1, "v1": 10.0})],
    "adam": [
        ("default", {}),
        _RELU,
        ("batch-32", {"batch_size": 32}),
        *((f"step-{s:g}", {"step_size": s}) for s in (3e-4, 3e-3, 1e-2)),
        ("pruned-70", {"sparsity": 0.7}),
        *_pruned_adam("long", {}, {"step_size": 3e-3}, {"prune_end": 0.7}),
        *_pruned_adam("fine", {}, *({"step_size": s} for s in (3e-4, 3e-3))),
        *_pruned_adam("fine", *({"step_size": s, "warmup": 0.1} for s in (1e-3, 3e-3))),
    ],
}


def search_table(found: Sequence[Record]) -> Table:
    """All runs, the best first within each method and kind: only those can be compared."""

    def order(record: Record) -> tuple[int, str, float]:
        _, changed = _names(record)
        kind = changed.split("-")[0]
        return list(VARIATIONS).index(record["method"]), kind if kind in KINDS else "", record["e1"] or math.inf

    rows = [
        (
            *_names(r),
            number(r["e1"]),
            number(r["e2"]),
            number(r["cpu_seconds"] / 60 if "cpu_seconds" in r else None, 1),
        )
        for r in sorted(found, key=order)
    ]
    caption = (
        f"Errors in percent on validation data after {SHORT} epochs on 25 by 25 cells. Long: {FULL} epochs, "
        f"{FULL_ADAM} for Adam. Fine: the same on 50 by 50 cells. A dash marks a run that diverged. Runs of different "
        "lengths or on different grids cannot be compared."
    )
    return Table(("method", "changed", "e1 %", "e2 %", "CPU minutes"), rows, caption)


def _names(record: Record) -> tuple[str, str]:
    """The method of a run, and what differs from the method's defaults."""
    return record["method"], record["cell"].removeprefix(f"{record['method']}-")


def write_report(found: Sequence[Record], folder: Path) -> Path:
    """Write ``report.html`` from the finished runs; return its path."""
    text = "Each run differs in one choice from the defaults of 'train', or from the same method without momentum."
    section = Section("All runs, the best of each method first", [text], [search_table(found)])
    page = folder / "report.html"
    lead = "Made by: sparse-langevin reproduce search"
    write_atomically(page, render("The search behind the defaults", lead, [section]).encode())
    return page


def search_cells(only: Sequence[str] = ()) -> list[Cell]:
    """The runs of the search whose names contain one of ``only``, or all."""
    field = next(f for f in FIELDS["kle"] if f.name == "kle32")
    fine = replace(field, name="kle32-fine", title=f"{field.title}, the paper's grid", fine=True)
    cells = []
    for method, variations in VARIATIONS.items():
        sparsity = 0.7 if Settings.of(method).algorithm.selects else 0.0
        common = {"sparsity": sparsity, "epochs": SHORT, "validation": 0.1}
        for name, changes in variations:
            settings = Settings.of(method, **common | changes)
            place = fine if name.startswith("fine") else field
            cells.append(Cell("search", place, settings, label=f"{method}-{name}"))
    return named(cells, only)
