"""Table, claims, figures and page of the study of error bars."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sparse_langevin.posterior.calibration import LEVELS
from sparse_langevin.posterior.figures import calibration_figure
from sparse_langevin.reports.page import Picture, Section, Table, TableCell, number, png, render
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.studies.darcy_study import FIGURES, TABLE
from sparse_langevin.studies.darcy_uncertainty import FAR, FAR_FIELDS, FIELD, MEMBERS, Judgement
from sparse_langevin.surrogates.figures import deviation_figure

OURS, RIVALS, REFERENCE = "psgld-sa", ("single", "ensemble", "dropout", "light-dropout"), "full-ensemble"
COVERED = 0.88, 0.92  # by intervals of 90 %
RANK, FACTOR = 0.5, 2.0
Record = dict[str, Any]


def write_report(judged: Sequence[Judgement], folder: Path, command: str) -> Path:
    """Write ``table.json``, the figures and ``report.html``; return the page."""
    found = [one.record for one in judged]
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    write_atomically(folder / TABLE, (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
    pictures = {}
    for name, figure, caption in _figures(judged):
        pictures[name] = Picture(png(figure), caption)
        write_atomically(folder / FIGURES / f"{name}.png", pictures[name].png)
    sections = [
        Section("What was compared", _lead(found), [main_table(found)]),
        Section("Is it so?", (), [claims_table(found)]),
        Section("Error bars", (), [bars_table(found)], [pictures["reliability"]]),
        Section("Which forecasts are doubtful", (), (), [p for name, p in pictures.items() if name != "reliability"]),
    ]
    versions = ", ".join(f"{k} {v}" for k, v in found[0]["versions"].items())
    page = folder / "report.html"
    title = "Can the surrogate's error bars be believed?"
    write_atomically(page, render(title, f"Made by: {command}", sections, footer=versions).encode())
    return page


def main_table(found: Sequence[Record]) -> Table:
    """What each contender costs, how accurate it is, and whether it knows when it is not."""
    columns = (
        "",
        "epochs",
        "CPU min",
        "e1 %",
        "e1 % last sample",
        "rank",
        "far",
        "with noise",
        "AUROC",
        "e1 % far",
        "90 % cover",
    )
    rows = [
        (
            r["title"],
            str(r["epochs"]),
            number(r["cpu_seconds"] / 60, 1),
            number(r["e1"]),
            number(r["e1_last"]),
            number(r["rank_correlation"], 2),
            number(r["far_ratio"], 2),
            number(r["far_ratio_total"], 2),
            number(r["far_auroc"], 3),
            number(r["far_e1"], 1),
            f"{r['far_recalibrated']['coverage']['0.9']:.1%}",
        )
        for r in found
    ]
    caption = (
        "Epochs and CPU minutes of all training runs together; e1 of the forecast on test data. Rank correlation of "
        "the deviation due to the weights and the error over the test fields. Far: median of that deviation on "
        "channels as a multiple of that on test fields, the same of the whole recalibrated error bar, how well the "
        "deviation due to the weights tells the two apart (1: always, 1/2: not at all), error, and share of the "
        "velocities there that lie in recalibrated intervals of 90 %."
    )
    return Table(columns, rows, caption)


def bars_table(found: Sequence[Record]) -> Table:
    """Coverage of intervals and scores, as they are and recalibrated."""
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
        "Share of the test velocities that lie in intervals of 50 to 95 %, mean width of those of 90 %, scores (less "
        "is better). Recalibrated: with factors on the deviations of weights and noise, found on validation data."
    )
    return Table(columns, rows, caption)


def claims_table(found: Sequence[Record]) -> Table:
    """What was hoped of the posterior's error bars, judged from the records."""
    by_name = {r["contender"]: r for r in found}
    ours = by_name[OURS]
    good, (low, high) = ours["recalibrated"], COVERED
    covered = good["coverage"]["0.9"]
    claims = [
        (
            "error of the mean below that of the last sample",
            f"{ours['e1']:.3f} %",
            f"below {ours['e1_last']:.3f} %",
            ours["e1"] < ours["e1_last"],
        ),
        (
            "intervals of 90 % cover what they promise, recalibrated",
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
        ("deviation on channels, by that on test fields", f"{ratio:.2f}", f"at least {FACTOR}", ratio >= FACTOR),
    ]
    verdicts = {True: TableCell("yes", "good"), False: TableCell("no", "bad")}
    rows = [(text, left, right, verdicts[holds]) for text, left, right, holds in claims]
    return Table(
        (f"claim about {ours['title']}", "found", "wanted", "holds"),
        rows,
        "Deviations are those due to the weights.",
        prose=True,
    )


def far_figure(judged: Sequence[Judgement]) -> Figure:
    """Histograms of the deviation on test fields and on channels, one plot a contender."""
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
        ("reliability", reliability, "Promised and kept coverage on test data, recalibrated."),
        *(
            (
                f"deviation-{one.record['contender']}",
                deviation_figure(one.trust),
                f"{one.record['title']}: error against standard deviation.",
            )
            for one in judged
            if one.far.any()
        ),
        ("channels", far_figure(judged), "Deviation on test fields, and on channels, which no contender has seen."),
    ]


def _lead(found: Sequence[Record]) -> list[str]:
    ours = found[0]
    text = [
        f"Ways to error bars on the same network ({ours['parameters']:,} parameters) and the same data "
        f"({FIELD.title}), for the same training, {ours['epochs']} epochs in total: posterior samples of one PSGLD-SA "
        "run that is pruned to 70 % zeros; one network trained by Adam, with one error bar for all velocities; "
        f"{MEMBERS} networks trained by Adam, with a part of the epochs each; one network trained by Adam with "
        "dropout, much or little, which stays on when it forecasts.",
        "A tenth of the training data is set apart for all of them. It gives the noise level of Adam's networks "
        "(the sampler learns its own from the data it trains on) and the factors of the recalibration. The numbers "
        f"shown are those of {ours['tests']} test fields, of which no number enters training, noise or factors. The "
        "velocities of a field depend on each other, so they count for far fewer independent ones; each contender was "
        "trained once.",
        f"How the forecasts do far from the training data is seen on {FAR_FIELDS} fields of channels by the built-in "
        f"generator, with permeability {FAR[0]:g} and {FAR[1]:g}.",
    ]
    if any(r["contender"] == REFERENCE for r in found):
        text.append(f"The {MEMBERS} full runs cost {MEMBERS} times as much: a reference, not a rival.")
    return text
