"""The command as a whole: wrong arguments are one line, and what is no error stays none."""

import pytest

from sparse_langevin.cli import main
from tests.commands import refused


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--bad"], ["no such option: --bad", "--help"]),
        (["nothing"], ["no such command 'nothing'"]),
        (["info"], ["missing argument 'data'", "info --help"]),
        (["info", "a", "b"], ["unexpected extra argument", "b"]),
        (["generate", "kle"], ["missing option '--out'"]),
        (["generate", "kle", "--out", "a", "--samples"], ["'--samples' requires an argument"]),
        (["generate", "kle", "--out", "a", "--samples", "many"], ["'--samples'", "integer", "got 'many'"]),
        (["generate", "kle", "--out", "a", "--samples", "0"], ["'--samples'", "at least 1|greater than", "got '0'"]),
        (["generate", "kle", "--out", "a", "--mode", "odd"], ["'--mode': 'odd' is not one of 'affine', 'lognormal'"]),
        (["info", "no\nsuch\x00\udc80"], ["\\x00|null"]),
    ],
)
def test_wrong_arguments_are_one_line(words, parts, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = refused(monkeypatch, capsys, *words)
    assert text.startswith("error: ") and text.count("\n") == 1 and text.endswith("\n")
    for part in parts:
        assert any(word in text for word in part.split("|")), text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "code"), [([], 2), (["generate"], 2), (["--help"], 0), (["train", "-h"], 0)])
def test_help_is_printed_once(words, code, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sparse-langevin", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code or 0) == code
    assert capsys.readouterr().out.count("Usage: ") == 1


def test_the_version_is_printed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sparse-langevin", "--version"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code and capsys.readouterr().out[0].isdigit()
