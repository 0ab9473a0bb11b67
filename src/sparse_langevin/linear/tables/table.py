"""A table as it is used: columns to explain with and a target, with remarks; all problems are raised at once."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.tables.cells import Values, decimal_sign, is_missing
from sparse_langevin.linear.tables.findings import Findings, count, listed, option, places
from sparse_langevin.linear.tables.kinds import Column, Options, Reader, are_dates
from sparse_langevin.linear.tables.oddities import remark_on_oddities, remark_on_spellings
from sparse_langevin.linear.tables.sheet import Sheet, read_sheet

CLASSES = 50  # of the target at most: the time grows with their number


@dataclass(frozen=True)
class Target:
    """The column to explain."""

    name: str
    texts: NDArray[np.str_]
    """Its cells."""
    numbers: Values | None
    """The same as numbers, if they all are."""
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table without the rows that have no target."""

    source: str
    target: Target
    columns: list[Column]
    remarks: list[str]
    lines: Sequence[int] = ()
    """For each row, the line of the file on which it ends."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.target.texts)

    def kept(self, rows: NDArray[np.bool_]) -> "Table":
        """Return some of the rows."""
        target, numbers = self.target, self.target.numbers
        target = replace(target, texts=target.texts[rows], numbers=None if numbers is None else numbers[rows])
        lines = [line for line, stays in zip(self.lines, rows, strict=False) if stays]
        columns = [replace(column, values=column.values[rows]) for column in self.columns]
        return replace(self, target=target, columns=columns, lines=lines)


def read_table(path: Path, target: str, options: Options = Options()) -> Table:  # noqa: B008 - it is frozen
    """Read a CSV or TSV file with a header."""
    findings = Findings()
    sheet = read_sheet(path, findings)
    if target not in sheet.names:
        findings.problem(_no_column(target, sheet.names))
    for given in (options.ignore, options.keep, options.category):
        for name in dict.fromkeys(given):
            if name not in sheet.names:
                findings.problem(_no_column(name, sheet.names))
    if target in sheet.names:
        sheet = _with_target(sheet, target, options, findings)
    if target in sheet.names and not sheet.lines:
        findings.problem(f"no row has a value of the target {target!r}")
        findings.raise_problems(path)
    reader = Reader(options, findings, sheet.lines, _signs(sheet))
    found = _target(reader, target, sheet.columns[sheet.names.index(target)]) if target in sheet.names else None
    columns = []
    for name, cells in zip(sheet.names, sheet.columns, strict=True):
        if name != target and name not in options.ignore and (column := reader.predictor(name, cells)) is not None:
            columns.append(column)
    if not columns and not findings.problems:
        kept = " ".join(["", *findings.remarks])
        findings.problem(f"no column is left besides the target {target!r}.{kept}")
    findings.raise_problems(path)
    assert found is not None
    remark_on_oddities(columns, found.name, found.numbers, sheet.lines, findings)
    for name, levels in [*((c.name, c.levels) for c in columns), (target, np.unique(found.texts).tolist())]:
        remark_on_spellings(name, levels, findings)
    return Table(path.name, found, columns, findings.remarks, sheet.lines)


def _no_column(name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, names, 1, 0.75)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    only = "; the fields of a line have to be separated by commas, semicolons or tabs" if len(names) < 2 else ""
    return f"there is no column {name!r}{meant}; its columns are {listed(names)}{only}"


def _with_target(sheet: Sheet, target: str, options: Options, findings: Findings) -> Sheet:
    """Leave out the rows that have no target."""
    cells = sheet.columns[sheet.names.index(target)]
    rows = [i for i, cell in enumerate(cells) if not is_missing(cell, options.na)]
    if len(rows) == len(cells):
        return sheet
    gone = sorted(set(range(len(cells))) - set(rows))
    verb = "has no value of the target and was" if len(gone) == 1 else "have no value of the target and were"
    findings.remark(f"{count(len(gone), 'row')} ({places(gone, sheet.lines)}) {verb} left out.")
    columns = [[column[i] for i in rows] for column in sheet.columns]
    return Sheet(sheet.names, columns, [sheet.lines[i] for i in rows])


def _signs(sheet: Sheet) -> set[str]:
    """Return the decimal signs that occur without doubt."""
    found = [decimal_sign(cells) for cells in sheet.columns]
    return {sign for signs in found for row, sign in zip(signs, ("point", "comma"), strict=True) if row is not None}


def _target(reader: Reader, name: str, cells: list[str]) -> Target | None:
    """Read the column to explain: as numbers if they all are, and as classes."""
    findings, texts = reader.findings, np.array(cells)
    if len(set(cells)) < 2:
        return _not(
            findings, f"the target {name!r} has the same value, {cells[0]!r}, everywhere: nothing is to explain"
        )
    if are_dates(name, cells):
        return _not(findings, f"the target {name!r} holds dates ({cells[0]!r}): give a number, such as days, instead")
    before = len(findings.problems)
    reading = reader.numbers(name, cells, np.zeros(len(cells), dtype=bool))
    if reading is None or len(findings.problems) > before:
        findings.problems[before:] = [text.split(", or leave the column out")[0] for text in findings.problems[before:]]
        return None
    if not reading.odd:
        missing = np.isnan(reading.values)  # cells such as <0.5 that are to be taken for missing
        if missing.any():
            return _not(
                findings,
                f"the target {name!r} has values beyond a limit of detection: it takes --censored limit or half",
            )
        return Target(name, texts, reading.values, reading.unit)
    if reading.share >= 0.5:
        odd = cells[reading.odd[0]]
        return _not(
            findings,
            f"the target {name!r} holds numbers, but {odd!r} in {places(reading.odd, reader.lines)} is no number: "
            f"correct it, or take it for missing with {option('na', odd)}, which leaves out the row",
        )
    if (different := len(set(cells))) > CLASSES:
        return _not(
            findings,
            f"the target {name!r} has {different} different values that are not all numbers, and at most {CLASSES} "
            "classes are fitted: choose another target, join classes, or write numbers as numbers",
        )
    if different > max(2, len(cells) / 2):
        return _not(
            findings,
            f"the target {name!r} holds {different} different texts in {count(len(cells), 'row')} "
            f"({listed(cells, 3)}), too many to be classes: choose another target, join classes, or write numbers as "
            "numbers",
        )
    return Target(name, texts, None)


def _not(findings: Findings, why: str) -> Target | None:
    findings.problem(why)
    return None
