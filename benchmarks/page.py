"""The page docs/performance.md, from the records alone."""

import os
import platform
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from benchmarks.interleaved import Record

TITLES = {
    "update": "The update",
    "training": "A training step of the paper's network",
    "linear": "Linear models",
    "darcy": "Darcy flow",
    "deploy": "Sparse deployment",
}
FIGURES = {"update": "bench-update.png", "linear": "bench-linear.png", "darcy": "bench-darcy.png"}
NOTES = {
    "training": "Memory that glibc gives back after each step has to be taken anew, page by page. The library makes it "
    "keep its memory when a run begins, which helps everybody in the process; `SPARSE_LANGEVIN_KEEP_MEMORY=0` "
    "prevents that.",
    "linear": "In the races, what counts is 400 * seconds / (effective draws) of a run on one core after warm-up and "
    "compilation; in those of chains over models, seconds of the processor. Inclusion: of predictors with a "
    "probability P between 0.05 and 0.95, and at least the ten that are nearest to 0.5, the worst one and the mean of "
    "all costs, where effective draws are P (1 - P) / (Monte Carlo error of P)^2. Predictions: of 12 rows. The Gibbs "
    "sampler has the posterior of ours and shares its formulas; it visits one predictor after the other. "
    "millipede has another posterior: the expected number of effects and their size are fixed (S = 5, tau = 0.01, its "
    "defaults; with p = 4000 a tenth of the predictors is in view), and it has uncertain predictors of its own. Its "
    "draws of coefficients have another covariance than its posterior: its predictions of spectra vary more than ten "
    "times as much as ours, and their costs cannot be compared. Where the spike has a width, the Gibbs samplers have "
    "the prior of PSGLD-SA, in which the noise level and the share of effects are point estimates; in theirs they are "
    "sampled. NUTS has a continuous prior, as it must, and runs once, after the others. Memory is the peak of resident "
    "memory during a fit minus what was in use before it.",
    "deploy": "The paper's network, pruned to 70 % in its sparse layers, which hold 74 % of its weights. Without "
    "rounding no file can be much below 41 %: 24 bits of sign and mantissa for each nonzero are 36 %, their exponents "
    "and places the rest. ONNX Runtime multiplies by zeros, too.",
}
WIDE = "linear: a spike with a width, seconds to 400 effective draws of both effects, n=100, p=200"
HEADLINES = (  # name of a record, what it says
    (
        "update: update alone, 8,252,320 parameters: PSGLD-SA, native engine",
        "The whole PSGLD-SA update of 8.25 million weights, noise and latent variables included, takes {value} {unit}: "
        "{ratio} times a fused Adam update.",
    ),
    (
        "training: encoder-decoder, 50x50 cells, batch 64, glibc as it is: psgld_sa",
        "A PSGLD-SA training step of the paper's network costs {ratio} times its own gradient.",
    ),
    (
        "training: encoder-decoder, 50x50 cells, batch 64, glibc keeping its memory: psgld_sa",
        "Where the allocator keeps its memory, which makes the gradient cheaper, it costs {ratio} times its gradient.",
    ),
    (
        "update: one sampler step, 12,480 parameters, batch 64: posteriors SGLD",
        "On a small network an SGLD step of posteriors takes {ratio} times as long as ours.",
    ),
    (
        "update: one sampler step, 12,480 parameters, batch 64: blackjax SGLD",
        "There an SGLD step of blackjax, compiled together with its gradient, takes {ratio} times as long as ours.",
    ),
    (
        "linear: default fit: n=100, p=200",
        "A default fit of 200 predictors to 100 observations takes {value} {unit}, on all cores.",
    ),
    (
        "linear: default fit: n=100, p=100,000",
        "One of 100,000 predictors takes {value} {unit}.",
    ),
    (
        "linear: default fit of two classes: n=100, p=6,000",
        "One of two classes and 6,000 predictors takes {value} {unit}.",
    ),
    (
        "linear: memory of a default fit beyond the interpreter's: csr, 500 x 20,000, 1% not zero",
        "A fit of a sparse matrix of 20,000 predictors takes memory of {value} {unit} beside it.",
    ),
    *(
        (
            f"linear: seconds to 400 effective draws, {data}: worst inclusion, {peer}",
            f"{name} needs {{ratio}} times our time to 400 effective draws of the most uncertain inclusion, {data}.",
        )
        for data in ("correlated predictors, n=100, p=1,000", "spectra, n=100, p=1,000")
        for peer, name in (
            ("Gibbs, one predictor after the other, compiled", "A compiled Gibbs sampler of the same posterior"),
            ("millipede", "millipede, with its own prior,"),
        )
    ),
    (
        f"{WIDE}: NumPyro NUTS, regularised horseshoe",
        "NUTS on a regularised horseshoe, a continuous prior, needs {ratio} times the time of PSGLD-SA, the paper's "
        "method, to 400 effective draws of two effects.",
    ),
    (
        f"{WIDE}: Gibbs, spike in closed form, compiled",
        "A compiled Gibbs sampler of the paper's prior needs {ratio} times the time of PSGLD-SA for the same: below 1, "
        "it is the better sampler of a linear model of this size.",
    ),
    (
        "deploy: bytes, encoder-decoder, 50x50 cells, 70% zeros: ours, packed",
        "The paper's network with 70 % zeros takes {value} {unit} on disk, {ratio} of its dense size, unrounded.",
    ),
    (
        "deploy: layer 800 to 5100, 70% zeros, batch 1, threads 1: sparse-langevin",
        "Its largest layer maps one sample in {ratio} of the time of the dense product on one core.",
    ),
    (
        "deploy: layer 800 to 5100, 70% zeros, batch 64, threads 1: sparse-langevin",
        "At batch 64 it takes {ratio} of that time.",
    ),
    (
        "darcy: one field, 50x50 cells: sparse-langevin",
        "A Darcy problem of 50x50 cells is solved in {value} {unit}, {ratio} times the time of scikit-fem.",
    ),
)


