"""Several chains: what they share, that they can be added to and interrupted, and what is said about them."""

import json
import math
import os
import signal
import time

import numpy as np
import pytest
import torch

from sparse_langevin.posterior.diagnostics import rhat
from sparse_langevin.surrogates import SurrogateRun, train
from sparse_langevin.surrogates.agreement import agreement
from sparse_langevin.surrogates.chains import train_chains
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.report import judge, report
from sparse_langevin.surrogates.surrogate import empty_surrogate
from tests.processes import processes, run_command
from tests.surrogates.conftest import short

FOUR = {"samples": 4, "sparsity": 0.7}
pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture(scope="module")
def two(data, tmp_path_factory):
    return train_chains(short(**FOUR), data, tmp_path_factory.mktemp("chains") / "run", 2, progress=False)


def content(run):
    return [(s.chain, s.step, s.sigma, {n: p.tolist() for n, p in s.parameters.items()}) for s in run.bank()]


def test_chain_0_is_the_run_alone_and_chains_can_be_added(two, data, tmp_path):
    alone = train(short(**FOUR), data, tmp_path / "run", progress=False)
    assert content(alone) == content(two)
    grown = train_chains(short(**FOUR), data, tmp_path / "run", 2, progress=False)
    assert [content(c) for c in grown.chains()] == [content(c) for c in two.chains()]


def test_chains_differ_from_their_first_weights_on(two):
    first, second = two.chains()
    assert first.settings.differences(second.settings) == ["chain"]
    assert {s.chain for s in second.bank()} == {1}
    one, other = (next(iter(empty_surrogate(c.settings, c.problem, trust=True).parameters())) for c in (first, second))
    assert (one - other).abs().min() > 0
    assert first.history()[0]["loss"] != second.history()[0]["loss"]


def test_predictions_pool_all_chains(two, data):
    kappa = data.inputs("test")
    forecast = predict(two, kappa)
    assert forecast.samples == 8
    outputs = []
    for chain in two.chains():
        surrogate = chain.surrogate()
        for sample in chain.bank():
            surrogate.load_state_dict(sample.parameters, strict=False)
            outputs.append(surrogate.predict(kappa))
    torch.testing.assert_close(forecast.mean, torch.stack(outputs).mean(0), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(forecast.std, torch.stack(outputs).std(0, correction=0), rtol=1e-4, atol=1e-6)


def test_agreement_is_about_predictions(two, data):
    known = agreement(two, data)
    names = ["sigma", "delta of layers.1.weight", "delta of layers.3.weight"]
    assert list(known.traces) == [*names, *(f"output of test example {i}" for i in range(3))]
    assert all(draws.shape == (2, 4) for draws in known.traces.values())
    assert known.traces["sigma"].tolist() == [[s.sigma for s in chain.bank()] for chain in two.chains()]
    assert known.traces.weights.tolist() == [[s.weight for s in chain.bank()] for chain in two.chains()]
    surrogate, kappa = two.surrogate(), data.inputs("test")[:1]
    outputs = []
    for sample in two.samples():
        surrogate.load_state_dict(sample.parameters, strict=False)
        outputs.append(surrogate.predict(kappa)[0].numpy())
    everywhere = np.array(outputs, dtype=float).reshape(2, 4, -1)
    least = int(everywhere.reshape(8, -1).std(axis=0).argmax())
    np.testing.assert_allclose(known.traces["output of test example 0"], everywhere[:, :, least], rtol=1e-5)
    np.testing.assert_allclose(known.rhat[0], rhat(everywhere), rtol=1e-3)
    assert any("disagree" in line for line in known.verdict)
    assert known.table().rows[0][0] == "sigma" and "2 chains of 4 draws" in known.table().caption
    assert len(known.pictures()) == 3


def test_the_report_shows_it(two):
    page = report([judge(two)])
    assert "Convergence of psgld-sa 70%" in page and "disagree about" in page and "R-hat" in page


def test_a_single_chain_and_too_few_samples(data, finished):
    assert agreement(finished, data) is None  # three samples


def test_errors(two, data, tmp_path):
    with pytest.raises(ValueError, match="chains must be a number from 1 to 1000, got 0"):
        train_chains(short(), data, tmp_path / "run", 0)
    with pytest.raises(ValueError, match="chains must be a number from 1 to 1000, got 1000000000"):
        train_chains(short(), data, tmp_path / "run", 10**30)
    for changes, name in (({"method": "adam"}, "method adam"), ({"samples": 0}, "samples = 0")):
        with pytest.raises(ValueError, match=f"posterior samples, and {name} keeps none"):
            train_chains(short(**changes), data, tmp_path / "run", 2)
    with pytest.raises(ValueError, match="there is no network"):
        train_chains(short(network="tests.surrogates.small:Missing"), data, tmp_path / "run", 2)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"started with sparsity = 0\.7, now it is 0\.5"):
        train_chains(short(samples=4, sparsity=0.5), data, two.path, 3, progress=False)
    with pytest.raises(ValueError, match=r"chain 1 failed: FloatingPointError|chain 0 failed: FloatingPointError"):
        train_chains(short("sgld", step_size=1e9), data, tmp_path / "wild", 2, progress=False)
    part = tmp_path / "part"
    train(short(**FOUR), data, part, progress=False)
    SurrogateRun.at(part / "chain-1", short(chain=1, **FOUR), data).begin()
    with pytest.raises(ValueError, match="chain-1 is not finished: resume it with the same train command"):
        predict(SurrogateRun.open(part, trust=True), np.ones((1, 6, 8)))


