"""Selection from a table, as a user without Python runs it."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from sparse_langevin.cli import app, main


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


def call(*arguments):
    result = CliRunner().invoke(app, ["select", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_numbers(table, tmp_path):
    text = call(table, "--target", "dose", "--ignore", "sample", "--ignore", "state", "--out", tmp_path / "r.html")
    assert "2 of 30 columns matter for dose" in text and "gene 4" in text and "gene 20" in text and "gene 5" not in text
    page = (tmp_path / "r.html").read_text()
    assert "data:image/png;base64," in page and "gene 29" in page and "http" not in page


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # classes that are almost separable
def test_classes(table, tmp_path):
    text = call(table, "--target", "state", "--ignore", "sample", "--ignore", "dose", "--out", tmp_path / "r.html")
    assert "columns matter for state" in text and "gene 4" in text and "accuracy" in text


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        (None, ["--target", "colour"], "has no column 'colour'; its columns are sample, gene 0"),
        (None, ["--target", "dose"], "line 2 of data.csv: column 'sample' holds 's0', which is not a number"),
        (("gene 4", "gene 5"), ["--target", "dose"], "two columns named 'gene 5'"),
        (None, ["--target", "dose", "--ignore", "sample", "--ignore", "state", "--level", "95"], "got 95.0"),
        (
            None,
            ["--target", "dose", "--ignore", "sample", "--ignore", "state", "--threshold", "1"],
            "threshold must be",
        ),
        (("s3,", f"{'s' * 200_000},"), ["--target", "dose"], "data.csv is not a table: field larger than field limit"),
        (
            None,
            ["--target", "sample", "--ignore", "state"],
            "has 60 different values that are not all numbers, and at most 50 classes",
        ),
        (("s3,", "s3,1,"), ["--target", "dose"], "line 5 of data.csv has 34 fields, but the header has 33"),
    ],
)
def test_bad_tables(table, change, arguments, message, monkeypatch, capsys):
    if change:
        table.write_text(table.read_text().replace(*change, 1))
    monkeypatch.chdir(table.parent)
    monkeypatch.setattr(sys, "argv", ["sparse-langevin", "select", "data.csv", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert not (table.parent / "selection.html").exists()


def test_names_are_shown_as_they_are(table, tmp_path):
    """Not as markup of a terminal, nor as a formula in a figure."""
    odd = {"gene 4": "pressure [kPa]", "gene 20": "rate [/min]", "gene 5": "$cost$ of $x", "dose": "[bold]dose"}
    text = table.read_text()
    for name, new in odd.items():
        text = text.replace(f"{name},", f"{new},", 1)
    table.write_text(text)
    shown = call(
        table, "--target", "[bold]dose", "--ignore", "sample", "--ignore", "state", "--out", tmp_path / "r.html"
    )
    assert "pressure [kPa]" in shown and "rate [/min]" in shown and "matter for [bold]dose" in shown
    assert "$cost$ of $x" in (tmp_path / "r.html").read_text()
