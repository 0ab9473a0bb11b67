"""Code outside the package runs only for somebody who names it, whatever lies in the working directory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparse_langevin
from sparse_langevin.surrogates import SurrogateRun, train
from sparse_langevin.surrogates.export import export_run, load_exported
from sparse_langevin.surrogates.problem import problem_from_json
from tests.surrogates.conftest import short

NETWORK = "planted:Planted"
# Runs commands as the installed one does, one after the other; prints exit codes, and which planted modules have run.
RUNNER = """
import json, sys
from pathlib import Path
from sparse_langevin.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["sparse-langevin", *command]
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    print("ended", json.dumps([code, sorted(p.name for p in Path.cwd().glob("ran-*"))]), flush=True)
"""
MARK = "from pathlib import Path\nPath({!r}).touch()\n"
USERS = "from tests.surrogates.small import Small as Planted\n"


@pytest.fixture(scope="module")
def planted(data, tmp_path_factory):
    """A run whose network lies in the working directory, beside modules that torch or we might import."""
    folder = tmp_path_factory.mktemp("planted")
    here, mine = folder / "here", folder / "mine"
    for place in (here, mine):
        place.mkdir()
    (mine / "planted.py").write_text(USERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(mine))
        run = train(short(network=NETWORK), data, folder / "run", progress=False)
        export_run(run, folder / "exported")
    del sys.modules["planted"]
    np.save(folder / "kappa.npy", data.inputs("test"))
    (here / "planted.py").write_text(MARK.format(str(here / "ran-planted")) + USERS)
    for name in ("tqdm", "opt_einsum", "matplotlib", "onnxruntime", "pandas"):
        (here / f"{name}.py").write_text(MARK.format(str(here / f"ran-{name}")) + "raise ImportError\n")
    return folder


def commands(folder, *more):
    run, kappa, out = folder / "run", folder / "kappa.npy", folder / "out"
    return [
        ["predict", run, "--input", kappa, "--out", out / "u.npz", *more],
        ["predict", folder / "exported", "--input", kappa, "--out", out / "exported.npz", *more],
        ["evaluate", run, *more],
        ["report", run, "--out", out / "report.html", *more],
        ["export", run, "--out", out / "again", *more],
    ]


def test_only_a_network_that_is_named_is_imported(planted):
    """In a process of its own, as it matters what has been loaded before."""
    for name in ("bin", "out"):
        (planted / name).mkdir()
    (planted / "bin" / "runner.py").write_text(RUNNER)
    wrong = ["evaluate", planted / "run", "--network", "planted:Other"]
    every = [*commands(planted), wrong, *commands(planted, "--network", NETWORK)]
    paths = [str(Path(sparse_langevin.__file__).parents[1]), str(Path(__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, str(planted / "bin" / "runner.py"), json.dumps([list(map(str, one)) for one in every])],
        cwd=planted / "here",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    ended = [json.loads(line[6:]) for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert ended[:6] == [[2, []]] * 6 and ended[6:] == [[0, ["ran-planted"]]] * 5, done.stderr
    refusals = done.stderr.splitlines()[:6]
    for line in refusals[:5]:
        assert "is code outside sparse-langevin, which would be run" in line and f"--network {NETWORK}," in line
    assert f"has the network {NETWORK}, not planted:Other" in refusals[5]
    assert {p.name for p in (planted / "out").iterdir()} == {"u.npz", "exported.npz", "report.html", "again"}
    (planted / "here" / "ran-planted").unlink()


def test_in_the_library(planted, data, monkeypatch):
    monkeypatch.syspath_prepend(str(planted / "here"))
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    with pytest.raises(ValueError, match=r"'planted:Planted' is code outside sparse-langevin.*pass trust=True"):
        SurrogateRun.open(planted / "run").surrogate()
    with pytest.raises(ValueError, match=r"'planted:Planted' is code outside sparse-langevin.*pass trust=True"):
        load_exported(planted / "exported")
    assert not (planted / "here" / "ran-planted").exists()
    expected = SurrogateRun.open(planted / "run", trust=True).surrogate().predict(data.inputs("test"))
    (planted / "here" / "ran-planted").unlink()
    found = load_exported(planted / "exported", trust=True).predict(data.inputs("test"))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    monkeypatch.delitem(sys.modules, "planted")


@pytest.mark.parametrize("name", ["nobody", "vtk", "../darcy"])
def test_a_problem_that_is_not_there_is_named(name):
    with pytest.raises(ValueError, match=rf"there is no problem '{name}' in this version"):
        problem_from_json({"problem": name})
