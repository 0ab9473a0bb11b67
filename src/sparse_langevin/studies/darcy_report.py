"""The table, the figures and the page of a surrogate study, made from its records."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any

from matplotlib.figure import Figure

from sparse_langevin.reports.page import Picture, Section, Table, TableCell, number, png, render
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.studies.darcy_algorithms import VARIANTS, Algorithm, algorithms, pick
from sparse_langevin.studies.darcy_cells import FIELDS, PAPER, Field, Record, Study, Variant
from sparse_langevin.studies.darcy_claims import CHANCE, claims_table
from sparse_langevin.studies.darcy_study import FIGURES, curves, records

COLOURS = {
    "psgld-sa": "tab:blue",
    "sgld-sa": "tab:orange",
    "psgld": "tab:green",
    "sgld": "tab:red",
    "adam": "black",
}
STYLES = {0.0: "-", 0.3: ":", 0.5: "--", 0.7: "-."}


def write_report(study: Study, folder: Path, command: str) -> Path:
    """Write figures of the learning curves and ``report.html`` from the finished cells; return the path of the page."""
    found, drawn = records(folder), curves(folder)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    present = {Algorithm.of(record).variant for record in found}
    lead = [_budget(found), *_LEAD, *(_EXPLAINED[variant] for variant in VARIANTS if variant in present)]
    sections = [
        Section("Errors beside the paper's", lead, [main_table(study, found)]),
        Section("Claims", _CLAIMS, [claims_table(study, found)]),
    ]
    order = [(algorithm.method, algorithm.sparsity) for algorithm in algorithms(study)]
    for field in FIELDS[study]:
        mine = [r for r in found if r["field"]["name"] == field.name]
        mine.sort(key=lambda r: (Algorithm.of(r).variant, order.index((r["method"], r["sparsity"])), r["seed"]))
        known = next((r for r in mine if r["e1"] is not None), None)
        if known is None:
            continue
        picture = Picture(png(curves_figure(field, mine, drawn)), f"Learning curves on test data: {field.title}.")
        write_atomically(folder / FIGURES / f"curves-{field.name}.png", picture.png)
        pictures = [picture, *_predictions(folder, mine)]
        base = (
            f"The training mean has e1 = {known['baseline_e1']:.2f} %, first order has {known['first_order_e1']:.2f} %."
        )
        sections.append(Section(field.title, [base, *_mixed(mine)], [_cells_table(mine)], pictures))
    versions = ", ".join(f"{k} {v}" for k, v in (found[0].get("versions", {}) if found else {}).items())
    title = {"kle": "Surrogates for KLE fields", "channels": "Surrogates for channelised fields"}[study]
    page = folder / "report.html"
    write_atomically(page, render(title, f"Made by: {command}", sections, footer=versions).encode())
    return page


def main_table(study: Study, found: Sequence[Record]) -> Table:
    """Errors of every algorithm: ours, those of the variants that have been run, and the paper's."""
    shown = [variant for variant in VARIANTS if any(Algorithm.of(r).variant == variant for r in found)]
    rows: list[list[TableCell | str]] = []
    for field in FIELDS[study]:
        for algorithm in algorithms(study):
            ours = [_errors(pick(found, field.name, replace(algorithm, variant=variant))) for variant in shown]
            if any(ours):
                paper = TableCell(_pair(PAPER.get((field.name, algorithm.method, algorithm.sparsity))), "quiet")
                rows.append([f"{field.name} {algorithm}", *ours, paper])
        if base := next((r for r in found if r["field"]["name"] == field.name and r["e1"] is not None), None):
            for words, name in (("training mean", "baseline"), ("first order", "first_order")):
                errors = TableCell(_pair((base[f"{name}_e1"], base[f"{name}_e2"])), "quiet")
                rows.append([TableCell(f"{field.name} {words}", "quiet"), errors, *([""] * len(shown))])
    names = ["", *(VARIANTS[variant] or "ours" for variant in shown), "the paper"]
    return Table(names, rows, "e1 / e2 in percent: means over the test set (and over seeds). Empty cells were not run.")


