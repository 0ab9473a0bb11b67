"""What a column is: numbers, categories, dates, an identifier, or nothing that can be used.

Whatever cannot be used without a guess is a problem that the user has to solve; what is left out for a good reason is
a remark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.tables.cells import (
    Reading,
    Values,
    censored,
    decimal_sign,
    is_ambiguous,
    is_missing,
    mixed_units,
    read_numbers,
)
from sparse_langevin.linear.tables.findings import Findings, count, listed, option, places

MOST_LEVELS = 30  # of a category
MOSTLY_MISSING = 0.5  # share of missing values above which a column is left out
HUGE = 1e100  # numbers above it, or spreads below its inverse, cannot be computed with
ROW_NUMBERS = 10  # rows from which on 1, 2, 3, ... is taken for the number of the row
MONTH = r"(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zä]*"
CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
TIME = rf"(?:[T ]+{CLOCK}(?: ?[ap]m)?(?:Z|[+-]\d\d:?\d\d)?)?"
DATE = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"
    rf"|\d{{1,2}}[-. /]*{MONTH}[-. /]*\d{{2,4}}|{MONTH}[-. /]*(?:\d{{1,2}},? )?\d{{4}})"
    rf"{TIME}|{CLOCK}",
    re.ASCII | re.IGNORECASE,
)
DAY = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])", re.ASCII)
NAME_OF_DATE = re.compile(r"date|datum|day|tag", re.IGNORECASE)
WORDS = "id|ids|nr|no|num|idx|index|uuid|key|sample|subject|patient|participant|barcode|case|row|record|serial"
NAME_OF_IDENTIFIER = re.compile(rf"(?:.*[^a-z])?(?:{WORDS})(?:[^a-z].*)?|.*[a-z]I[Dd]", re.ASCII)


@dataclass(frozen=True)
class Options:
    """How a table is to be read."""

    ignore: Sequence[str] = ()
    keep: Sequence[str] = ()
    """Columns that look like identifiers but are numbers to use."""
    category: Sequence[str] = ()
    """Columns of numbers that are codes of categories."""
    na: Sequence[str] = ()
    """What else stands for a missing value."""
    decimal: str = "auto"
    censored: str = "error"


@dataclass(frozen=True)
class Column:
    """The values of a column: numbers, or indices of levels."""

    name: str
    values: Values
    """Not a number where missing."""
    levels: tuple[str, ...] = ()
    unit: str = ""


@dataclass(frozen=True)
class Reader:
    """What is known about the whole table when a column is read."""

    options: Options
    findings: Findings
    lines: Sequence[int]
    signs: set[str] = field(default_factory=set)
    """The decimal signs that occur in it."""

    def predictor(self, name: str, cells: list[str]) -> Column | None:
        """Return a column to explain with; None if it is left out."""
        missing = self.missing(cells)
        present = [cell for cell, gone in zip(cells, missing, strict=True) if not gone]
        if len(set(present)) < 2:
            same = f"has the same value everywhere, {present[0]!r}," if present else "is empty"
            return self._left_out(name, f"{same} and is left out")
        if missing.mean() > MOSTLY_MISSING and name not in self.options.keep:
            return self._left_out(
                name,
                f"has no value in {missing.mean():.0%} of the rows and is left out; {option('keep', name)} keeps it",
            )
        if name in self.options.category:
            return self._category(name, cells, missing)
        if are_dates(name, present):
            return self._left_out(name, "holds dates and is left out; if time matters, give it as a number of days")
        reading = self.numbers(name, cells, missing)
        if reading is None:
            return None
        if not reading.odd:
            return self._number(name, reading)
        if reading.share >= 0.5:
            return self._odd(name, cells, reading)
        return self._text(name, cells, missing, present)

    def missing(self, cells: list[str]) -> NDArray[np.bool_]:
        """Return which cells are missing."""
        return np.array([is_missing(cell, self.options.na) for cell in cells], dtype=bool)

    def numbers(self, name: str, cells: list[str], missing: NDArray[np.bool_]) -> Reading | None:
        """Read cells as numbers; None, and a problem, if their decimal sign is in doubt or some have no unit."""
        if (sign := self._sign(name, cells)) is None:
            return None
        reading = read_numbers(cells, missing, sign)
        found = {row: censored(cells[row], sign, reading.unit) for row in reading.odd}
        limits = {row: limit for row, limit in found.items() if limit}
        known = int(np.isfinite(reading.values).sum())
        if limits and known and known >= len(found) - len(limits):  # not so of ranges: <30, 30-50, >50
            reading = self._limited(name, cells, reading, limits)
        unit, without = mixed_units(cells, missing) if reading.odd else ("", [])
        if without:
            self.findings.problem(
                f"column {name!r} has the unit {unit!r} in most rows, but not in {places(without, self.lines)} "
                f"({cells[without[0]]!r}): write all values in the same unit",
                name,
            )
            return None
        if (wild := beyond_use(reading.values)) is not None:
            self.findings.problem(
                f"column {name!r} holds {wild:g}, which is too large or too small to compute with: change its unit",
                name,
            )
            return None
        return reading

    def _sign(self, name: str, cells: list[str]) -> str | None:
        """Return "point" or "comma"."""
        if self.options.decimal != "auto":
            return self.options.decimal
        point, comma = decimal_sign(cells)
        if point is not None and comma is not None:
            self.findings.problem(
                f"column {name!r} has decimal points ({cells[point]!r}, {places([point], self.lines)}) and decimal "
                f"commas ({cells[comma]!r}, {places([comma], self.lines)}): write them all in the same way",
                name,
            )
            return None
        if point is not None or comma is not None:
            return "comma" if point is None else "point"
        doubtful = [cell for cell in cells if is_ambiguous(cell)]
        if not doubtful:
            return "point"
        if len(self.signs) == 1:
            sign = next(iter(self.signs))
            if ("," in doubtful[0]) == (sign == "point"):
                self.findings.remark(
                    f"Values of {name!r} such as {doubtful[0]!r} were read with a thousands separator, since other "
                    f"columns have a decimal {sign}; --decimal changes this."
                )
            return sign
        if any("," in cell for cell in doubtful):
            self.findings.problem(
                f"values of {name!r} such as {doubtful[0]!r} have either a decimal comma or a thousands separator: say "
                "which with --decimal comma or --decimal point"
            )
            return None
        return "point"

    def _limited(self, name: str, cells: list[str], reading: Reading, limits: dict[int, tuple[str, float]]) -> Reading:
        """Replace cells such as ``<0.5`` as the user has asked for."""
        choice, rows = self.options.censored, list(limits)
        odd = [row for row in reading.odd if row not in limits]
        if choice == "error":
            self.findings.problem(
                f"column {name!r} holds {count(len(rows), 'value')} beyond a limit of detection ({cells[rows[0]]!r}, "
                f"{places(rows, self.lines)}): --censored limit takes the limit itself, --censored half takes half of "
                "a lower limit, and --censored missing takes them for missing",
                name,
            )
            return replace(reading, odd=odd)
        values = reading.values.copy()
        for row, (sign, limit) in limits.items():
            half = choice == "half" and sign == "<"
            values[row] = np.nan if choice == "missing" else limit / 2 if half else limit
        how = {"half": "half of the lower limits", "limit": "the limits", "missing": "missing values"}[choice]
        self.findings.remark(
            f"{count(len(rows), 'value')} of {name!r} beyond a limit of detection, such as {cells[rows[0]]!r}, were "
            f"read as {how}."
        )
        return replace(reading, values=values, odd=odd)

    def _number(self, name: str, reading: Reading) -> Column | None:
        """Return a column of numbers, unless they only say which row it is."""
        values = reading.values
        known = values[np.isfinite(values)]
        if not len(known) or np.ptp(known) == 0:
            return self._left_out(name, "has the same value everywhere and is left out")
        whole = len(np.unique(known)) == len(values) and bool((known == np.round(known)).all())
        in_order = len(values) >= ROW_NUMBERS and bool((np.diff(values) == 1).all())
        if (
            whole
            and not reading.unit
            and (in_order or NAME_OF_IDENTIFIER.fullmatch(name))
            and name not in self.options.keep
        ):
            why = "numbers the rows" if in_order else "holds another whole number in every row, as an identifier does,"
            return self._left_out(name, f"{why} and is left out; {option('keep', name)} keeps it")
        if reading.unit:
            self.findings.remark(f"The values of {name!r} were read without their unit, {reading.unit!r}.")
        return Column(name, values, (), reading.unit)

    def _odd(self, name: str, cells: list[str], reading: Reading) -> Column | None:
        """Note the cells of a column of numbers that are none."""
        texts = list(dict.fromkeys(cells[row] for row in reading.odd))
        what = listed(map(repr, texts), 3)
        if len(texts) == 1:
            cure = f"write a number, take it for missing with {option('na', *texts)}"
        else:
            cure = "write numbers" + (f", take them for missing with {option('na', *texts)}" if len(texts) <= 3 else "")
        verb = "is no number" if len(reading.odd) == 1 else "are no numbers"
        self.findings.problem(
            f"column {name!r} holds numbers, but {what} in {places(reading.odd, self.lines)} {verb}: {cure}", name
        )
        return None

    def _text(self, name: str, cells: list[str], missing: NDArray[np.bool_], present: list[str]) -> Column | None:
        """Return a column of texts as a category, unless there are too many different ones."""
        different = len(set(present))
        if different == len(present) or (NAME_OF_IDENTIFIER.fullmatch(name) and different > MOST_LEVELS):
            return self._left_out(name, "holds another text in every row, as an identifier does, and is left out")
        if different > len(present) / 2:
            return self._left_out(name, f"holds {different} different texts in {len(present)} rows and is left out")
        return self._category(name, cells, missing)

    def _category(self, name: str, cells: list[str], missing: NDArray[np.bool_]) -> Column | None:
        """Return indices of the levels, which are in order."""
        present = {cell for cell, gone in zip(cells, missing, strict=True) if not gone}
        if len(present) > MOST_LEVELS:
            self.findings.problem(
                f"column {name!r} holds {len(present)} different texts ({listed(sorted(present), 3)}), more than the "
                f"{MOST_LEVELS} categories that can be told apart: join some of them",
                name,
            )
            return None
        levels = tuple(sorted(present, key=_in_order))
        values = [np.nan if gone else levels.index(cell) for cell, gone in zip(cells, missing, strict=True)]
        return Column(name, np.array(values, dtype=float), levels)

    def _left_out(self, name: str, why: str) -> Column | None:
        self.findings.remark(f"Column {name!r} {why}.")
        return None


def beyond_use(values: Values) -> float | None:
    """Return the largest number if its square, or the square of the spread, is beyond double precision."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    largest, spread = known[np.abs(known).argmax()], known.max() / 2 - known.min() / 2
    return float(largest) if abs(largest) > HUGE or 0 < spread < 1 / HUGE else None


def are_dates(name: str, present: Sequence[str]) -> bool:
    """Whether all cells are dates or times of day."""
    pattern = DAY if NAME_OF_DATE.search(name) and DAY.fullmatch(present[0]) else DATE
    return all(pattern.fullmatch(cell) for cell in present)


def _in_order(text: str) -> tuple[float, str]:
    """Sort numbers by size, before texts."""
    try:
        return float(text), text
    except ValueError:
        return np.inf, text
