"""The command that repeats the paper's experiments, as a user runs it."""

import json

from tests.cli.test_data import call, refused

ORACLE = ["reproduce", "regression", "--replicates", "2", "--only", "oracle", "--workers", "0"]


def test_regression_prints_a_table_and_writes_a_report(tmp_path):
    text = call(*ORACLE, "--test", 1, "--out", tmp_path / "study")
    assert "oracle" in text and "2/2" in text
    assert "report.html" in "".join(text.split())
    assert [row["test"] for row in json.loads((tmp_path / "study" / "table.json").read_text())["rows"]] == [1]
    call(*ORACLE, "--out", tmp_path / "study")
    assert len(list((tmp_path / "study" / "records").iterdir())) == 4


def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys):
    text = refused(monkeypatch, capsys, "reproduce", "regression", "--only", "sgd", "--out", tmp_path / "x")
    assert text.count("\n") == 1 and "there is no method 'sgd': choose one of gibbs, gibbs-pfer, psgld-sa" in text
    assert not (tmp_path / "x").exists()
    (tmp_path / "file").write_text("")
    text = refused(monkeypatch, capsys, *ORACLE, "--out", tmp_path / "file")
    assert text.count("\n") == 1 and "Traceback" not in text
    assert "invalid value" in refused(monkeypatch, capsys, "reproduce", "regression", "--test", 3)
