"""Tables on a terminal: no word is cut as long as there is room for whole ones."""

import pytest

from sparse_langevin.cli.tables import print_table
from sparse_langevin.reports import page as report

NAMES = ["", "mean", "deviation", "R-hat", "bulk ESS", "tail ESS", "Monte Carlo error"]
ROW = ["delta of encode.2.weight", "0.24791", "0.00218", "2.116", "2", "23", "0.00123"]


@pytest.mark.parametrize("width", [60, 66, 80, 81, 100, 200])
def test_words_stay_whole(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(report.Table(columns=NAMES, rows=[ROW]))
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert sorted(text.replace("─", "").split()) == sorted(" ".join([*NAMES, *ROW]).split())


def test_wide_enough_for_one_line_each(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    print_table(report.Table(columns=NAMES, rows=[ROW]))
    assert len([line for line in capsys.readouterr().out.splitlines() if line.strip()]) == 3


def test_a_narrow_terminal_folds_words(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    print_table(report.Table(columns=NAMES, rows=[ROW]))
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 40
    assert sorted("".join(text.replace("─", "").split())) == sorted("".join("".join([*NAMES, *ROW]).split()))