def curves_figure(field: Field, mine: Sequence[Record], curves: dict[str, Any]) -> Figure:
    """The test error of every cell of a field against epochs, for seed 0."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axis = figure.subplots()
    for record in mine:
        curve = curves.get(record["cell"])
        if record["seed"] or not curve:
            continue
        algorithm = Algorithm.of(record)
        epochs, errors = [p[0] for p in curve], [p[1] for p in curve]
        line = axis.plot(epochs, errors, label=str(algorithm), color=COLOURS[algorithm.method])
        line[0].set_linestyle(STYLES.get(algorithm.sparsity, "-"))  # type: ignore[arg-type]
        line[0].set_linewidth({"": 1.5, "darcy": 3.0, "plain": 0.7}[algorithm.variant])
    known = next(r for r in mine if r["e1"] is not None)
    axis.axhline(known["baseline_e1"], color="grey", linewidth=0.8, label="training mean")
    axis.axhline(known["first_order_e1"], color="grey", linewidth=0.8, linestyle="--", label="first order")
    axis.set(xlabel="epoch", ylabel="e1 on test data in percent", yscale="log", title=field.title)
    axis.grid(alpha=0.3, which="both")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _errors(mine: Sequence[Record]) -> str:
    """Means of e1 and e2 over the seeds, with the range of e1 if there are several seeds."""
    if not mine or any(r["e1"] is None for r in mine):
        return "diverged" if mine else ""
    means = sum(r["e1"] for r in mine) / len(mine), sum(r["e2"] for r in mine) / len(mine)
    spread = f" ({min(r['e1'] for r in mine):.2f}–{max(r['e1'] for r in mine):.2f})" if len(mine) > 1 else ""  # noqa: RUF001
    return _pair(means) + spread


def _pair(errors: tuple[float, float] | None) -> str:
    return "{:.2f} / {:.2f}".format(*errors) if errors else ""


def _cells_table(mine: Sequence[Record]) -> Table:
    names = ("", "seed", "e1 %", "e2 %", "e1 % last sample", "mass residual", "zeros", "epochs", "CPU minutes")
    rows = []
    for r in mine:
        head = (str(Algorithm.of(r)), str(r["seed"]))
        if r["e1"] is None:
            rows.append((*head, "diverged", *([""] * (len(names) - 3))))
            continue
        errors = (number(r["e1"]), number(r["e2"]), number(r["e1_last"]), f"{r['mass_residual']:.2g}")
        zeros = f"{r['zeros']:,} of {r['sparse_parameters']:,}"
        minutes = number(r["cpu_seconds"] / 60 if "cpu_seconds" in r else None, 1)
        rows.append((*head, *errors, zeros, str(r["epochs"]), minutes))
    return Table(
        names, rows, "All runs, on one thread each. They come from different machines, so minutes compare roughly."
    )


def _mixed(mine: Sequence[Record]) -> list[str]:
    """A note on cells whose data differ a little from the others', as machines and versions may round differently."""
    bases = {r["cell"]: r["baseline_e1"] for r in mine if r["e1"] is not None}
    usual = median_low(bases.values())
    other = [cell for cell, base in bases.items() if not math.isclose(base, usual, rel_tol=1e-6)]
    words = "These cells have data of the same recipe that differ a little from the others' (machine, version)"
    return [f"{words}: {', '.join(other)}."] if other else []


def _predictions(folder: Path, mine: Sequence[Record]) -> list[Picture]:
    """Pictures of predictions by the sparse methods with 70 % zeros."""
    pictures = []
    for algorithm in (Algorithm("psgld-sa", 0.7), Algorithm("sgld-sa", 0.7)):
        for record in pick(mine, mine[0]["field"]["name"], algorithm):
            path = folder / FIGURES / f"{record['cell']}.png"
            if record["seed"] == 0 and path.exists():
                text = f"{algorithm}: a test sample; e1 is {record['e1']:.3f} % over the test set."
                pictures.append(Picture(path.read_bytes(), text))
    return pictures


def _budget(found: Sequence[Record]) -> str:
    samplers, adam = (
        sorted({r["settings"]["epochs"] for r in found if (r["method"] == "adam") is wanted})
        for wanted in (False, True)
    )
    listed = [", ".join(map(str, epochs)) or "none yet" for epochs in (samplers, adam)]
    longer = " Adam's steps are cheaper, so it may take more of them." if adam > samplers else ""
    return (
        "Every cell is one training run. On a field, all methods have the same data. Epochs of the "
        f"samplers: {listed[0]}, of Adam: {listed[1]}.{longer}"
    )


_LEAD = (
    "The settings of each method were chosen on validation data, most of them on a grid of 25 by 25 cells. Runs of "
    "this table showed that steps of 1.0 for SGLD with momentum and of 0.003 for Adam are too large on 50 by 50 "
    "cells; smaller ones were then chosen on validation data of that grid. Errors of the four samplers are those of "
    "the mean over the posterior samples that the run has kept.",
    "The paper gives neither its constant kappa_0, nor the contrast of its channels, nor its activation, so its "
    "errors and ours are not about the same fields. We took a kappa_0 at which PSGLD without momentum comes near the "
    "paper's error on 32 terms, and permeabilities at which PSGLD does so on channels. Only the distances between "
    "methods can be compared with the paper's. The error of always answering the training mean shows how hard our "
    "fields are; that of the solution to first order around the mean, which needs no network, shows how far they are "
    "from linear.",
)
_EXPLAINED: dict[Variant, str] = {
    "": "The four samplers run with the defaults of 'train': with momentum, and for PSGLD and PSGLD-SA with noise from "
    "the middle of the run on.",
    "darcy": "'Darcy network' is DarcyEncoderDecoder instead of the paper's network: its answer is multiplied by the "
    "permeability beside each edge, and conserves mass. The step sizes are those chosen for the paper's network. They "
    "may suit this one less, and some methods less than others.",
    "plain": "'No momentum' is nearest to the paper's algorithms: no momentum, and noise from the first step on. The "
    "paper's misprints are corrected, steps grow for a tenth of the run and then fall along a cosine, and the "
    "inclusion probabilities have a prior around the share that is kept. Steps were chosen on a grid of 25 by 25 "
    "cells.",
}
_CLAIMS = (
    "e1 in percent, and the ratio of left to right. If both sides have several seeds in common, these are means over "
    f"them, with the range of the ratio. A verdict could be chance if the ratio is within {CHANCE:.0%}, divided by the "
    "square root of the number of seeds, of its limit: about two standard deviations of the ratio of two runs on 32 "
    "terms. Runs without a preconditioner can differ by more where the error jumps on its way down.",
)
