"""What works with the core dependencies alone, and what says which extra it lacks.

To be run by the Python of an environment that has the wheel without extras: python core_only.py README.md
"""

import doctest
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

import sparse_langevin
from sparse_langevin.deploy import export_onnx
from sparse_langevin.posterior import diagnostics, figures
from sparse_langevin.runtime.extras import MissingExtraError

EXTRAS = ("arviz", "h5py", "matplotlib", "onnx", "onnxruntime", "PIL", "pydantic", "qdldl", "tensorboard", "typer")
ROOMS = ("problems", "problems.darcy", "surrogates", "studies", "darcy")  # that come with an extra
TRACES = {"sigma": np.random.default_rng(0).standard_normal((2, 100))}


def train(folder):
    model = nn.Linear(2, 1)
    sampler = sparse_langevin.sgld(model, sparse_langevin.GaussianLikelihood(), num_data=2, step_size=1e-3)
    sparse_langevin.fit(sampler, [(torch.ones(2, 2), torch.ones(2, 1))], steps=1, run=folder, tensorboard=True)


def main(readme):
    present = [name for name in EXTRAS if find_spec(name) is not None]
    assert not present, f"this environment is to have the core dependencies only, and has {present}"
    for name in sparse_langevin.__all__:
        assert getattr(sparse_langevin, name).__name__ == name

    network, regression = {}, {}
    first, second, *_ = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)
    exec(first, network)
    exec(second, regression)
    assert network["prediction"].mean.shape == (500, 1) and network["inclusion"].shape == (64, 20)
    assert list(regression["regressor"].get_support(indices=True)) == [3, 7]
    # The classifier's example takes half a minute to compile; it imports nothing that the regressor's does not.
    regressor, runner = sparse_langevin.SparseBayesRegressor, doctest.DocTestRunner()
    names = vars(sys.modules[regressor.__module__])
    for example in doctest.DocTestFinder(recurse=False).find(regressor, globs=names):
        runner.run(example)
    assert runner.tries and not runner.failures

    with tempfile.TemporaryDirectory() as folder:
        needs = {
            "surrogates": [lambda room=room: import_module(f"sparse_langevin.{room}") for room in ROOMS],
            "plot": [lambda: figures.trace_figure(TRACES)],
            "arviz": [lambda: diagnostics.to_arviz(TRACES)],
            "deploy": [lambda: export_onnx(nn.Linear(2, 1), torch.ones(2, 2), Path(folder, "model.onnx"))],
            "tensorboard": [lambda: train(Path(folder, "run"))],
        }
        for extra, calls in needs.items():
            for call in calls:
                try:
                    call()
                except MissingExtraError as error:
                    assert f"pip install 'sparse-langevin[{extra}]'" in str(error), error
                else:
                    raise AssertionError(f"nothing said that the extra {extra} is missing")

    for command in ([Path(sys.executable).with_name("sparse-langevin")], [sys.executable, "-m", "sparse_langevin"]):
        result = subprocess.run([*command, "--version"], capture_output=True, text=True)
        lines = result.stderr.splitlines()
        assert result.returncode == 2 and len(lines) == 1 and "'sparse-langevin[surrogates]'" in lines[0], result


if __name__ == "__main__":
    main(Path(sys.argv[1]))
