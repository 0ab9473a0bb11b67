"""What is found while a table is read: problems, which are raised all at once, and remarks for the report."""

import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence

LISTED = 20  # problems that are told one by one


class Findings:
    """Problems and remarks about a table, in the order in which they were found."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self._doubtful: dict[str, None] = {}

    def problem(self, text: str, column: str | None = None) -> None:
        """Note a problem; with ``column``, leaving that column out would be a way round it."""
        self.problems.append(text + (f", or leave the column out: {option('ignore', column)}" if column else ""))
        if column is not None:
            self._doubtful[column] = None

    def remark(self, text: str) -> None:
        """Note what a user should know, though nothing is wrong."""
        self.remarks.append(text)

    def raise_problems(self, source: object) -> None:
        """Raise one error with all problems; if there are several, each is a note of the error."""
        count = len(self.problems)
        if not count:
            return
        if count == 1:
            raise ValueError(f"{source}: {self.problems[0]}")
        error = ValueError(f"{source} has {count} problems")
        for number, text in enumerate(self.problems[:LISTED], start=1):
            error.add_note(f"({number}) {text}")
        if count > LISTED:
            error.add_note(f"and {count - LISTED} more")
        if len(self._doubtful) > 1:
            error.add_note(f"To leave out all columns with problems: {option('ignore', *self._doubtful)}")
        raise error


def option(name: str, *values: str) -> str:
    """Return an option of the command with its values, to be pasted into a shell."""
    return " ".join(f"--{name} {shlex.quote(value)}" for value in values)


def listed(names: Iterable[object], most: int = 12) -> str:
    """Return names with commas, the first ones if there are many."""
    every = [str(name) for name in names]
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def places(rows: Sequence[int], lines: Sequence[int]) -> str:
    """Return where some rows stand in the file."""
    word = "line" if len(rows) == 1 else "lines"
    return f"{word} {listed([lines[row] for row in rows], 3)}"


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def with_unit(name: str, unit: str) -> str:
    """Return a name with its unit, unless it is written there already, as in ``mass [kg]``."""
    return f"{name} ({unit})" if unit and unit not in re.findall(r"[^\s()\[\],;]+", name) else name


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes: Chinese characters, for example, take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def shortened(text: str, most: int = 60) -> str:
    """Return a text no wider than that: its beginning and its end, so that names with the same beginning differ."""
    if width(text) <= most:
        return text
    begin, end = "", ""
    for sign in text:
        if width(begin + sign) > most - 1 - most // 4:
            break
        begin += sign
    for sign in reversed(text):
        if width(begin + "…" + sign + end) > most:
            break
        end = sign + end
    return f"{begin}…{end}"
