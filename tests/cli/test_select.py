"""Selection from a table, as a user without Python runs it."""

import builtins
import csv
import json
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from sparse_langevin.linear.tables.families import FAMILIES
from sparse_langevin.linear.tables.selection import MISSING
from tests.commands import call, refused


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 30))
    y = 3 * x[:, 4] - 2 * x[:, 20] + rng.standard_normal(60)
    names = [f"gene {i}" for i in range(30)]
    rows = [",".join(["sample", *names, "dose", "state"])]
    for i in range(60):
        rows.append(",".join([f"s{i}", *map(str, x[i]), str(y[i]), "high" if y[i] > 0 else "low"]))
    path = tmp_path / "data.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_numbers(table, tmp_path):
    files = ["--out", tmp_path / "r.html", "--csv", tmp_path / "r.csv", "--json", tmp_path / "r.json"]
    text = call("select", table, "--target", "dose", "--ignore", "state", *files)
    assert "2 of 30 columns matter for dose (60 rows of data.csv)" in text
    assert "gene 4" in text and "gene 20" in text and "gene 5" not in text
    assert "In rows that were left out of the fit" in text and "Column 'sample' holds another text in every row" in text
    page = (tmp_path / "r.html").read_text()
    assert page.count("data:image/png;base64,") == 3 and "gene 29" in page and "http" not in page
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text().splitlines()))
    assert len(rows) == 30 and [row["column"] for row in rows if row["chosen"] == "true"] == ["gene 4", "gene 20"]
    assert float(rows[0]["effect"]) == pytest.approx(3, abs=0.5)
    stored = json.loads((tmp_path / "r.json").read_text())
    assert stored["cross_validation"]["value"] > 0.8 and len(stored["columns"]) == 30


def test_classes(table, tmp_path):
    given = ["--target", "state", "--ignore", "dose", "--folds", 2, "--out", tmp_path / "r.html"]
    text = call("select", table, *given)
    assert "matter for state" in text and "gene 4" in text and "accuracy" in text and "the log-odds of 'low'" in text


def test_the_bar_knows_how_many_fits_there_are(table, tmp_path, monkeypatch):
    told = []

    @contextmanager
    def bar(total, show, unit):
        yield lambda done, text: told.append((done, total, unit, text))

    monkeypatch.setattr(sys.modules["sparse_langevin.cli.select"], "progress_bar", bar)
    call("select", table, "--target", "dose", "--ignore", "state", "--folds", 2, "--out", tmp_path / "r.html")
    assert told == [(i, 3, "fit", text) for i, text in enumerate(["", "fit", "fold 1 of 2", "fold 2 of 2"])]


def test_a_list_of_problems(table, monkeypatch, capsys):
    """One line each, with options that can be pasted; nothing is written."""
    lines = table.read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[1], "oops", 1)
    lines[5] = lines[5].replace(lines[5].split(",")[2], "<3", 1)
    table.write_text("\n".join(lines).replace("gene 1,", "it's,", 1))
    monkeypatch.chdir(table.parent)
    text = refused(monkeypatch, capsys, "select", "data.csv", "--target", "dose").splitlines()
    assert text[0] == "error: data.csv has 2 problems" and len(text) == 4
    assert text[1].startswith("  (1) column 'gene 0' holds numbers, but 'oops' in line 4 is no number")
    assert "('<3', line 6)" in text[2] and text[3].endswith("--ignore 'gene 0' --ignore 'it'\"'\"'s'")
    assert not (table.parent / "selection.html").exists()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ["--target", "colour"], "has no column 'colour'; its columns are sample, gene 0"),
        (("gene 4", "gene 5"), ["--target", "dose"], "two columns named 'gene 5'"),
        (None, ["--target", "dose", "--level", "95"], "got 95.0"),
        (None, ["--target", "dose", "--threshold", "1"], "threshold must be"),
        (("s3,", f"{'s' * 200_000},"), ["--target", "dose"], "data.csv is not a table: field larger than field limit"),
        (None, ["--target", "sample"], "has 60 different values that are not all numbers, and at most 50 classes"),
        (("s3,", "s3,1,"), ["--target", "dose"], "the header has 33 fields, but line 5 has 34"),
        (None, ["--target", "dose", "--out", "data.csv", "--force"], "would be written over data.csv"),
        (None, ["--target", "dose", "--csv", "data.csv"], "would be written over data.csv"),
        (None, ["--target", "dose", "--csv", "a.x", "--json", "./a.x"], "a.x would be written over a.x"),
        (None, ["--target", "dose", "--family", "poisson"], "'poisson'"),
        (None, ["--target", "state", "--family", "gaussian"], "--family gaussian needs numbers"),
    ],
)
def test_bad_tables(table, change, arguments, message, monkeypatch, capsys):
    if change:
        table.write_text(table.read_text().replace(*change, 1))
    monkeypatch.chdir(table.parent)
    assert message in refused(monkeypatch, capsys, "select", "data.csv", *arguments).replace("there is no", "has no")
    assert [path.name for path in table.parent.iterdir()] == ["data.csv"]


def test_nothing_is_overwritten_and_files_come_before_words(table, monkeypatch, capsys):
    monkeypatch.chdir(table.parent)
    for name in ("selection.html", "r.csv", "r.json"):
        (table.parent / name).write_text("mine")
        given = ["select", "data.csv", "--target", "dose", "--csv", "r.csv", "--json", "r.json"]
        assert f"error: {name}: it exists" in refused(monkeypatch, capsys, *given)
        (table.parent / name).unlink()

    def stop(*words, **_):
        raise OSError("no more paper")

    monkeypatch.setattr(builtins, "print", stop)
    with pytest.raises(OSError, match="no more paper"):
        call("select", "data.csv", "--target", "dose", "--folds", 0, "--csv", "r.csv")
    assert (table.parent / "selection.html").read_text().rstrip().endswith("</html>")
    assert (table.parent / "r.csv").read_text().startswith("column,")


def test_names_are_shown_as_they_are(table, tmp_path):
    """Not as markup of a terminal, nor as a formula in a figure."""
    odd = {"gene 4": "pressure [kPa]", "gene 20": "rate [/min]", "gene 5": "$cost$ of $x", "dose": "[bold]dose"}
    text = table.read_text()
    for name, new in odd.items():
        text = text.replace(f"{name},", f"{new},", 1)
    table.write_text(text)
    shown = call(
        "select", table, "--target", "[bold]dose", "--ignore", "state", "--folds", 2, "--out", tmp_path / "r.html"
    )
    assert "pressure [kPa]" in shown and "rate [/min]" in shown and "matter for [bold]dose" in shown
    assert "$cost$ of $x" in (tmp_path / "r.html").read_text()


def test_the_command_knows_all_choices():
    text = call("select", "--help")
    assert all(name in text for name in (*FAMILIES, *MISSING))
