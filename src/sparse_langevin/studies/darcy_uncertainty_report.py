"""The table, the claims, the figures and the page of the study of error bars."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sparse_langevin.posterior.calibration import LEVELS
from sparse_langevin.posterior.figures import calibration_figure
from sparse_langevin.reports.page import Picture, Section, Table, number, png, render
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.studies.darcy_cells import Record
from sparse_langevin.studies.darcy_claims import NO, YES
from sparse_langevin.studies.darcy_study import FIGURES, TABLE
from sparse_langevin.studies.darcy_uncertainty import FAR, FAR_FIELDS, FIELD, MEMBERS, Judgement
from sparse_langevin.surrogates.figures import deviation_figure

OURS, RIVALS, REFERENCE = "psgld-sa", ("single", "ensemble", "dropout", "light-dropout"), "full-ensemble"
COVERED = 0.88, 0.92  # the share that 90 % intervals should cover
RANK, FACTOR = 0.5, 2.0  # smallest rank correlation, and smallest ratio of deviations on channels and on test fields


def write_report(judged: Sequence[Judgement], folder: Path, command: str) -> Path:
    """Write ``table.json``, the figures and ``report.html``; return the path of the page."""
    found = [one.record for one in judged]
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    write_atomically(folder / TABLE, (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
    pictures = {}
    for name, figure, caption in _figures(judged):
        pictures[name] = Picture(png(figure), caption)
        write_atomically(folder / FIGURES / f"{name}.png", pictures[name].png)
    sections = [
        Section("What was compared", _lead(found), [main_table(found)]),
        Section("Claims", (), [claims_table(found)]),
        Section("Error bars", (), [bars_table(found)], [pictures["reliability"]]),
        Section("Which forecasts are doubtful", (), (), [p for name, p in pictures.items() if name != "reliability"]),
    ]
    versions = ", ".join(f"{k} {v}" for k, v in found[0]["versions"].items())
    page = folder / "report.html"
    title = "Can the surrogate's error bars be believed?"
    write_atomically(page, render(title, f"Made by: {command}", sections, footer=versions).encode())
    return page


def main_table(found: Sequence[Record]) -> Table:
    """What each contender costs, how accurate it is, and whether it knows where it is not accurate."""
    rows = [
        {
            "": r["title"],
            "epochs": str(r["epochs"]),
            "CPU min": number(r["cpu_seconds"] / 60, 1),
            "e1 %": number(r["e1"]),
            "e1 % last sample": number(r["e1_last"]),
            "rank": number(r["rank_correlation"], 2),
            "far": number(r["far_ratio"], 2),
            "with noise": number(r["far_ratio_total"], 2),
            "AUROC": number(r["far_auroc"], 3),
            "e1 % far": number(r["far_e1"], 1),
            "90 % cover": f"{r['far_recalibrated']['coverage']['0.9']:.1%}",
        }
        for r in found
    ]
    caption = (
        "Epochs and CPU minutes are those of all training runs together, e1 is that of the forecast on test data. "
        "Rank: the rank correlation, over the test fields, of the error and the deviation due to the weights. Far: "
        "the median of this deviation on channels as a multiple of that on test fields; with noise, the same for the "
        "whole recalibrated error bar. AUROC: how well the deviation due to the weights tells the two kinds of fields "
        "apart (1: always, 1/2: not at all). The last two columns are the error on channels and the share of the "
        "velocities there that lie in recalibrated 90 % intervals."
    )
    return Table(tuple(rows[0]), [tuple(row.values()) for row in rows], caption)


def bars_table(found: Sequence[Record]) -> Table:
    """Coverage and scores of the error bars, as they are and recalibrated."""
    columns = ("", *(f"{level:.0%}" for level in LEVELS), "width", "CRPS", "NLL", "factors")
    rows = []
    for r in found:
        factors = " and ".join(number(value, 2) for value in r["factors"].values())
        for name, key, multiplied in (("as it is", "plain", "–"), ("recalibrated", "recalibrated", factors)):  # noqa: RUF001
            scores = r[key]
            shares = [f"{scores['coverage'][f'{level:g}']:.1%}" for level in LEVELS]
            values = [number(scores["width"]["0.9"]), number(scores["crps"], 4), number(scores["nll"], 3)]
            rows.append((f"{r['title']}, {name}", *shares, *values, multiplied))
    caption = (
        "Share of the test velocities that lie in intervals of 50 to 95 %, mean width of the 90 % intervals, and "
        "scores (lower is better). Recalibrated: the deviations due to weights and noise are multiplied by factors "
        "found on validation data."
    )
    return Table(columns, rows, caption)


def claims_table(found: Sequence[Record]) -> Table:
    """The hopes for the posterior's error bars, judged from the records."""
    by_name = {r["contender"]: r for r in found}
    ours = by_name[OURS]
    good, (low, high) = ours["recalibrated"], COVERED
    covered = good["coverage"]["0.9"]
    claims = [
        (
            "the error of the mean is below that of the last sample",
            f"{ours['e1']:.3f} %",
            f"below {ours['e1_last']:.3f} %",
            ours["e1"] < ours["e1_last"],
        ),
        (
            "90 % intervals, recalibrated, cover what they promise",
            f"{covered:.1%}",
            f"{low:.0%} to {high:.0%}",
            low <= covered <= high,
        ),
    ]
    for score, digits in (("crps", 4), ("nll", 3)):
        for rival in (by_name[name] for name in RIVALS if name in by_name):
            mine, theirs = good[score], rival["recalibrated"][score]
            text = f"{score.upper()} no worse than that of {rival['title']}, both recalibrated"
            claims.append((text, number(mine, digits), f"at most {number(theirs, digits)}", mine <= theirs))
    rank, ratio = ours["rank_correlation"], ours["far_ratio"]
    claims += [
        ("large deviations go with large errors: rank correlation", f"{rank:.2f}", f"at least {RANK}", rank >= RANK),
        (
            "deviation on channels, as a multiple of that on test fields",
            f"{ratio:.2f}",
            f"at least {FACTOR}",
            ratio >= FACTOR,
        ),
    ]
    rows = [(text, left, right, YES if holds else NO) for text, left, right, holds in claims]
    columns = (f"claim about {ours['title']}", "found", "wanted", "holds")
    return Table(columns, rows, "Deviations are those due to the weights.", prose=True)


