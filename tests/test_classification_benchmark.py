"""The benchmark of classification at a toy scale: what it reads, counts, resumes and writes."""

import gzip
import json
import math
import re
import struct

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from benchmarks.classification import __main__ as command
from benchmarks.classification import budget, data, field, harness, idx, network, page, predictors, scores
from benchmarks.classification.contenders import Run, Trained, adam, ours
from benchmarks.classification.harness import Harness, Scale
from benchmarks.classification.records import Records
from sparse_langevin.storage.errors import DamagedError

TINY = Scale(epochs=20.0, probe=(3, 1), final_probe=(3, 1), passes=2, attacked=8)


def idx_bytes(array, magic=None):
    header = struct.pack(">HBB", 0, 8, array.ndim) if magic is None else magic
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()


def write_data(folder, train=240, test=30):
    """Ten classes of images, each with a bright row of its own."""
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("t10k", test)):
        labels = np.arange(count) % 10
        images = rng.integers(0, 80, (count, 28, 28))
        images[np.arange(count), 2 * labels + 4] = 255
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("fashion"))


@pytest.fixture
def few(monkeypatch):
    """One trial for each contender."""
    monkeypatch.setattr(harness, "TRIALS", {cell: trials[:1] for cell, trials in field.TRIALS.items()})


def test_files_are_read(folder, tmp_path):
    loaded = data.load(folder)
    assert loaded.train[0].shape == (200, 1, 28, 28) and loaded.validation[0].shape == (40, 1, 28, 28)
    assert loaded.validation[1].tolist() == [i % 10 for i in range(200, 240)]  # the last ones
    assert loaded.test[0].max() == 1.0 and loaded.test[1].dtype == torch.int64
    column = loaded.outside["rotated"][3, 0, :, 10]  # a row of class 3 stands upright now, counted from the left
    assert bool((column == 1).all())
    assert loaded.outside["digits"].shape == (1797, 1, 28, 28) and 0.9 < loaded.outside["digits"].max() <= 1
    plain = tmp_path / "plain"
    plain.write_bytes(idx_bytes(np.arange(6).reshape(1, 2, 3)))
    assert idx.read(plain, 3).tolist() == [[[0, 1, 2], [3, 4, 5]]]