def render(rows: list[Record], cpu: str | None = None) -> str:
    """The page as Markdown."""
    lines = ["# Performance", "", *headlines(rows), "", machine(cpu), ""]
    for part, group in groupby(rows, key=lambda row: split(row)[0]):
        lines += [f"## {TITLES[part]}", "", f"    python -m benchmarks --only {part}", ""]
        lines += [NOTES[part], ""] if part in NOTES else []
        lines += tables(group)
        if part in FIGURES:
            lines += [f"![{TITLES[part]}](images/{FIGURES[part]})", ""]
    return "\n".join(lines).rstrip() + "\n"


def headlines(rows: list[Record]) -> list[str]:
    """The statements whose records are there, with the peer that they name."""
    by_name = {row["name"]: row for row in rows}
    return [
        "- " + text.format(value=number(row["value"]), unit=row["unit"], ratio=number(row["ratio"]))
        for name, text in HEADLINES
        if (row := by_name.get(name)) and split(row)[2] != row["versus"]
    ]


def tables(rows: Iterable[Record]) -> list[str]:
    """One table per group of contenders."""
    lines = []
    for group, members in groupby(rows, key=lambda row: split(row)[1]):
        lines += [f"**{group[:1].upper()}{group[1:]}**", ""]
        lines += ["| | value | | ratio | spread | to |", "|---|---:|---|---:|---:|---|"]
        for row in members:
            cells = (split(row)[2], number(row["value"]), row["unit"], *ratio(row), row["versus"])
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        lines.append("")
    return lines


def machine(cpu: str | None = None) -> str:
    """What the numbers were measured on, and how."""
    return (
        f"Measured on {cpu or processor()} with {os.cpu_count()} cores, {torch.get_num_threads()} of them used by "
        f"torch {torch.__version__}, and numpy {np.__version__}. Contenders take turns in one run; values are medians, "
        "ratios are medians of the turn-by-turn ratio to the contender named last, and spreads are interquartile "
        "ranges of that ratio (of the value over its median where there is nobody to compare with); "
        "a spread of 0 beside a ratio other than 1 means a single turn. "
        "`make bench` measures everything again and rewrites this page."
    )


def processor() -> str:
    """The model of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def split(row: Record) -> tuple[str, str, str]:
    """Part, group and contender in the name of a record; three empty strings if it has another form."""
    pieces = str(row["name"]).split(": ", 2)
    return (pieces[0], pieces[1], pieces[2]) if len(pieces) == 3 and pieces[0] in TITLES else ("", "", "")


def number(value: object) -> str:
    """Three digits that count."""
    x = float(str(value))
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def ratio(row: Record) -> tuple[str, str]:
    """Ratio and spread; without a peer there is no ratio."""
    return (number(row["ratio"]) if row["versus"] else ""), number(row["spread"])
