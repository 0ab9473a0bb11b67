"""The benchmarks run, write the records they promise, and their page renders; the numbers mean nothing here."""

import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import page, scale_mixture_gibbs
from benchmarks.interleaved import record
from sparse_langevin.posterior import diagnostics
from tests.linear.gibbs_reference import Model, gibbs
from tests.processes import processes

ROOT = Path(__file__).parents[1]


def run_quickly(out, *parts):
    """Be ``python -m benchmarks``; executed in a process of its own."""
    os.chdir(ROOT)
    sys.argv = ["benchmarks", "--quick", "--only", *parts, "--out", out]
    runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)


def test_quick_run(tmp_path):
    for parts in (("update", "linear"), ("linear",)):  # the second run replaces the records of the first
        child = processes.Process(target=run_quickly, args=(str(tmp_path), *parts))
        child.start()
        child.join(timeout=300)
        assert child.exitcode == 0
        rows = json.loads((tmp_path / "bench.json").read_text())
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names)
    assert {page.split(row)[0] for row in rows} == {"update", "linear"}
    for row in rows:
        assert set(row) == {"name", "value", "unit", "versus", "ratio", "spread"}
        assert row["value"] > 0 and row["ratio"] > 0 and row["spread"] >= 0
    text = (tmp_path / "performance.md").read_text()
    assert all(page.split(row)[2] in text for row in rows)
    assert {path.name for path in tmp_path.glob("*.png")} == {"bench-update.png", "bench-linear.png"}


def test_records():
    row = record("a: b", [0.001, 0.002, 0.003], "c", [0.001, 0.001, 0.001])
    assert row["value"] == pytest.approx(2.0) and row["unit"] == "ms"
    assert row["ratio"] == pytest.approx(2.0) and row["spread"] == pytest.approx(2.0)
    assert record("a: b", [4.0, 5.0, 6.0], unit="s")["ratio"] == pytest.approx(1.0)


def test_page():
    row = record("update alone, 8,252,320 parameters: PSGLD-SA, native engine", [0.02], "torch Adam (fused)", [0.01])
    text = page.render([row | {"name": f"update: {row['name']}"}], cpu="a processor")
    assert "takes 20 ms: 2 times a fused Adam update" in text
    assert "| PSGLD-SA, native engine | 20 | ms | 2 | 0 | torch Adam (fused) |" in text
    alone = record("darcy: one field, 50x50 cells: sparse-langevin", [0.02], "sparse-langevin", [0.02])
    assert "scikit-fem" not in page.render([alone])
    assert "a processor" in text and "python -m benchmarks --only update" in text


@pytest.mark.parametrize("slab", [None, 0.5])  # in units of sigma^2, and not
def test_the_textbook_gibbs_sampler_has_the_posterior_of_the_compiled_one(slab):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 12))
    y = x[:, 0] + 0.4 * x[:, 1] + 0.7 * rng.standard_normal(40)
    model = Model(v0=0.05, v1=1.0, a=2.0, b=10.0, slab=slab)
    exact = gibbs(x, y, model, 40_000, np.random.default_rng(1), burn_in=1000).beta
    first = scale_mixture_gibbs.start(12)
    _, state = scale_mixture_gibbs.sample(x, y, model, 500, rng, first)
    draws, _ = scale_mixture_gibbs.sample(x, y, model, 20_000, rng, state)
    error = np.hypot(diagnostics.mcse(draws[None]), diagnostics.mcse(exact[None]))
    assert np.all(np.abs(draws.mean(0) - exact.mean(0)) < 4.5 * error)
    assert draws.std(0) == pytest.approx(exact.std(0), rel=0.15)