GOOD = idx_bytes(np.zeros((2, 3, 3)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x80\x04\x95\x00", "begins with 80049500, but"),  # of a pickle
        (idx_bytes(np.zeros((2, 3, 3)), b"\0\0\x0d\x03"), "begins with 00000d03"),  # floats
        (idx_bytes(np.zeros(4)), "3 dimensions"),
        (GOOD[:9], "ends within its header"),
        (GOOD[:-1], "needs 18 bytes, but has only 17"),
        (GOOD + b"x", "but has more"),
        (GOOD[:4] + b"\xff" * 12, "declares the shape"),
        (GOOD[:4] + b"\0" * 12, r"declares the shape \(0, 0, 0\)"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_that_are_refused(tmp_path, content, message, packed):
    path = tmp_path / ("file.gz" if packed else "file")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(ValueError, match=message):
        idx.read(path, 3)


def test_files_that_are_cut_or_do_not_match(folder, tmp_path, capsys):
    broken = write_data(tmp_path)
    path = broken / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        data.load(broken)
    path.write_bytes(gzip.compress(idx_bytes(np.zeros((29, 28, 28)))))
    with pytest.raises(ValueError, match=r"\(29, 28, 28\) and 30 labels"):
        data.load(broken)
    assert command.main(["--data", str(broken), "--out", str(tmp_path / "out")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_data_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data, "FOLDER", tmp_path)
    out = tmp_path / "out"
    assert command.main(["--out", str(out)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "dataset-fashion-mnist" in line and "--data FOLDER" in line and not out.exists()
    assert command.main(["--data", str(tmp_path), "--out", str(out)]) == 2  # what was asked for is not there


def test_everything_runs_resumes_and_is_written(folder, tmp_path, few, monkeypatch, capsys):
    monkeypatch.setattr(command, "Harness", lambda loaded, out: Harness(loaded, out, TINY))
    monkeypatch.setattr(network, "CNN", Small)
    where = tmp_path / "page.md"
    where.write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    words = ["--data", str(folder), "--out", str(tmp_path / "out"), "--page", str(where), "--seeds", "0", "1"]
    assert command.main([*words, "--only", "adam", "ours", "ensemble-full"]) == 0
    first = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.jsonl")}
    assert set(first) == {"costs.jsonl", "search.jsonl", "table.jsonl"}
    records = [json.loads(line) for line in first["table.jsonl"].splitlines()]
    assert len(records) == 3 * 2 * 2
    for record in records:
        assert record["share_of_zeros"] == pytest.approx(record["zeros"], abs=0.005)
        assert record["cpu_seconds"] > 0 and record["versions"]["torch"] == torch.__version__
        assert set(record["test"]) >= {"accuracy", "nll", "brier", "ece", "auroc_digits", "auroc_rotated", "fgsm"}
    text = where.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "**90% zeros**, seeds 0, 1:" in text and text.count("| sparse-langevin |") == 8

    trained = []
    monkeypatch.setattr(Harness, "_train", lambda *a, **k: trained.append(a))
    assert command.main([*words, "--only", "adam", "ours", "ensemble-full"]) == 0
    assert not trained and where.read_text() == text
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.jsonl")}
    (tmp_path / "out" / "table.jsonl").write_bytes(first["table.jsonl"].replace(b"accuracy", b"accuracx", 1))
    with pytest.raises(DamagedError, match="line 1"):
        Harness(data.load(folder), tmp_path / "out", TINY)
    capsys.readouterr()
    assert command.main(words) == 2 and "checksum" in capsys.readouterr().err


class Small(nn.Module):
    """Stands in for the network."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.dense1, self.dense2, self.dropout = nn.Linear(784, 16), nn.Linear(16, 10), dropout

    def forward(self, x):
        hidden = functional.dropout(functional.relu(self.dense1(x.flatten(1))), self.dropout, self.training)
        return self.dense2(hidden)


@pytest.mark.parametrize("name", ["dropout", "ensemble"])
@pytest.mark.parametrize("zeros", field.SHARES)
def test_other_rivals_run(folder, tmp_path, few, name, zeros, monkeypatch):
    monkeypatch.setattr(network, "CNN", Small)
    bench = Harness(data.load(folder), tmp_path, TINY)
    (trial,) = bench.tried((name, zeros))
    record = bench.final((name, zeros), 3)
    assert record["settings"] == trial["settings"] and record["samples"] == (2 if name == "dropout" else 5)
    assert record["test"]["auroc_digits"]["mutual_information"] != 0.5


def test_sghmc_follows_its_equations(monkeypatch):
    """The first two steps without noise, against the formulas of Chen et al. written out."""
    pytest.importorskip("posteriors", reason="one of the extras of bench", exc_type=ImportError)
    from benchmarks.classification.contenders import sghmc

    monkeypatch.setattr(network, "CNN", Small)
    x, y = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
    settings = {"step_size": 0.1, "final": 1.0, "batch_size": 20, "sigma0": 0.5, "temperature": 0.0}
    settings |= {"noise_from": 1.0, "sampled_from": 0.5, "samples": 1}
    trained = sghmc((x, y), settings, Run(steps=2, seed=1))
    model = network.make(1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    loss = functional.cross_entropy(model(x), y) + sum(p.square().sum() for p in model.parameters()) * 2.0 / 20
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    moved = {n: before[n] - 0.1 * 0.1 * g for n, g in zip(before, gradients, strict=True)}  # in the second step
    expected = torch.func.functional_call(model, moved, (x,))
    ((_, forward),) = trained.predictor.weighted()
    assert torch.allclose(forward(x), expected, atol=1e-6)


def test_equal_cpu_time(folder, tmp_path, monkeypatch):
    bench = Harness(data.load(folder), tmp_path, Scale(epochs=6.0))
    settings = dict(field.REFERENCE)
    assert bench.steps(("adam", 0.0), settings) == 12  # 6 epochs of 200 images in batches of 100
    assert bench.steps(("ensemble-full", 0.0), settings) == 12 and bench.steps(("ensemble", 0.0), settings) == 2
    monkeypatch.setattr(budget, "relative_cost", lambda *a, **k: 0.5)
    assert bench.steps(("ours", 0.9), settings | {"batch_size": 50}) == 24
    monkeypatch.setattr(budget, "relative_cost", lambda *a, **k: pytest.fail("it is recorded"))
    assert bench.steps(("ours", 0.9), settings | {"batch_size": 50}) == 24
    monkeypatch.setattr(budget, "relative_cost", lambda *a, **k: 0.4)  # measured again, with these very settings
    assert bench.steps(("ours", 0.9), settings | {"batch_size": 50}, final=True) == 30
    assert bench.steps(("ours", 0.9), settings | {"batch_size": 50}) == 24
    assert bench.steps(("ensemble-full", 0.0), settings, final=True) == 12


def test_the_cost_of_a_step_is_that_of_its_cpu_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(budget.time, "process_time", lambda: clock[0])

    def steps_of(seconds):
        def train(part, settings, run):
            clock[0] += 100.0  # setting up is no part of a step
            for _ in range(run.steps):
                clock[0] += seconds
                run.tick()

        return train

    monkeypatch.setattr(budget, "adam", steps_of(2.0))
    assert budget.relative_cost(steps_of(3.0), {}, 0.0, (), steps=5, rounds=2) == pytest.approx(1.5)


def test_every_contender_has_as_many_trials_of_its_own():
    for zeros in field.SHARES:
        assert len({len(trials) for (_, share), trials in field.TRIALS.items() if share == zeros}) == 1
    for trials in field.TRIALS.values():
        assert len({json.dumps(settings, sort_keys=True) for settings in trials}) == len(trials)
    assert {(n, z) for n in field.CONTENDERS for z in field.SHARES} - set(field.TRIALS) == {
        ("ensemble-full", zeros) for zeros in field.SHARES
    }


def test_the_best_on_validation_is_chosen(folder, tmp_path, monkeypatch):
    trials = [dict(field.REFERENCE, step_size=size) for size in (0.1, 0.2, 0.3)]
    monkeypatch.setattr(harness, "TRIALS", {("adam", 0.0): trials})
    found = iter([0.5, 0.3, 0.4])
    monkeypatch.setattr(scores, "basic", lambda *a: {"nll": next(found), "accuracy": 0.0, "ece": 0.0})
    nothing = Trained(predictors.Members([lambda x: torch.zeros(len(x), 10)]), 0.0)
    monkeypatch.setattr(Harness, "_train", lambda *a, **k: (nothing, {"cpu_seconds": 1.0}))
    bench = Harness(data.load(folder), tmp_path, TINY)
    assert bench.chosen(("adam", 0.0)) is None
    with pytest.raises(RuntimeError, match="run the search first"):
        bench.final(("adam", 0.0), 0)
    bench.tried(("adam", 0.0))
    assert bench.chosen(("adam", 0.0)) == bench.chosen(("ensemble-full", 0.0)) == trials[1]


def test_a_trial_that_diverges_is_recorded_and_lost(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "CNN", Small)
    trials = [dict(field.REFERENCE, step_size=size) for size in (1e30, 1e-3)]
    monkeypatch.setattr(harness, "TRIALS", {("adam", 0.0): trials})
    bench = Harness(data.load(folder), tmp_path, TINY)
    lost, fine = bench.tried(("adam", 0.0))
    assert lost["validation"] is None and "diverged" in lost["failed"] and fine["validation"]["nll"] < 3
    command.tell(lost, lost["validation"], "validation")
    assert bench.chosen(("adam", 0.0)) == trials[1]


def test_the_network_and_its_zeros():
    model = network.make(0)
    assert sum(p.numel() for p in model.parameters()) == 206_922
    assert sum(p.numel() for p in model.parameters() if p.dim() > 1) == 206_736
    pruner = network.Pruner(model, network.plan(0.9, {"pruned_by": 0.5}, 100))
    for step in range(1, 101):
        with torch.no_grad():
            pruner.flat.vector.add_(0.001)
        pruner(step)
    assert network.share_of_zeros(model) == pytest.approx(0.9, abs=1e-4)
    assert pruner.mask.plan.start == 5 and pruner.mask.plan.end == 50 and network.plan(0.0, {}, 100) is None


def test_the_attack_is_the_gradient_of_the_mean_predictive():
    torch.manual_seed(0)
    models = [Small().double() for _ in range(3)]
    x, y = torch.rand(6, 1, 28, 28).double(), torch.arange(6)
    found = scores.attack(predictors.Members([predictors.fixed(m) for m in models]), (x, y))
    pixels = x.clone().requires_grad_()
    mean = torch.stack([m(pixels).softmax(1) for m in models]).mean(0)
    (gradient,) = torch.autograd.grad(functional.nll_loss(mean.log(), y), pixels)
    assert torch.equal(found, gradient.sign().float())


def test_doubt_of_members_and_of_a_bank_agree(folder, monkeypatch):
    monkeypatch.setattr(network, "CNN", Small)
    loaded = data.load(folder)
    settings = dict(field.TRIALS["ours", 0.0][0], samples=4, sampled_from=0.5, final=1.0)
    trained = ours(loaded.train, settings, Run(steps=40, seed=0))
    opinion = trained.predictor.classify(loaded.test[0])
    weights, forwards = zip(*trained.predictor.weighted(), strict=True)
    assert len(set(weights)) == 1 and trained.notes["warmth"] > 0  # the step is constant, so all samples count alike
    alike = predictors.Members(list(forwards)).classify(loaded.test[0])
    assert np.allclose(opinion.probabilities, alike.probabilities, atol=1e-5)
    assert np.allclose(opinion.mutual_information, alike.mutual_information, atol=1e-5)
    assert (opinion.entropy <= math.log(10) + 1e-6).all()


def test_a_member_of_dropout_keeps_its_masks():
    torch.manual_seed(0)
    one, two = predictors.dropped(Small(0.5), 2)
    x = torch.rand(5, 1, 28, 28)
    assert torch.equal(one(x), one(x)) and not torch.equal(one(x), two(x))


def test_adam_learns_the_toy(folder):
    loaded = data.load(folder)
    trained = adam(loaded.train, dict(field.REFERENCE, batch_size=20), Run(steps=60, seed=0))
    assert scores.basic(trained.predictor.classify(loaded.test[0]), loaded.test[1])["accuracy"] > 0.9


def test_the_page_needs_its_marks(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="restore them"):
        page.enter(path, "text")


RECORDS, PAGE = command.ROOT / "results" / "classification", command.ROOT / "docs" / "classification.md"


def test_no_trial_was_left_out():
    """All that was tried on the data of record counts as a trial of its contender."""
    tried = [(r["contender"], r["zeros"], r["settings"]) for r in Records(RECORDS / "search.jsonl").all]
    assert tried and all(settings in field.TRIALS[name, zeros] for name, zeros, settings in tried)


def test_the_page_is_made_of_the_records():
    """If not, the same command writes it anew."""
    cells = [(name, zeros) for zeros in field.SHARES for name in field.CONTENDERS]
    text = page.render(Harness(None, RECORDS).finished(cells))
    assert PAGE.read_text().split(page.BEGIN)[1].split(page.END)[0] == text


@pytest.mark.filterwarnings("ignore:the chain is too warm")  # as the page says
def test_the_recipe_of_the_page():
    names = {"__name__": "recipe"}  # a warning looks for the module that it is about
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(block, names)
    assert names["scores"].count == 597 and names["scores"].accuracy > 0.9 and names["scores"].ece < 0.06
    assert names["sampler"].sparsity == pytest.approx(0.9, abs=1e-3) and len(names["bank"]) == 20
