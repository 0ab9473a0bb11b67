"""Numbers as people and their programs write them: decimal commas, thousands separators, units, limits of detection.

Whether ``1,234`` is a little more than one or more than a thousand cannot be seen. It is read as the other cells of its
column are written, or else as those of the other columns; if they do not tell, the user is asked.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

MISSING = {
    "",
    "na",
    "n/a",
    "n.a.",
    "nan",
    "null",
    "nil",
    "?",
    "-",
    "--",
    ".",
    "#n/a",
    "#na",
    "#nv",
    "<na>",
    "\u2013",
    "\u2014",
}
SPACES = " \u00a0\u202f\u2009'\u2019"  # between thousands
MINUS = str.maketrans({"\u2212": "-", "\u2013": "-"})
SWAP = str.maketrans(",.", ".,")
POINT = re.compile(
    rf"(?=[+-]?\.?\d)[+-]?(?:[1-9]\d{{0,2}}([,{SPACES}])\d{{3}}(?:\1\d{{3}})*|\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII
)
AMBIGUOUS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
CENSORED = re.compile(r"([<>\u2264\u2265])=?\s*(\S.*)")
SIGNS = "%\u2030\u00b0\u00b5\u03bc\u03a9\u2126$\u20ac\u00a3\u00a5"  # with which a unit may begin, beside letters
BLANKS = r"[\s\u00a0\u202f\u2009]*"  # between a number and its unit
DIGITS = rf"[+\-\u2212\u2013]?[\d.,](?:[\d.,{SPACES}]*[\d.,])?"
UNIT = re.compile(
    rf"([$\u20ac\u00a3\u00a5]?){BLANKS}({DIGITS}){BLANKS}([{SIGNS}A-Za-z][^\s\d]?[^\s]{{0,10}})?", re.ASCII
)
PLAIN = "0123456789+-.eE"  # a column of nothing else is read at once
UNIFORM = 0.8  # share of the cells that have a unit, from which on those without it are taken for mistakes
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """What the cells of a column are as numbers."""

    values: Values
    """Not a number where a cell is missing or none."""
    odd: list[int] = field(default_factory=list)
    """Rows whose cells are neither missing nor numbers."""
    unit: str = ""
    """What stands behind or before all numbers."""

    @property
    def share(self) -> float:
        """Share of numbers among the cells that are not missing."""
        numbers = int(np.isfinite(self.values).sum())
        return numbers / max(numbers + len(self.odd), 1)


def is_missing(text: str, also: Iterable[str] = ()) -> bool:
    """Whether a cell says that there is no value."""
    return text.lower() in MISSING or text in also


def is_number(text: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma."""
    return number(text, "point") is not None or number(text, "comma") is not None


def number(text: str, decimal: str) -> float | None:
    """Return the number that a cell holds; None if it holds none."""
    plain = text.translate(MINUS)
    plain = plain.translate(SWAP) if decimal == "comma" else plain
    if POINT.fullmatch(plain) is None:
        return None
    value = float(re.sub(rf"[,{SPACES}]", "", plain))
    return value if np.isfinite(value) else None


def decimal_sign(cells: Sequence[str]) -> tuple[int | None, int | None]:
    """Return the first row that can only have a decimal point, and the first that can only have a decimal comma."""
    point = comma = None
    commas = any("," in cell for cell in cells)
    for row, cell in enumerate(cells):
        if point is not None and (comma is not None or not commas):
            break
        if ("." not in cell and "," not in cell) or is_ambiguous(cell):
            continue
        part = parted(cell)
        read = [part is not None and number(part[2], sign) is not None for sign in ("point", "comma")]
        if read == [True, False] and point is None:
            point = row
        elif read == [False, True] and comma is None:
            comma = row
    return point, comma


def is_ambiguous(cell: str) -> bool:
    """Whether a number may have a thousands separator or a decimal sign."""
    part = parted(cell) if "." in cell or "," in cell else None
    return part is not None and AMBIGUOUS.fullmatch(part[2]) is not None


def parted(cell: str) -> re.Match[str] | None:
    """Return what stands before a number, the number, and its unit; before that there may be the sign of a limit."""
    limit = CENSORED.fullmatch(cell)
    return UNIT.fullmatch(limit[2] if limit else cell)


def read_numbers(cells: Sequence[str], missing: NDArray[np.bool_], decimal: str) -> Reading:
    """Read the cells of a column that are not missing as numbers; a unit that all have is taken off."""
    plain = _read(cells, missing, decimal)
    if not plain.odd:
        return plain
    parts = [None if skip else parted(cell) for cell, skip in zip(cells, missing, strict=True)]
    units = {(part[1], part[3] or "") for part in parts if part}
    if len(units) == 1 and units != {("", "")} and all(p or skip for p, skip in zip(parts, missing, strict=True)):
        bare = [part[2] if part and part[0] == cell else cell for part, cell in zip(parts, cells, strict=True)]
        return replace(_read(bare, missing, decimal), unit="".join(units.pop()))
    return plain


def mixed_units(cells: Sequence[str], missing: NDArray[np.bool_]) -> tuple[str, list[int]]:
    """Return the unit that most cells have, and the rows that have none or another one; no unit if there is no such."""
    units = {}
    for row in np.flatnonzero(~missing).tolist():
        part = parted(cells[row])
        units[row] = (part[3] or part[1]) if part else ""
    named = [unit for unit in units.values() if unit]
    most = max(dict.fromkeys(named), key=named.count, default="")
    if named.count(most) < UNIFORM * len(units):
        return "", []
    return most, [row for row, unit in units.items() if unit != most]


def censored(text: str, decimal: str, unit: str = "") -> tuple[str, float] | None:
    """Return sign and limit of a cell such as ``<0.5``, with the unit of its column; None for others."""
    found, part = CENSORED.fullmatch(text), parted(text)
    value = number(part[2], decimal) if part and part[1] + (part[3] or "") == unit else None
    return None if found is None or value is None else ("<" if found[1] in "<\u2264" else ">", value)


def _read(cells: Sequence[str], missing: NDArray[np.bool_], decimal: str) -> Reading:
    if decimal == "point" and not missing.any() and not "".join(cells).strip(PLAIN):
        with suppress(ValueError, OverflowError):
            quick = np.array(cells, dtype=float)
            if np.isfinite(quick).all():
                return Reading(quick)
    values, odd = np.full(len(cells), np.nan), []
    for row in np.flatnonzero(~missing).tolist():
        if (value := number(cells[row], decimal)) is None:
            odd.append(row)
        else:
            values[row] = value
    return Reading(values, odd)
