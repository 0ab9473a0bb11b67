"""Table, figures and page of a surrogate study, made of its records."""

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
from sparse_langevin.studies.darcy_cells import FIELDS, PAPER, Field, Study, Variant
from sparse_langevin.studies.darcy_claims import CHANCE, claims_table
from sparse_langevin.studies.darcy_study import CURVES, FIGURES, read, records

COLOURS = {
    "psgld-sa": "tab:blue",
    "sgld-sa": "tab:orange",
    "psgld": "tab:green",
    "sgld": "tab:red",
    "adam": "black",
}
STYLES = {0.0: "-", 0.3: ":", 0.5: "--", 0.7: "-."}


def write_report(study: Study, folder: Path, command: str) -> Path:
    """Write the learning-curve figures and ``report.html`` from what is finished; return the page."""
    found, curves = records(folder), read(folder / CURVES) or {}
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    present = {Algorithm.of(record).variant for record in found}
    lead = [_budget(found), *_LEAD, *(_EXPLAINED[variant] for variant in VARIANTS if variant in present)]
    sections = [Section("Errors beside the paper's", lead, [main_table(study, found)])]
    sections.append(Section("Is it so?", _CLAIMS, [claims_table(study, found)]))
    order = [(algorithm.method, algorithm.sparsity) for algorithm in algorithms(study)]
    for field in FIELDS[study]:
        mine = [r for r in found if r["field"]["name"] == field.name]
        mine.sort(key=lambda r: (Algorithm.of(r).variant, order.index((r["method"], r["sparsity"])), r["seed"]))
        known = next((r for r in mine if r["e1"] is not None), None)
        if known is None:
            continue
        picture = Picture(png(curves_figure(field, mine, curves)), f"Learning curves on test data: {field.title}.")
        write_atomically(folder / FIGURES / f"curves-{field.name}.png", picture.png)
        pictures = [picture, *_predictions(folder, mine)]
        base = f"The training mean has e1 = {known['baseline_e1']:.2f} %, first order {known['first_order_e1']:.2f} %."
        sections.append(Section(field.title, [base, *_mixed(mine)], [_cells_table(mine)], pictures))
    versions = ", ".join(f"{k} {v}" for k, v in (found[0].get("versions", {}) if found else {}).items())
    title = {"kle": "Surrogates for KLE fields", "channels": "Surrogates for channelised fields"}[study]
    page = folder / "report.html"
    write_atomically(page, render(title, f"Made by: {command}", sections, footer=versions).encode())
    return page


def main_table(study: Study, found: Sequence[dict[str, Any]]) -> Table:
    """One row a method: ours, the variants that ran, and the paper's."""
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
    return Table(names, rows, "e1 / e2 in percent, means over the test set (and seeds). Empty: not run.")


def curves_figure(field: Field, mine: Sequence[dict[str, Any]], curves: dict[str, Any]) -> Figure:
    """Test error of every cell of a field against epochs; seed 0."""
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


def _errors(mine: Sequence[dict[str, Any]]) -> str:
    """Means of e1 and e2 over seeds, with the range of e1 when there are several."""
    if not mine or any(r["e1"] is None for r in mine):
        return "diverged" if mine else ""
    means = sum(r["e1"] for r in mine) / len(mine), sum(r["e2"] for r in mine) / len(mine)
    spread = f" ({min(r['e1'] for r in mine):.2f}–{max(r['e1'] for r in mine):.2f})" if len(mine) > 1 else ""  # noqa: RUF001
    return _pair(means) + spread


def _pair(errors: tuple[float, float] | None) -> str:
    return "{:.2f} / {:.2f}".format(*errors) if errors else ""


def _cells_table(mine: Sequence[dict[str, Any]]) -> Table:
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
    caption = "Every run, on one thread; of different machines, so that minutes compare roughly."
    return Table(names, rows, caption)


def _mixed(mine: Sequence[dict[str, Any]]) -> list[str]:
    """Which cells have run on other data of the same recipe, as machines and versions may round differently."""
    bases = {r["cell"]: r["baseline_e1"] for r in mine if r["e1"] is not None}
    usual = median_low(bases.values())
    other = [cell for cell, base in bases.items() if not math.isclose(base, usual, rel_tol=1e-6)]
    words = "On data of the same recipe that differ a little from those of the other cells (machine, version)"
    return [f"{words}: {', '.join(other)}."] if other else []


def _predictions(folder: Path, mine: Sequence[dict[str, Any]]) -> list[Picture]:
    """Pictures of the sparse methods at 70 %."""
    pictures = []
    for algorithm in (Algorithm("psgld-sa", 0.7), Algorithm("sgld-sa", 0.7)):
        for record in pick(mine, mine[0]["field"]["name"], algorithm):
            path = folder / FIGURES / f"{record['cell']}.png"
            if record["seed"] == 0 and path.exists():
                text = f"{algorithm}: a test sample; e1 over the test set {record['e1']:.3f} %."
                pictures.append(Picture(path.read_bytes(), text))
    return pictures


def _budget(found: Sequence[dict[str, Any]]) -> str:
    samplers, adam = (
        sorted({r["settings"]["epochs"] for r in found if (r["method"] == "adam") is wanted})
        for wanted in (False, True)
    )
    listed = [", ".join(map(str, epochs)) or "none yet" for epochs in (samplers, adam)]
    longer = " Adam's steps are cheaper, so that it may take more of them." if adam > samplers else ""
    return (
        "Every cell is one training run with the same data for all methods on a field; epochs of the "
        f"samplers: {listed[0]}, of Adam: {listed[1]}.{longer}"
    )


_LEAD = (
    "The settings of each method were chosen on validation data, most of them on a grid of 25 by 25 cells. That steps "
    "of 1.0 for SGLD with momentum and of 0.003 for Adam are too large on 50 by 50 was seen in runs of this table, and "
    "smaller ones then chosen on validation data there. Errors of the four samplers are those of the mean over the "
    "posterior samples that the run has kept.",
    "The paper gives neither its constant kappa_0, nor the contrast of its channels, nor its activation: its errors "
    "and ours are not about the same fields. We took a kappa_0 at which PSGLD without momentum comes near its error on "
    "32 terms, and permeabilities at which PSGLD does on channels, so that only the distances between methods compare "
    "with the paper's. The error of always answering the training mean says how hard ours are; that of the solution to "
    "first order around it, which needs no network, how far they are from linear.",
)
_EXPLAINED: dict[Variant, str] = {
    "": "The four samplers run as 'train' does it: with momentum, PSGLD and PSGLD-SA also with noise from the middle "
    "of the run on.",
    "darcy": "'Darcy network' is DarcyEncoderDecoder instead of the paper's network: its answer is multiplied by the "
    "permeability beside each edge, and conserves mass. Steps are those chosen for the paper's network, which "
    "may suit it less, and one method less than another.",
    "plain": "'No momentum' is nearest to the paper's algorithms: noise from the first step on, no momentum. Its "
    "misprints are mended, steps grow for a tenth of the run and fall along a cosine, and the inclusion probabilities "
    "have a prior around the share that is kept; steps were chosen on a grid of 25 by 25 cells.",
}
_CLAIMS = (
    "e1 in percent, and the ratio of left to right. Where both sides have run with several seeds, of the means over "
    f"these seeds, with the range of the ratio. Within {CHANCE:.0%} of its limit, divided by the square root of the "
    "number of seeds, a verdict could be chance: about two standard deviations of the ratio of two runs on 32 terms. "
    "Runs without a preconditioner can differ by more, where the error jumps on its way down.",
)
