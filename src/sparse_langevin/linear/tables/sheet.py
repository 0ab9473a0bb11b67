"""A table as text: the file is decoded, its delimiter found, and its rows are brought to the same length."""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sparse_langevin.linear.tables.cells import is_number
from sparse_langevin.linear.tables.findings import Findings, count, listed, places
from sparse_langevin.storage.files import require_regular

DELIMITERS = ",;\t"
TRIED = 100  # rows from which the delimiter is found
OTHER_FORMATS = {  # the first bytes of files that people take for tables
    b"PK\x03\x04": "a workbook or another packed file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a compressed file",
    b"%PDF": "a PDF",
}


@dataclass(frozen=True)
class Sheet:
    """A table of texts."""

    names: list[str]
    columns: list[list[str]]
    lines: list[int]
    """For each row, the line of the file on which it ends."""


def read_sheet(path: Path, findings: Findings) -> Sheet:
    """Read a CSV or TSV file with a header. What stands in the way is a problem; rows of other lengths are left out."""
    require_regular(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {path}") from error
    text = _decoded(data, path, findings)
    try:
        rows = list(_rows(text, _delimiter(text)))
    except csv.Error as error:
        raise ValueError(f"{path} is not a table: {error}") from error
    if len(rows) < 3:
        raise ValueError(f"{path} needs a header and at least two rows, got {count(len(rows), 'line')}")
    header, body = rows[0][1], rows[1:]
    if body and all(len(row) == len(header) + 1 for _, row in body):
        header = ["", *header]  # as R writes the names of rows
    names = _names(header, findings)
    whole = [(line, row) for line, row in body if len(row) == len(names)]
    if len(whole) < len(body):
        wrong = [i for i, (_, row) in enumerate(body) if len(row) != len(names)]
        sizes = listed(sorted({len(body[i][1]) for i in wrong}), 3)
        where = places(wrong, [line for line, _ in body])
        findings.problem(
            f"the header has {count(len(names), 'field')}, but {where} {'has' if len(wrong) == 1 else 'have'} {sizes}: "
            "a text with the delimiter in it must stand between double quotes"
        )
    columns = [[row[j].strip() for _, row in whole] for j in range(len(names))]
    return Sheet(names, columns, [line for line, _ in whole])


def _decoded(data: bytes, path: Path, findings: Findings) -> str:
    """Return the text of a file in UTF-8, UTF-16 with a byte order mark, or Windows-1252."""
    for start, what in OTHER_FORMATS.items():
        if data.startswith(start):
            raise ValueError(f"{path} is {what}, not a text file: save the table as CSV")
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not wide and b"\0" in data:
        raise ValueError(
            f"{path} is not a text file in UTF-8, UTF-16 with a byte order mark, or Windows-1252, as it has zero "
            "bytes: save the table as CSV in UTF-8"
        )
    for encoding in ("utf-16",) if wide else ("utf-8-sig", "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "cp1252":
            findings.remark("The file is not in UTF-8, and was read as Windows-1252: see whether all names look right.")
        return text
    raise ValueError(f"{path} is not a text file in UTF-8, UTF-16 or Windows-1252: save the table as CSV in UTF-8")


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not empty with their lines; Excel's first line ``sep=;`` is none."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    for row in reader:
        if any(row) and not (reader.line_num == 1 and row[0].lower().startswith("sep=")):
            yield reader.line_num, row


def _delimiter(text: str) -> str:
    """Return the delimiter with which most rows are as long as the header; of several, that of the longest header."""

    def fit(delimiter: str) -> tuple[float, int]:
        try:
            found = [len(row) for _, row in islice(_rows(text, delimiter), TRIED)]
        except csv.Error:
            return 0.0, 0
        if not found or found[0] < 2:
            return 0.0, 0
        return sum(n in (found[0], found[0] + 1) for n in found) / len(found), found[0]

    return max(DELIMITERS, key=fit)


def _names(header: list[str], findings: Findings) -> list[str]:
    """Return the names of the columns, each of which must be unique."""
    given = [name.strip() for name in header]
    if all(is_number(name) for name in given):
        findings.problem(
            f"the first line holds numbers only ({listed(given, 3)}), but names of columns are expected there: add a "
            "header"
        )
    twice = [name for name in dict.fromkeys(given) if name and given.count(name) > 1]
    for name in twice:
        where = listed([j for j, other in enumerate(given, start=1) if other == name])
        findings.problem(f"there are two columns named {name!r}, or more (columns {where}): rename all but one")
    names: list[str] = []
    for j, name in enumerate(given, start=1):
        unique = name or f"column {j}"
        while unique in names or (not name and unique in given):
            unique += " again"
        names.append(unique)
    return names