def far_figure(judged: Sequence[Judgement]) -> Figure:
    """Histograms of the deviation on test fields and on channels, one plot per contender."""
    judged = [one for one in judged if one.far.any()]
    figure = Figure(figsize=(9, 2.0 * len(judged) + 0.5), layout="constrained")
    axes = figure.subplots(len(judged), 1, squeeze=False, sharex=True)[:, 0]
    values = np.concatenate([part for one in judged for part in (one.trust.predicted, one.far)])
    bins = np.geomspace(values.min(), values.max() * 1.001, 60)
    for axis, one in zip(axes, judged, strict=True):
        for part, label in ((one.trust.predicted, "test fields"), (one.far, "channels")):
            axis.hist(part, bins, alpha=0.6, label=label)
        axis.set(xscale="log", ylabel="fields", title=one.record["title"])
    axes[0].legend()
    axes[-1].set(xlabel="standard deviation due to the weights, root mean square over the edges")
    return figure


def _figures(judged: Sequence[Judgement]) -> list[tuple[str, Figure, str]]:
    """Name, figure and caption."""
    calibrated = {one.record["title"]: one.trust.recalibrated for one in judged}
    reliability = calibration_figure({title: found for title, found in calibrated.items() if found is not None})
    return [
        ("reliability", reliability, "Nominal and actual coverage on test data, recalibrated."),
        *(
            (
                f"deviation-{one.record['contender']}",
                deviation_figure(one.trust),
                f"{one.record['title']}: error against standard deviation.",
            )
            for one in judged
            if one.far.any()
        ),
        ("channels", far_figure(judged), "Deviations on test fields and on channels, which no contender has seen."),
    ]


def _lead(found: Sequence[Record]) -> list[str]:
    ours = found[0]
    text = [
        f"Several ways to get error bars, for the same network ({ours['parameters']:,} parameters), the same data "
        f"({FIELD.title}) and the same amount of training, {ours['epochs']} epochs in total: posterior samples of one "
        "PSGLD-SA run that is pruned to 70 % zeros; one network trained by Adam, with one error bar for all "
        f"velocities; {MEMBERS} networks trained by Adam with a part of the epochs each; and one network trained by "
        "Adam with much or little dropout, which stays on for the forecasts.",
        "All of them leave out the same tenth of the training data. It gives the noise level of Adam's networks (the "
        "sampler learns its own from the data it trains on) and the factors of the recalibration. The numbers shown "
        f"come from {ours['tests']} test fields, which play no part in training, noise or factors. The velocities of a "
        "field depend on each other, so they count for far fewer independent ones. Each contender was trained once.",
        f"Forecasts far from the training data are judged on {FAR_FIELDS} channelised fields of the built-in "
        f"generator, with permeabilities {FAR[0]:g} and {FAR[1]:g}.",
    ]
    if any(r["contender"] == REFERENCE for r in found):
        text.append(f"The {MEMBERS} full runs cost {MEMBERS} times as much: they are a reference, not a rival.")
    return text
