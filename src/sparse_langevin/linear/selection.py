"""Variable selection in a table, for people who do not use Python: from reading the table to a report."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sparse_langevin.linear.base import check_level
from sparse_langevin.linear.classifier import SparseBayesClassifier
from sparse_langevin.linear.regressor import SparseBayesRegressor
from sparse_langevin.reports.page import Picture, Section, Table, plain, png, render
from sparse_langevin.storage.files import require_regular

MISSING = ("", "NA", "NaN", "nan", "null", "?")
CLASSES = 50  # of the target at most: the time grows with their number
SHOWN = 30  # largest number of columns in the picture


@dataclass(frozen=True)
class Columns:
    """A table of numbers, with one of its columns as the target."""

    source: str
    target: str
    names: list[str]
    x: NDArray[np.float64]
    y: NDArray[np.float64] | NDArray[np.str_]


@dataclass(frozen=True)
class Row:
    """The result for one column: the probability that it matters, its effect, and the interval of the effect."""

    name: str
    probability: float
    effect: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Selection:
    """The chosen columns and all columns, both in order of decreasing probability, with remarks for the report."""

    headline: str
    rows: list[Row]
    all_rows: list[Row]
    remarks: list[str]
    threshold: float
    level: float


def read_table(path: Path, target: str, ignore: Sequence[str] = ()) -> Columns:
    """Read a CSV or TSV file with a header; all columns but the target must be numbers."""
    require_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ValueError(f"there is no file {path}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: {error}") from error
    try:
        lines = [line for line in csv.reader(text.splitlines(), delimiter=_delimiter(text)) if line]
    except csv.Error as error:
        raise ValueError(f"{path} is not a table: {error}") from error
    if len(lines) < 3:
        raise ValueError(f"{path} needs a header and at least two rows, got {len(lines)} lines")
    header = [name.strip() for name in lines[0]]
    for name in (target, *ignore):
        if name not in header:
            raise ValueError(f"{path} has no column {name!r}; its columns are {_listed(header)}")
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path} has two columns named {twice!r}: rename one")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise ValueError(f"line {number} of {path} has {len(line)} fields, but the header has {len(header)}")
    names = [name for name in header if name != target and name not in ignore]
    if not names:
        raise ValueError(f"{path} has no column besides the target {target!r}")
    place = {name: header.index(name) for name in header}
    x = np.array([[_number(line[place[n]], n, i, path) for n in names] for i, line in enumerate(lines[1:], start=2)])
    return Columns(path.name, target, names, x, _target([line[place[target]].strip() for line in lines[1:]], path))


def select_variables(
    data: Columns, *, threshold: float = 0.5, expected_effects: float = 10.0, level: float = 0.95, random_state: int = 0
) -> Selection:
    """Fit the estimator that suits the target, on all cores, and list the columns by inclusion probability."""
    check_level(level)
    numeric = data.y.dtype.kind == "f"
    kind = SparseBayesRegressor if numeric else SparseBayesClassifier
    model = kind(threshold=threshold, expected_effects=expected_effects, n_jobs=-1, random_state=random_state)
    model.fit(data.x, data.y)
    remarks = []
    draws = model.coef_samples_
    if not numeric:
        if len(model.classes_) > 2:
            remarks.append(
                "With more than two classes, a column's effect is the one on the class whose score it changes most."
            )
        largest = np.abs(model.coef_).argmax(0)
        draws = draws[:, largest, np.arange(len(data.names))]
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    effect = draws.mean(0)
    order = np.argsort(-model.inclusion_probability_, kind="stable")
    rows = [
        Row(data.names[j], float(model.inclusion_probability_[j]), float(effect[j]), float(lower[j]), float(upper[j]))
        for j in order
    ]
    chosen = [row for row in rows if row.probability > threshold]
    score = model.score(data.x, data.y)
    quality = f"an R2 of {score:.2f}" if numeric else f"an accuracy of {score:.0%}"
    remarks.append(
        f"The model reaches {quality} on the rows it was fitted to; expect less on new rows. The chains end with R-hat "
        f"{model.rhat_:.3f} and an effective sample size of {model.ess_:.0f}."
    )
    remarks.append(_units(data, numeric))
    headline = f"{len(chosen)} of {len(rows)} columns matter for {data.target} ({len(data.y)} rows of {data.source})"
    return Selection(headline, chosen, rows, remarks, threshold, level)


def selection_table(rows: Sequence[Row], level: float, caption: str) -> Table:
    """Return columns with their probabilities and effects as a table."""
    columns = ("column", "probability", "effect", f"{level:.0%} interval")
    cells = [(r.name, f"{r.probability:.3f}", f"{r.effect:.4g}", f"{r.lower:.4g} to {r.upper:.4g}") for r in rows]
    return Table(columns, cells, caption)


def selection_report(result: Selection) -> str:
    """Return the result as one HTML page with a picture."""
    picture = Picture(png(_figure(result)), "Inclusion probabilities (left), and effects with their intervals (right).")
    chosen = Section("Chosen columns", result.remarks, [selection_table(result.rows, result.level, "")], [picture])
    listed = selection_table(result.all_rows, result.level, "All columns, ordered by inclusion probability.")
    everything = Section("All columns", (), [listed])
    return render("Variable selection", result.headline, [chosen, everything])


def _figure(result: Selection) -> Figure:
    """Draw the probabilities and effects of the most probable columns side by side."""
    rows = result.all_rows[: min(SHOWN, max(len(result.rows) + 5, 8))][::-1]
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(rows))
    colours = ["tab:blue" if row.probability > result.threshold else "lightgrey" for row in rows]
    left.barh(place, [row.probability for row in rows], color=colours)
    left.axvline(result.threshold, color="black", linewidth=0.8, linestyle="--", label="threshold")
    left.set(xlim=(0, 1), xlabel="inclusion probability", yticks=place, yticklabels=[plain(row.name) for row in rows])
    left.legend(loc="lower right")
    for i, row in enumerate(rows):
        right.plot([row.lower, row.upper], [i, i], color=colours[i], linewidth=2)
        right.plot(row.effect, i, "o", color=colours[i])
    right.axvline(0, color="black", linewidth=0.8)
    right.set(xlabel=f"effect per unit of the column, {result.level:.0%} interval")
    return figure


def _units(data: Columns, numeric: bool) -> str:
    what = f"change of {data.target}" if numeric else "change of the log-odds"
    return f"An effect is the {what} when the column increases by one unit and all other columns stay the same."


def _delimiter(text: str) -> str:
    """Return the tab, semicolon or comma, whichever the header has most of."""
    header = text.split("\n", 1)[0]
    return max(",;\t", key=header.count)


def _number(text: str, name: str, line: int, path: Path) -> float:
    value = text.strip()
    if value in MISSING:
        raise ValueError(
            f"line {line} of {path}: column {name!r} is empty; fill it in, drop the row, or leave the column out with "
            f"--ignore {name!r}"
        )
    try:
        return float(value)
    except ValueError as error:
        raise ValueError(
            f"line {line} of {path}: column {name!r} holds {value!r}, which is not a number; "
            f"write it as a number, or leave the column out with --ignore {name!r}"
        ) from error


def _target(values: list[str], path: Path) -> NDArray[np.float64] | NDArray[np.str_]:
    """Return numbers if all values are numbers and more than two of them differ; otherwise classes."""
    for line, value in enumerate(values, start=2):
        if value in MISSING:
            raise ValueError(f"line {line} of {path}: the target is empty; drop the row")
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        if (count := len(set(values))) > CLASSES:
            raise ValueError(
                f"the target in {path} has {count} different values that are not all numbers, and at most {CLASSES} "
                "classes are fitted: choose another target, join classes, or write numbers as numbers"
            ) from None
        return np.array(values)
    return numbers if len(set(values)) > 2 else np.array(values)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
