"""The paper's claims about its algorithms, and further hopes, judged from the records of a surrogate study."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparse_langevin.reports.page import Table, TableCell
from sparse_langevin.studies.darcy_algorithms import VARIANTS, Algorithm, Errors, algorithms, errors, mean
from sparse_langevin.studies.darcy_cells import FIELDS, PAPER, SPARSITIES, Record, Study

Records = Sequence[Record]
Claim = tuple[str, Errors, Errors, float]
"""Its text, the errors of its two sides, and the largest ratio of the first to the second at which it holds."""
YES, NO, OPEN = TableCell("yes", "good"), TableCell("no", "bad"), TableCell("open", "quiet")
# How much the ratio of two runs varies by chance: two standard deviations. That of an error over seeds is 3 % on KLE32.
CHANCE = 0.08


def claims_table(study: Study, found: Records) -> Table:
    """Every claim whose two sides have both been run, field by field."""
    rows: list[list[TableCell | str]] = []
    for field in FIELDS[study]:
        for text, left, right, factor in (*_between(study, found, field.name), *_absolute(study, found, field.name)):
            if judged := _judge(left, right, factor):
                rows.append([field.name, text, *judged])
    names = ("field", "claim", "left %", "right %", "ratio", "of each seed", "at most", "holds")
    return Table(names, rows, "", prose=True)


def _judge(left: Errors, right: Errors, factor: float) -> list[TableCell | str]:
    """Means over the seeds that both sides have, their ratio, its range over the seeds, and the verdict.

    If the ratio is so close to the limit that other seeds might decide otherwise, the verdict says so. A run that has
    diverged has no error: on the left side the claim then fails, on the right side it stays open.
    """
    seeds = sorted(left.keys() & right.keys())
    if not seeds:
        return []
    sides = [{seed: side[seed] for seed in seeds} for side in (left, right)]
    a, b = map(mean, sides)
    texts = ["diverged" if error is None else f"{error:.3f}" for error in (a, b)]
    if a is None or b is None:
        return [*texts, "", "", f"{factor:.2f}", NO if a is None else OPEN]
    ratios = [x / y for x, y in zip(*(side.values() for side in sides), strict=True) if x is not None and y]
    spread = f"{min(ratios):.2f}–{max(ratios):.2f}" if len(ratios) > 1 else ""  # noqa: RUF001
    verdict = YES if a <= factor * b else NO
    if abs(math.log(a / b / factor)) < CHANCE / math.sqrt(len(seeds)):
        verdict = TableCell(f"{verdict.text}, within chance", "quiet")
    return [*texts, f"{a / b:.2f}", spread, f"{factor:.2f}", verdict]


def _between(study: Study, found: Records, field: str) -> Iterator[Claim]:
    """Claims that compare two algorithms."""

    def claim(text: str, left: Algorithm, right: Algorithm, factor: float, measure: str = "e1") -> Claim:
        return text, errors(found, field, left, measure), errors(found, field, right), factor

    for variant in VARIANTS:
        dense, sgld = Algorithm("psgld", variant=variant), Algorithm("sgld", variant=variant)
        for share in SPARSITIES[study]:
            sa, plain = Algorithm("psgld-sa", share, variant), Algorithm("sgld-sa", share, variant)
            yield claim(f"{sa} no worse than {dense}, within 5 %", sa, dense, 1.05)
            yield claim(f"{sa} at most half of {plain}", sa, plain, 0.5)
        yield claim(f"{dense} at most half of {sgld}", dense, sgld, 0.5)
        adam, pruned = (Algorithm("adam", share, "" if variant == "plain" else variant) for share in (0.0, 0.7))
        yield claim(f"{dense} no worse than Adam", dense, adam, 1.0)
        ours = Algorithm("psgld-sa", 0.7, variant)
        for measure, part in (("e1", ""), ("e1_last", ", last sample alone,")):
            yield claim(f"{ours}{part} no worse than Adam with pruning to 70 %", ours, pruned, 1.0, measure)


def _absolute(study: Study, found: Records, field: str) -> Iterator[Claim]:
    """Claims that compare an algorithm with a number."""
    ours = [replace(a, variant=variant) for variant in VARIANTS for a in algorithms(study) if a.method == "psgld-sa"]
    for algorithm in ours:
        paper = PAPER.get((field, algorithm.method, algorithm.sparsity))
        if paper and algorithm.variant != "darcy":  # that network is not the paper's
            mine = errors(found, field, algorithm)
            yield f"{algorithm} below the paper's PSGLD-SA", mine, dict.fromkeys(mine, paper[0]), 1.0
    linear = next((r["first_order_e1"] for r in found if r["field"]["name"] == field and r["e1"]), None)
    for algorithm in ours:
        if algorithm.sparsity == 0.7 and linear is not None:
            mine = errors(found, field, algorithm)
            yield f"{algorithm} below first order", mine, dict.fromkeys(mine, linear), 1.0
