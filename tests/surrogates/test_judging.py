"""What is computed once and kept, that a bank is read once, and what is said of inputs out of range."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from sparse_langevin.posterior.reading import Reader
from sparse_langevin.problems.darcy import DarcyData, Grid, Recipe, generate
from sparse_langevin.problems.darcy.problem import DarcyProblem
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.lines import write_line
from sparse_langevin.surrogates import SurrogateRun, evaluate, train
from sparse_langevin.surrogates import calibration as surrogate_calibration
from sparse_langevin.surrogates.calibration import run_factors
from sparse_langevin.surrogates.chains import train_chains
from sparse_langevin.surrogates.evaluation import baselines
from sparse_langevin.surrogates.ranges import outside, range_of
from sparse_langevin.surrogates.report import judge, report
from tests.commands import call
from tests.surrogates.conftest import short
from tests.surrogates.small import NETWORK


@pytest.fixture
def counted(monkeypatch):
    """Counts the calls of what is slow."""
    calls = Counter()

    def count(owner, name):
        original = getattr(owner, name)

        def counting(*args, **kwargs):
            calls[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(DarcyProblem, "baselines")
    count(surrogate_calibration, "find_factors")
    count(Reader, "sample")
    return calls


@pytest.fixture
def copied(data, tmp_path):
    """The data set in a folder without anything that was computed from it."""
    shutil.copytree(data.folder, tmp_path / "data", ignore=shutil.ignore_patterns("baselines*"))
    return DarcyData(tmp_path / "data")


def test_rivals_are_computed_once(copied, counted):
    zero = lambda inputs: np.zeros((len(inputs), copied.grid.edges))  # noqa: E731
    first = evaluate(zero, copied).baselines
    assert counted["baselines"] == 1
    (kept,) = copied.folder.glob("baselines-*")
    assert evaluate(zero, DarcyData(copied.folder)).baselines == first and counted["baselines"] == 1
    mean = copied.outputs("train").mean(0)
    apart = copied.problem.errors(np.tile(mean, (10, 1)), copied.outputs("test"), copied.inputs("test"))
    assert first[0].name == "training mean" and first[0].errors["e1"] == pytest.approx(apart["e1"].mean())
    content = kept.read_bytes()
    for damaged in (b"", content[:-20], bytes([content[0] ^ 1]) + content[1:], content.replace(b"0.", b"1."), b"{}\n"):
        before = counted["baselines"]
        kept.write_bytes(damaged)
        assert baselines(copied) == first and counted["baselines"] == before + 1
        assert kept.read_bytes() == content
    assert baselines(copied, "train") != first  # each part has its own


def test_rivals_of_other_data_are_not_taken(copied, data, counted, tmp_path):
    baselines(copied)
    recipe = Recipe("kle", 20, Grid(8, 6), {"terms": 3}, test_share=0.25)
    other = generate(recipe, tmp_path / "other", workers=0)
    shutil.copy(copied.folder / "baselines-test.jsonl", other.folder)
    assert baselines(other) != baselines(copied) and counted["baselines"] == 2


def test_rivals_of_another_version_are_computed_again(copied, counted, monkeypatch):
    baselines(copied)
    kept = copied.folder / "baselines-test.jsonl"
    content = kept.read_bytes()
    monkeypatch.setattr(DarcyProblem, "baselines_version", 2)
    baselines(copied)
    baselines(copied)
    assert counted["baselines"] == 2 and kept.read_bytes() != content
    monkeypatch.undo()
    kept.write_bytes(write_line({"data": copied.fingerprint, "baselines": []}))  # from before versions were kept
    assert baselines(copied) and kept.read_bytes() == content


def test_factors_are_kept_and_found_again_with_more_chains(data, counted, tmp_path, forked):
    settings = short(validation=0.3, samples=4)
    run = train(settings, data, tmp_path / "run", progress=False)
    first = run_factors(run)
    assert counted["find_factors"] == 1 and first.count == 9 * data.grid.edges
    assert run_factors(SurrogateRun.open(run.path)) == first and counted["find_factors"] == 1  # without the network
    judged = judge(run)
    assert judged.trust.factors == first and counted["find_factors"] == 1
    kept = run.path / "recalibration.jsonl"
    content = kept.read_bytes()
    for damaged in (b"", content[:-9], content.replace(b"0.", b"1.")):
        before = counted["find_factors"]
        kept.write_bytes(damaged)
        assert run_factors(run) == first and counted["find_factors"] == before + 1 and kept.read_bytes() == content
    before = counted["find_factors"]
    grown = train_chains(settings, data, run.path, 2, progress=False)
    second = run_factors(grown)
    assert second != first and counted["find_factors"] == before + 1
    assert run_factors(grown) == second and counted["find_factors"] == before + 1


def test_judging_decodes_each_sample_once(data, finished, counted):
    judged = judge(finished, data)
    assert counted["sample"] == len(finished.bank()) == judged.prediction.samples == 3


def test_a_report_of_one_test_example(tmp_path):
    recipe = Recipe("kle", 12, Grid(8, 6), {"terms": 3}, test_share=1 / 12)
    data = generate(recipe, tmp_path / "data", workers=0)
    run = train(short(samples=4, validation=0.2), data, tmp_path / "run", progress=False)
    judged = judge(run)
    assert len(judged.best) == 1 and judged.trust.rank_correlation == 0.0
    page = report([judged])
    assert "1 test example" in page and page.count("data:image/png;base64,") == 1 + 1 + 2 + 2 + 1


def test_inputs_out_of_range_are_said(data, finished, tmp_path):
    low, high = (float(f(data.inputs("train"))) for f in (np.min, np.max))
    known = finished.result["input_range"]
    assert known == {"low": low, "high": high}
    inside, beyond = data.inputs("train")[:3], data.inputs("train")[:3].copy()
    beyond[1, 2, 5], beyond[2, 0, 0] = 3 * high, 1.5 * high
    assert outside(data.inputs("test"), known) is None  # although single cells may be beyond what was there in training
    assert outside(inside, known) is None and outside(beyond, None) is None and outside(inside[:0], known) is None
    text = outside(beyond, known)
    assert text.startswith("2 of 3 inputs have values outside the range of the training data; the worst is number 1")
    assert f"with {3 * high:.4g}, where training had {low:.4g} to {high:.4g}. " in text
    call("export", finished.path, "--network", NETWORK, "--out", tmp_path / "small")
    for name, inputs, said in (("inside", inside, False), ("beyond", beyond, True)):
        np.save(tmp_path / f"{name}.npy", inputs)
        for folder in (finished.path, tmp_path / "small"):
            output = tmp_path / f"{name}-{folder.name}.npz"
            printed = call(
                "predict", folder, "--network", NETWORK, "--input", tmp_path / f"{name}.npy", "--out", output
            )
            assert ("warning: 2 of 3 inputs" in printed) == said and output.exists()


def test_vectors_have_a_range_for_each_entry_and_fields_one_for_all():
    rng = np.random.default_rng(0)
    vectors = rng.uniform([0, 100, -5], [1, 200, 5], size=(50, 3))
    known = range_of(vectors)
    assert known == {"low": vectors.min(0).tolist(), "high": vectors.max(0).tolist()}
    assert outside(vectors, known) is None
    strange = np.array([[0.5, 150.0, 0.0], [150.0, 150.0, 0.0]])  # usual for the second entry, not for the first
    text = outside(strange, known)
    assert text.startswith("1 of 2 inputs") and "number 1 with 150 in entry 0, where training had" in text
    assert f"{vectors[:, 0].min():.4g} to {vectors[:, 0].max():.4g}" in text
    for shape in ((5, 4, 4), (5, 10, 10), (5, 100)):
        fields = rng.uniform(1, 2, size=shape)
        assert range_of(fields) == {"low": fields.min(), "high": fields.max()}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("result.json", lambda run: run.result),
        ("model.safetensors", SurrogateRun.surrogate),
        ("history.jsonl", SurrogateRun.history),
    ],
)
def test_flipped_bits_of_a_finished_run_are_noticed(name, read, data, finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    file = tmp_path / "run" / name
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in (0, len(content) - 1, *rng.integers(len(content), size=20)):
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        run = SurrogateRun.open(tmp_path / "run", trust=True)
        with pytest.raises(DamagedError, match=f"{name} is damaged: it does not match its SHA-256"):
            read(run)
    file.write_bytes(content)
    run = SurrogateRun.open(tmp_path / "run", trust=True)
    assert run.result == finished.result and run.history() == finished.history()
    np.testing.assert_array_equal(
        run.surrogate().predict(data.inputs("test")), finished.surrogate().predict(data.inputs("test"))
    )
    assert replace(run, path=finished.path) == finished


def test_a_run_that_is_far_worse_than_the_mean_is_announced(data, finished, monkeypatch, capsys):
    good = judge(finished, data)
    assert good.alarm is None and "Warning: the error" not in report([good])
    worst = {name: 1e4 * errors for name, errors in good.best.errors.items()}
    bad = replace(good, averaged=replace(good.best, errors=worst))
    assert "times that of the training mean. The run has diverged, or has hardly begun" in bad.alarm
    assert "The run has diverged" in report([good, bad])
