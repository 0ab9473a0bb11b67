"""The command sparse-langevin inside a test."""

import sys

import pytest
from typer.testing import CliRunner

from sparse_langevin.cli import app, main


def call(*arguments):
    """Run it, and return what it printed."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(monkeypatch, capsys, *arguments):
    """Run it as the installed command does; return what stands on standard error."""
    monkeypatch.setattr(sys, "argv", ["sparse-langevin", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    return capsys.readouterr().err
