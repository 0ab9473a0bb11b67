"""Compiled code computes the same whether it was just compiled or read from disk."""

import os
import subprocess
import sys

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