def test_interrupted_chains_go_on(data, tmp_path):
    """SIGTERM to the command saves all chains; the same command ends with what an uninterrupted one has."""
    command = ["train", "--data", str(data.folder), "--run", str(tmp_path / "run")]
    options = {"epochs": 800, "batch-size": 8, "samples": 4, "sparsity": 0.7, "chains": 2}
    command += [f"--{name}={value}" for name, value in options.items()] + ["--network=tests.surrogates.small:Small"]
    errors = tmp_path / "errors"
    child = processes.Process(target=run_command, args=(command, str(errors)))
    child.start()
    deadline = time.time() + 100
    history = tmp_path / "run" / "chain-1" / "history.jsonl"
    while not (history.exists() and history.stat().st_size) and time.time() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGTERM)
    child.join(timeout=60)
    message = errors.read_text()
    assert child.exitcode == 75, message
    assert "SIGTERM: stopped" in message and "run the same again to go on" in message
    child = processes.Process(target=run_command, args=(command, str(errors)))
    child.start()
    child.join(timeout=200)
    assert child.exitcode == 0, errors.read_text()
    settings = json.loads((tmp_path / "run" / "artefact.json").read_text())["body"]["settings"]
    whole = train_chains(type(short()).from_json(settings), data, tmp_path / "whole", 2, progress=False)
    assert [content(c) for c in SurrogateRun.open(tmp_path / "run").chains()] == [content(c) for c in whole.chains()]


def test_cycles_take_samples_at_the_end_of_each(data, tmp_path):
    run = train(short(epochs=8, cycles=2, samples=4, sparsity=0.5), data, tmp_path / "run", progress=False)
    steps = [s.step for s in run.bank()]  # 8 epochs of 4 steps, in two cycles of 16
    assert steps == [12, 16, 28, 32]
    weights = [s.weight for s in run.bank()]
    assert weights[:2] == pytest.approx(weights[2:])
    assert weights[0] / weights[1] == pytest.approx(1 + 9 * (1 + math.cos(0.75 * math.pi)) / 2)  # down to a tenth
    masks = {tuple((p == 0).flatten().tolist()) for s in run.bank() for n, p in s.parameters.items() if "3.w" in n}
    assert len(masks) == 1


def test_samples_of_a_cycle_of_prime_length_lie_apart(data, tmp_path):
    run = train(short(epochs=7, cycles=4, samples=8, burn_in=0.0), data, tmp_path / "run", progress=False)
    steps = [s.step for s in run.bank()]  # 7 epochs of 4 steps, in four cycles of 7
    assert steps == [4, 7, 11, 14, 18, 21, 25, 28]
