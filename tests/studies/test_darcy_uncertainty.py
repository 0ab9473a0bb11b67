"""The study of error bars: that test data only judge, what is computed, and what is said of it."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sparse_langevin.posterior import Prediction
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.studies import darcy_uncertainty
from sparse_langevin.studies.darcy_cells import Field, cells, shortened
from sparse_langevin.studies.darcy_study import StudyFolder
from sparse_langevin.studies.darcy_uncertainty import (
    DropoutNetwork,
    auroc,
    contenders,
    dropout_forecast,
    ensemble_forecast,
    examine,
    fitted_noise,
)
from sparse_langevin.studies.darcy_uncertainty_report import claims_table
from sparse_langevin.surrogates import SurrogateRun, surrogate
from sparse_langevin.surrogates.calibration import deviation
from tests.commands import call, refused
from tests.surrogates.small import NETWORK

pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture(scope="module")
def tiny():
    """A small grid and small networks, for this file."""
    original = Field.recipe

    def recipe(self, scale, image):
        made = original(self, scale, image)
        samples = 40 if scale == "small" else 44
        return replace(made, samples=samples, grid=Grid(8, 6), settings=made.settings | {"terms": 4}, test_share=0.25)

    def small(settings):
        network = NETWORK.replace("Small", "Dropped") if "Dropout" in settings.network else NETWORK
        return replace(shortened(settings), network=network, batch_size=8, burn_in=0.6)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Field, "recipe", recipe)
        patch.setattr(darcy_uncertainty, "shortened", small)
        patch.setattr(darcy_uncertainty, "MEMBERS", 2)
        yield


@pytest.fixture(scope="module")
def study(tiny, tmp_path_factory):
    """A finished study, and what stood on the terminal."""
    folder = tmp_path_factory.mktemp("study") / "uncertainty"
    return folder, call("reproduce", "uncertainty", "--out", folder, "--workers", 2)


@pytest.fixture
def one(study):
    """Contenders by name, and the place of their runs."""
    return {c.name: c for c in contenders("small")}, StudyFolder(study[0] / "work", "small")


def runs_of(contender, place):
    return [SurrogateRun.open(place.run(cell), trust=True) for cell in contender.cells]


def test_the_budget_is_the_same():
    ours, single, ensemble, *_ = every = contenders("paper", full_ensemble=True)
    assert [sum(cell.settings.epochs for cell in c.cells) for c in every] == [60, 60, 60, 60, 60, 300]
    everything = [cell for c in every for cell in c.cells]
    assert len({cell.name for cell in everything}) == len(everything) == 14
    assert all(cell.settings.validation == 0.1 for cell in everything)
    assert [cell.settings.seed for cell in ensemble.cells] == list(range(5))
    assert (ours.cells[0].settings.sparsity, ours.cells[0].settings.momentum) == (0.7, 0.9)
    assert [cell.name for cell in everything if cell.keep] == ["psgld-sa"]
    assert [c.name for c in cells("kle", "paper") if c.keep] == ["kle32-psgld-sa-70-seed0"]
    assert len(contenders("paper")) == 5 and single.cells[0].settings.method == "adam"


def test_from_training_to_the_report(study):
    folder, text = study
    found = json.loads((folder / "table.json").read_text())
    assert [r["contender"] for r in found] == ["psgld-sa", "single", "ensemble", "dropout", "light-dropout"]
    assert [(r["epochs"], r["networks"]) for r in found] == [(10, 5), (10, 1), (10, 2), (10, 20), (10, 20)]
    for r in found:
        assert {"e1", "factors", "noise_std", "rank_correlation", "far_ratio", "far_auroc", "parameters"} <= r.keys()
        if r["contender"] == "single":
            assert r["far_ratio_total"] == r["far_ratio"] == 1 and r["far_auroc"] == 0.5 and r["rank_correlation"] == 0
        else:
            assert 1 < r["far_ratio_total"] < r["far_ratio"]  # noise is the same everywhere
        assert r["far_e1"] > r["e1"] and r["far_recalibrated"]["coverage"]["0.9"] < 0.9
        assert r["seconds"] > 0 and r["cpu_seconds"] > 0 and r["scale"] == "small" and r["tests"] == 10
        for key in ("plain", "recalibrated"):
            assert r[key].keys() == {"coverage", "width", "crps", "nll"}
            assert list(r[key]["coverage"]) == list(r[key]["width"]) == ["0.5", "0.8", "0.9", "0.95"]
        low, high = sorted(r["factors"].values())
        assert 0.999 * low <= r["recalibrated"]["width"]["0.9"] / r["plain"]["width"]["0.9"] <= 1.001 * high
    assert found[0]["e1_last"] > 0 and found[1]["e1_last"] is None
    names = {p.name for p in (folder / "figures").iterdir()}
    spread = [r["contender"] for r in found if r["contender"] != "single"]
    assert names == {"reliability.png", "channels.png"} | {f"deviation-{name}.png" for name in spread}
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 6 and "10 epochs in total" in page and "holds" in page
    assert "full runs" not in page
    assert "dropout" in text and "recalibrated" in " ".join(text.split()) and "report.html" in "".join(text.split())
    assert len(list((folder / "work" / "work" / "runs" / "psgld-sa" / "samples").iterdir())) > 1


def test_the_same_command_trains_nothing_again(study):
    folder, _ = study
    table, models = folder / "table.json", sorted(folder.rglob("model.safetensors"))
    before, times = table.read_bytes(), [p.stat().st_mtime_ns for p in models]
    assert len(models) == 6
    call("reproduce", "uncertainty", "--out", folder)
    assert table.read_bytes() == before and [p.stat().st_mtime_ns for p in models] == times


def test_runs_of_another_scale_are_refused(study, monkeypatch, capsys):
    text = refused(monkeypatch, capsys, "reproduce", "uncertainty", "--scale", "paper", "--out", study[0])
    assert "samples" in text and "kle32" in text


def test_test_data_only_judge(one, monkeypatch):
    by_name, place = one
    original = DarcyData.array

    def changed(self, name, split=None):
        rows, test = original(self, name), original(self, "test").astype(bool)
        if name == "velocity":
            rows[test] = 2 * rows[test] + 1
        if name == "kappa":
            rows[test] *= 1.1
        return rows if split is None else rows[test == (split == "test")]

    before = {name: examine(contender, place).record for name, contender in by_name.items()}
    monkeypatch.setattr(DarcyData, "array", changed)
    after = {name: examine(contender, place).record for name, contender in by_name.items()}
    for name, old in before.items():
        new = after[name]
        assert (new["factors"], new["noise_std"]) == (old["factors"], old["noise_std"])
        assert new["e1"] > 2 * old["e1"] and new["plain"]["crps"] > 2 * old["plain"]["crps"]


def test_the_ensemble_is_a_mixture_of_its_members(one):
    by_name, place = one
    runs = runs_of(by_name["ensemble"], place)
    kappa = DarcyData(place.data(darcy_uncertainty.FIELD)).inputs("test")
    forecast = ensemble_forecast(runs, kappa)
    answers = np.stack([run.surrogate().predict(kappa).numpy() for run in runs]).astype(float)
    np.testing.assert_allclose(forecast.mean, answers.mean(0), atol=1e-5)
    np.testing.assert_allclose(forecast.std, answers.std(0), atol=1e-5)
    assert forecast.noise_std is None and forecast.samples == 2
    assert not any(np.allclose(a, b) for a, b in itertools.combinations(answers, 2))


def test_dropout_passes_differ_and_repeat(one, monkeypatch):
    by_name, place = one
    runs = runs_of(by_name["dropout"], place)
    kappa = DarcyData(place.data(darcy_uncertainty.FIELD)).inputs("test")
    before = torch.get_rng_state()
    first = dropout_forecast(runs, kappa)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    second = dropout_forecast(runs, kappa)
    assert torch.equal(first.mean, second.mean) and torch.equal(first.std, second.std)
    assert (first.std > 0).all() and first.samples == 20
    monkeypatch.setattr(surrogate, "BATCH", 3)
    assert (dropout_forecast(runs, kappa).std > 0).all()


def test_the_dropout_network_keeps_the_names_of_its_layers():
    network = DropoutNetwork(Grid(8, 6))
    assert set(DropoutNetwork.SPARSE) <= network.state_dict().keys()
    x = torch.randn(4, 1, 6, 8)
    assert not torch.equal(network(x), network(x))
    network.eval()
    assert torch.equal(network(x), network(x))
    dropped = [name for name, module in network.named_modules() if isinstance(module, torch.nn.Dropout)]
    assert dropped == ["encode.7.1", "decode.7.1"]


def test_noise_is_what_the_deviation_does_not_explain():
    rng = np.random.default_rng(0)
    shape = (400, 500)
    mean, true = np.zeros(shape), 0.5 * rng.standard_normal(shape)
    forecast = Prediction(torch.from_numpy(mean), torch.full(shape, 0.3, dtype=torch.float64))
    assert fitted_noise(true, forecast) == pytest.approx(0.4, rel=0.01)  # 0.5^2 = 0.3^2 + 0.4^2
    assert fitted_noise(0.1 * true, forecast) == 0.0
    np.testing.assert_allclose(deviation(forecast), 0.3)


def test_auroc_is_sklearns():
    rng = np.random.default_rng(0)
    far, near = rng.integers(3, 12, 40).astype(float), rng.integers(0, 9, 60).astype(float)  # with ties
    labels = np.repeat([1, 0], [40, 60])
    assert auroc(far, near) == pytest.approx(roc_auc_score(labels, np.concatenate([far, near])))
    assert auroc(near + 100, near) == 1.0 and auroc(near, near) == 0.5


def record(name, crps, nll, **changes):
    scores = {"coverage": {"0.9": 0.91}, "crps": crps, "nll": nll}
    known = {"e1": 0.5, "e1_last": 0.6, "rank_correlation": 0.5, "far_ratio": 1.9}
    return {"contender": name, "title": name.upper(), "recalibrated": scores} | known | changes


def test_claims_are_judged_from_the_records():
    found = [record("psgld-sa", 0.01, -3.0), record("ensemble", 0.011, -3.1), record("dropout", 0.01, -2.0)]
    rows = [[cell.text for cell in row] for row in claims_table(found).cells()]
    assert [row[-1] for row in rows] == ["yes", "yes", "yes", "yes", "no", "yes", "yes", "no"]
    assert rows[0][1:3] == ["0.500 %", "below 0.600 %"]
    assert rows[4][:3] == ["NLL no worse than that of ENSEMBLE, both recalibrated", "-3.000", "at most -3.100"]
    found[0] |= {"e1": 0.6, "rank_correlation": 0.49, "far_ratio": 2.0}
    found[0]["recalibrated"]["coverage"]["0.9"] = 0.93
    verdicts = [row[-1].text for row in claims_table(found).cells()]
    assert verdicts == ["no", "no", "yes", "yes", "no", "yes", "no", "yes"]
