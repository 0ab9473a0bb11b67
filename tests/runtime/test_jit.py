"""Compiled code computes the same whether it was just compiled or read from disk."""

import os
import pickle
import subprocess
import sys

import numba
import pytest

UPDATE = """
import hashlib, torch
from torch import nn
from sparse_langevin import GaussianLikelihood, psgld_sa
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(300, 200), nn.SiLU(), nn.Linear(200, 100))
x, y = torch.randn(16, 300), torch.randn(16, 100)
sampler = psgld_sa(model, GaussianLikelihood(), num_data=1300, step_size=1e-3, sparse=["0.weight"], engine="native")
for _ in range(20):
    sampler.step(x, y)
print(hashlib.sha256(sampler.flat.vector.numpy().tobytes()).hexdigest())
"""
REGRESSOR = """
import hashlib, numpy as np
from sparse_langevin import SparseBayesRegressor
random = np.random.default_rng(0)
x = random.standard_normal((40, 60))
y = x[:, 0] - x[:, 1] + random.standard_normal(40)
model = SparseBayesRegressor(burn_in=200, max_steps=400, random_state=0).fit(x, y)
print(hashlib.sha256(model.coef_.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("code", [UPDATE, REGRESSOR], ids=["update", "regressor"])
def test_a_second_process_gives_the_same_bits(code, tmp_path):
    def run():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    compiled = run()
    assert any(tmp_path.rglob("*.nbc")), "nothing was kept on disk"
    assert run() == compiled


CALLER = """
from sparse_langevin.runtime.jit import compiled
from callee import CONSTANT, inner, {name}

@compiled
def outer(x):
    return inner(x) + CONSTANT

print(outer(1.0))
"""
CALLEE = """
from sparse_langevin.runtime.jit import fused

CONSTANT = {constant}
unused = 0

@fused
def inner(x):
    return {factor} * x
"""


def test_a_change_in_another_file_is_noticed(tmp_path):
    """Of a function that is called, and of a constant; Numba's own cache looks at the caller's file alone."""

    def run(factor, constant):
        (tmp_path / "callee.py").write_text(CALLEE.format(factor=factor, constant=constant))
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "caller.py"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    (tmp_path / "caller.py").write_text(CALLER.format(name="unused"))
    assert run(2.0, 0.0) == 2.0
    assert run(3.0, 0.0) == 3.0
    assert run(3.0, 10.0) == 13.0
    assert run(2.0, 0.0) == 2.0


def test_an_index_that_cannot_be_read_is_replaced(tmp_path):
    def run():
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        code = UPDATE.replace("range(20)", "range(2)")
        command = [sys.executable, "-W", "ignore", "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    before = run()
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(numba.__version__, protocol=-1) + b"cno_such_module\nname\n.")
    assert run() == before
