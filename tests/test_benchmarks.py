"""The benchmarks run, write the records they promise, and their page renders; the numbers mean nothing here."""

import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import accuracy, agreement, page, race, resumable, scale_mixture_gibbs, simulations
from benchmarks.interleaved import record
from benchmarks.one_by_one import Gibbs
from sparse_langevin.linear.normal import NormalRegression
from sparse_langevin.posterior import diagnostics
from tests.linear.gibbs_reference import Model, gibbs
from tests.linear.test_collapsed import correlated, enumerated, problem
from tests.processes import processes

ROOT = Path(__file__).parents[1]


def run_quickly(out, *parts):
    """Be ``python -m benchmarks``; executed in a process of its own."""
    os.chdir(ROOT)
    sys.argv = ["benchmarks", "--quick", "--only", *parts, "--out", out]
    runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)


def test_quick_run(tmp_path):
    for parts in (("update", "linear"), ("update",)):  # the second run replaces the records of the first
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


@pytest.mark.parametrize("small_effects", [False, True], ids=["sparse", "with small effects"])
def test_the_rival_in_the_race_has_the_posterior_of_the_chains_over_models(small_effects):
    case = problem(*correlated(), small_effects)
    inclusion, of_g, of_h = enumerated(case)
    chain = Gibbs(NormalRegression(case), np.random.default_rng(0))
    chain.draw(500)
    found = chain.draw(40_000, 4)
    assert np.abs(found.inclusion.mean(0) - inclusion).max() < 0.02
    assert np.abs((found.effects != 0).mean(0) - inclusion).max() < 0.03
    log_g, draws = np.log(case.grid), np.log(found.beside["g"])
    assert draws.mean() == pytest.approx(of_g @ log_g, abs=4.5 * diagnostics.mcse(draws[None])[()])
    if small_effects:
        none = (found.beside["h"] == 0).astype(float)
        assert none.mean() == pytest.approx(of_h[0], abs=4.5 * diagnostics.mcse(none[None])[()])


def test_costs_of_the_race():
    """Of independent draws all are effective, and the cost is that of 400 of them; of doubled ones half of them."""
    rng = np.random.default_rng(0)
    batches, each = race.BATCHES, 40
    chance = np.array([0.2, 0.5])
    present = (rng.random((race.CHAINS, batches, each, 2)) < chance).astype(float)
    fitted = rng.standard_normal((race.CHAINS, batches, each, 200))
    weight = rng.uniform(0.5, 1.5, (race.CHAINS, batches)) * each
    draws = race.CHAINS * batches * each

    def costs(present, fitted, weight):
        means = present.mean(2), fitted.mean(2), (fitted**2).mean(2)
        return race.Entry(0.0, 10.0, weight, *means).costs(np.arange(2))

    even = np.full_like(weight, each)
    worst, mean, _, of_predictions = costs(present, fitted, even)
    assert mean == pytest.approx(4000 / draws, rel=0.4) and mean <= worst < 2 * mean
    assert of_predictions == pytest.approx(4000 / draws, rel=0.12)  # Geyer's rule cuts some noise
    twice = costs(present[:, :, : each // 2], fitted[:, :, : each // 2], even)
    assert twice[3] == pytest.approx(2 * of_predictions, rel=0.1)
    # With weights w of equal draws, sum(w^2)/sum(w)^2 takes the place of one over their number.
    more = (weight**2).mean() / weight.mean() ** 2
    assert costs(present, fitted, weight)[3] == pytest.approx(more * of_predictions, rel=0.05)


def job(number):
    """Be the work of a benchmark; executed in processes of their own."""
    return {"square": number**2}


def test_work_goes_on_where_it_stopped(tmp_path, monkeypatch):
    for name in resumable.THREADS:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(resumable, "get_context", lambda _: processes)
    path = tmp_path / "results" / "records.jsonl"
    first = resumable.gather(job, [(3,), (1,)], ("number",), path, 1)
    assert first == [{"number": n, "square": n * n} for n in (3, 1)]
    assert {os.environ[name] for name in resumable.THREADS} == {"1"}  # what processes that begin anew inherit
    lines = path.read_bytes()
    assert resumable.gather(None, [(1,), (3,)], ("number",), path, 1) == first[::-1]  # nothing is computed again
    assert resumable.gather(None, [(2,), (3,)], ("number",), path, 0) == first[:1]
    resumable.gather(job, [(1,), (2,)], ("number",), path, 2)
    assert path.read_bytes().startswith(lines) and len(path.read_bytes().splitlines()) == 3


def test_tables_of_agreement_and_accuracy():
    pair = [
        {
            "index": 3,
            "seed": 0,
            "predictors": [1, 4],
            "inclusion": [0.5, 0.3],
            "warned": [],
            "steps": 10,
            "seconds": 1.0,
        },
        {
            "index": 3,
            "seed": 1,
            "predictors": [1, 7],
            "inclusion": [0.45, 0.2],
            "warned": [],
            "steps": 20,
            "seconds": 2.0,
        },
    ]
    assert agreement.apart(*pair) == pytest.approx(0.3)
    assert "0 of 1 pairs agree" in agreement.table(pair)[-1]
    assert "0 of 0 pairs" in agreement.table(pair[:1])[-1]  # the other fit is still to be done
    pair[1]["warned"] = ["inclusion has not settled"]
    assert "1 of 1 pairs agree within 0.1 or warn; 1 of 2 fits warned" in agreement.table(pair)[-1]
    errors = [{"ours": 0.5, "LassoCV": 0.4, "RidgeCV": 0.9}, {"ours": 0.3, "LassoCV": 0.3, "RidgeCV": 0.9}]
    records = [{"index": 2, "errors": e, "seconds": {"ours": 1.0}} for e in errors]
    text = accuracy.table(records)
    assert "+0.050 ± 0.050" in text[2] and text[-1].endswith(": none.")
    records[1]["errors"]["ours"] = 0.37
    assert accuracy.table(records)[-1].endswith(f": {simulations.FAMILIES[2]}.")


def test_copies_are_near_or_exact():
    for index, spec in enumerate(simulations.HARD):
        if spec.p <= 1000:
            x, _ = simulations.hard(index)
            assert x.shape == (spec.n, spec.p)
            if spec.copies:
                copies = x[:, -spec.copies :]
                close = np.abs(np.corrcoef(copies.T, x[:, : -spec.copies].T)[: spec.copies, spec.copies :]).max(1)
                assert close == pytest.approx(1.0, abs=1e-12 if spec.exact else 2e-3)
                assert spec.exact or close.max() < 1 - 1e-5
