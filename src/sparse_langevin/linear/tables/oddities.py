"""Remarks on values that are allowed, but often wrong: codes for missing values, slips of the decimal sign, copies."""

from collections.abc import Sequence

import numpy as np

from sparse_langevin.linear.tables.cells import Values
from sparse_langevin.linear.tables.findings import Findings, count, listed, option, places
from sparse_langevin.linear.tables.kinds import Column

CODES = (-99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)  # that people write for a missing value
FAR = 30.0  # times the distance of the quartiles from the median
COPY = 0.99999  # correlation with the target
FEWEST = 8  # rows from which on a value can be called an outlier


def remark_on_oddities(
    columns: Sequence[Column], target: str, y: Values | None, lines: Sequence[int], findings: Findings
) -> None:
    """Note what a user should look at."""
    copies = []
    for column in columns:
        if column.levels:
            continue
        _look_at(column.name, column.values, lines, findings)
        if y is not None and len(y) >= FEWEST and _correlation(column.values, y) > COPY:
            copies.append(column.name)
    if y is not None:
        _look_at(target, y, lines, findings)
    if copies:
        findings.remark(
            f"{listed(map(repr, copies))} and the target {target!r} are almost the same: if it was computed from the "
            f"target, leave it out with {option('ignore', *copies)}."
        )
    if len(columns) and len(lines) > len(unique := _different_rows(columns, y)):
        same = len(lines) - len(unique)
        findings.remark(
            f"{count(same, 'row is a copy of another one', 'rows are copies of other ones')}. If that is a mistake, "
            "the results are too sure of themselves."
        )


def remark_on_spellings(name: str, levels: Sequence[str], findings: Findings) -> None:
    """Note categories that would be the same if case and blanks did not count."""
    alike: dict[str, list[str]] = {}
    for level in levels:
        alike.setdefault("".join(level.split()).casefold(), []).append(level)
    if same := [" and ".join(map(repr, texts)) for texts in alike.values() if len(texts) > 1]:
        findings.remark(
            f"{name!r} tells {listed(same, 3)} apart, which differ in upper and lower case or blanks only: if they "
            "mean the same, write them alike."
        )


def _look_at(name: str, values: Values, lines: Sequence[int], findings: Findings) -> None:
    """Note a code for missing values or, else, one value that is far from all others."""
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < FEWEST:
        return
    x = values[known]
    middle = np.median(x)
    spread = np.max(np.abs(np.quantile(x, [0.25, 0.75]) - middle))
    for code in CODES:
        same = x == code
        rest = x[~same]
        if same.any() and len(rest) and abs(code - np.median(rest)) > 3 * max(np.ptp(rest), 1e-300):
            findings.remark(
                f"{name!r} is {code:g} in {count(int(same.sum()), 'row')}, far from all other values. If that stands "
                f"for a missing value, say so: {option('na', f'{code:g}')}."
            )
            return
    values_, counts = np.unique(x, return_counts=True)
    if len(values_) == 2 and counts.min() == 1:
        row = int(known[x == values_[counts.argmin()]][0])
        findings.remark(f"{name!r} differs in one row only ({places([row], lines)}): its effect is that of this row.")
    elif spread > 0 and (far := known[np.abs(x - middle) > FAR * spread]).size and far.size <= max(1, len(x) // 50):
        findings.remark(
            f"{name!r} has a value far from all others, {values[far[0]]:g} in {places(list(far), lines)}, which may "
            "decide the result: make sure that it is right."
        )


def _correlation(x: Values, y: Values) -> float:
    both = np.isfinite(x)
    if both.sum() < FEWEST or np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0:
        return 0.0
    return float(abs(np.corrcoef(x[both], y[both])[0, 1]))


def _different_rows(columns: Sequence[Column], y: Values | None) -> set[bytes]:
    values = np.column_stack([*(column.values for column in columns), *([] if y is None else [y])])
    return {row.tobytes() for row in values}
