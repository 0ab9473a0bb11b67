"""Training: what a finished run holds, and that it is the same however often it was interrupted."""

import random
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune as torch_prune

from sparse_langevin import Pruning
from sparse_langevin.problems.darcy import DarcyData, Grid, Recipe, generate
from sparse_langevin.sampling.training import CLOCKS
from sparse_langevin.storage.artefact import Artefact
from sparse_langevin.storage.runs import RUN
from sparse_langevin.surrogates import SurrogateRun, evaluate, train
from sparse_langevin.surrogates.adam import Adam
from sparse_langevin.surrogates.export import export_run, load_exported
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.settings import DEFAULTS
from tests.processes import processes
from tests.surrogates import kill_worker
from tests.surrogates.conftest import short
from tests.surrogates.small import Unlayered


def predicting(run):
    surrogate = run.surrogate()
    return lambda inputs: surrogate.predict(inputs).numpy()


def model(run):
    return (run.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("method", DEFAULTS)
def test_exactly_the_target_share_of_zeros(method, data, tmp_path):
    run = train(short(method, sparsity=0.7), data, tmp_path / "run", progress=False)
    sizes = {"network.layers.1.weight": 48 * 20, "network.layers.3.weight": 20 * data.grid.edges}
    assert {name: layer["size"] for name, layer in run.result["layers"].items()} == sizes
    weights = dict(run.surrogate().named_parameters())
    for name, size in sizes.items():
        assert int((weights[name] == 0).sum()) == round(0.7 * size) == run.result["layers"][name]["zeros"]
    assert run.result["zeros"] == sum(round(0.7 * size) for size in sizes.values())
    assert not (weights["network.layers.1.bias"] == 0).any()


def test_a_dense_run_has_no_zeros(data, tmp_path):
    assert train(short("psgld"), data, tmp_path / "run", progress=False).result["zeros"] == 0


def test_the_saved_model_predicts_what_the_history_says(data, finished):
    """Normalisation travels with the weights: raw in, raw out."""
    errors = evaluate(predicting(finished), data)
    last = finished.history()[-1]
    assert 100 * errors.mean("e1") == pytest.approx(last["e1"], rel=1e-5)
    assert 100 * errors.mean("e2") == pytest.approx(last["e2"], rel=1e-5)
    assert last["epoch"] == 4 and last["seconds"] > 0 and last["cpu_seconds"] > 0


def test_lognormal_fields_go_in_as_logarithms(tmp_path):
    recipe = Recipe("kle", 40, Grid(8, 6), {"terms": 4, "mode": "lognormal", "kappa_0": 1.0}, test_share=0.25)
    data = generate(recipe, tmp_path / "data", workers=0)
    run = train(short("adam"), data, tmp_path / "run", progress=False)
    assert run.surrogate().codec.kappa_log == 1
    errors = evaluate(predicting(run), data)
    assert 100 * errors.mean("e1") == pytest.approx(run.history()[-1]["e1"], rel=1e-5)
    onnxruntime = pytest.importorskip("onnxruntime")
    export_run(run, tmp_path / "small", onnx=True)
    kappa = data.array("kappa", "test").astype(np.float32)
    (velocity,) = onnxruntime.InferenceSession(tmp_path / "small" / "network.onnx").run(None, {"input": kappa})
    np.testing.assert_allclose(velocity, run.surrogate().predict(kappa), rtol=1e-4, atol=1e-4)


def test_training_beats_the_mean_predictor(data, tmp_path):
    run = train(short("psgld", epochs=150, step_size=3e-3), data, tmp_path / "run", progress=False)
    errors = evaluate(predicting(run), data)
    assert errors.mean("e1") < 0.75 * errors.baselines[0].errors["e1"]


def test_a_finished_run_is_not_trained_again(data, finished):
    before = {p: p.read_bytes() for p in finished.path.rglob("*") if p.is_file()}
    again = train(finished.settings, data, finished.path, progress=False)
    assert {p: p.read_bytes() for p in finished.path.rglob("*") if p.is_file()} == before
    assert again.result == finished.result


@pytest.mark.parametrize("method", ["psgld-sa", "adam"])
def test_killed_ten_times_it_ends_with_the_same_record(method, data, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    settings = short(method, sparsity=0.5, epochs=12, network="tests.surrogates.small:Reversed")
    launch(settings, data, whole)
    for step in sorted(random.Random(method).sample(range(1, 48), 10)):
        assert launch(settings, data, killed, kill_at=step) == -signal.SIGKILL
    assert launch(settings, data, killed) == 0
    assert comparable(killed) == comparable(whole)


def launch(settings, data, folder, **options):
    process = processes.Process(
        target=kill_worker.run, args=(settings.as_json(), str(data.folder), str(folder)), kwargs=options
    )
    process.start()
    process.join()
    return process.exitcode


def comparable(folder):
    """All that a run leaves, without the seconds it took."""
    run = SurrogateRun.open(folder)
    history = [{k: v for k, v in record.items() if k not in CLOCKS} for record in run.history()]
    result = {k: v for k, v in run.result.items() if k not in CLOCKS}
    samples = {p.name: p.read_bytes() for p in sorted((folder / "samples").glob("*"))}
    return history, result, samples, (folder / "model.safetensors").read_bytes()


def test_validation_data_are_not_trained_on(data, tmp_path):
    """Changing the part that is set apart changes what is watched, and nothing else."""
    other = tmp_path / "arrays.npz"
    kappa, velocity = data.array("kappa"), data.array("velocity")
    velocity[:6] *= 3.0  # the first 20 % of the 30 training samples
    np.savez(other, kappa=kappa, velocity=velocity)
    recipe = Recipe("arrays", 40, data.grid, {"file": str(other), "any_residual": True}, test_share=0.25)
    changed = generate(recipe, tmp_path / "changed", workers=0)
    runs = [
        train(short(validation=0.2), d, tmp_path / f"run-{i}", progress=False) for i, d in enumerate((data, changed))
    ]
    assert model(runs[0]) == model(runs[1])
    assert runs[0].history()[-1]["e1"] != runs[1].history()[-1]["e1"]


def test_adam_is_torchs_adam():
    torch.manual_seed(0)
    mine, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(mine.state_dict())
    chain, optimiser = Adam(mine, step_size=1e-2), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for _ in range(20):
        x, y = torch.randn(7, 5), torch.randn(7, 3)
        chain.step((x, y))
        optimiser.zero_grad()
        nn.functional.mse_loss(theirs(x), y).backward()
        optimiser.step()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_adam_prunes_as_torch_does():
    torch.manual_seed(0)
    model = nn.Linear(30, 20)
    chain = Adam(model, step_size=1e-2, sparse=["weight"], pruning=Pruning(0.6, end=1))
    x, y = torch.randn(50, 30), torch.randn(50, 20)
    free = nn.Linear(30, 20)
    free.load_state_dict(model.state_dict())
    Adam(free, step_size=1e-2).step((x, y))
    chain.step((x, y))
    torch_prune.l1_unstructured(free, "weight", amount=0.6)
    torch.testing.assert_close(model.weight, free.weight)
    for _ in range(5):
        chain.step((x, y))
    assert int((model.weight == 0).sum()) == 360 and chain.sparsity == pytest.approx(0.6)


@pytest.mark.parametrize("network", ["Tied", "Doubled", "Lazy", "Normed", "Measured"])
def test_unusual_networks(network, data, tmp_path):
    run = train(
        short(sparsity=0.5, network=f"tests.surrogates.small:{network}"), data, tmp_path / "run", progress=False
    )
    kappa = data.inputs("test")
    assert predict(run, kappa).samples == 3
    export_run(run, tmp_path / "small", values="float32")
    again = load_exported(tmp_path / "small", trust=True).predict(kappa)
    torch.testing.assert_close(again, predict(run, kappa, last=True).mean, rtol=1e-5, atol=1e-5)


def test_batch_norm_is_refused_before_anything_is_trained(data, tmp_path):
    settings = short(network="tests.surrogates.small:BatchNormed")
    with pytest.raises(ValueError, match=r"BatchNormed has a BatchNorm layer in training mode.*GroupNorm or LayerNorm"):
        train(settings, data, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_network_that_has_changed_since(data, tmp_path, monkeypatch):
    run = train(short(), data, tmp_path / "run", progress=False)
    monkeypatch.setattr("tests.surrogates.small.Small", Unlayered)
    with pytest.raises(ValueError, match="has changed since it was trained in"):
        SurrogateRun.open(run.path, trust=True).surrogate()


def test_data_are_found_through_links(data, tmp_path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "deep")
    run = train(short(epochs=2, samples=0), data, tmp_path / "link" / "run", progress=False)
    assert SurrogateRun.open(tmp_path / "link" / "run").find_data().folder.samefile(data.folder)
    assert SurrogateRun.open(run.path.resolve()).find_data().folder.samefile(data.folder)


def test_units_that_single_precision_cannot_hold(data, tmp_path):
    kappa, velocity = data.array("kappa"), data.array("velocity")
    for name, arrays, message in (
        ("kappa", (kappa * 1e200, velocity), r"kappa reaches .*e.200, more than single precision can hold"),
        ("velocity", (kappa, velocity * 1e200), r"single precision cannot hold .*outputs up to .*e.20.\): choose"),
    ):
        np.savez(tmp_path / f"{name}.npz", kappa=arrays[0], velocity=arrays[1])
        recipe = Recipe("arrays", 40, data.grid, {"file": str(tmp_path / f"{name}.npz"), "any_residual": True})
        big = generate(recipe, tmp_path / name, workers=0)
        with pytest.raises(ValueError, match=message):
            train(short(), big, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_a_network_with_dropout_is_determined_by_the_settings(data, tmp_path):
    settings = short(network="tests.surrogates.small:Dropped")
    models = []
    for name in "ab":
        torch.manual_seed(ord(name))  # what else has happened in the process does not matter
        models.append(model(train(settings, data, tmp_path / name, progress=False)))
    assert models[0] == models[1]


def test_a_device_that_is_not_there(data, tmp_path):
    with pytest.raises(ValueError, match="torch cannot use the device 'abacus' on this machine: "):
        train(short(), data, tmp_path / "run", device="abacus")
    with pytest.raises(ValueError, match="torch cannot use the device 'meta' on this machine: "):
        train(short(), data, tmp_path / "run", device="meta")
    assert not (tmp_path / "run").exists()


def test_a_link_to_itself_is_no_folder(data, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        train(short(), data, tmp_path / "loop", progress=False)


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", DEFAULTS)
def test_an_accelerator_gives_nearly_the_same(method, data, tmp_path):
    device = torch.accelerator.current_accelerator()
    settings = short(method, sparsity=0.5)
    here = train(settings, data, tmp_path / "here", progress=False)
    there = train(settings, data, tmp_path / "there", device=device, progress=False)
    kappa = data.inputs("test")
    first, second = predict(here, kappa), predict(there, kappa, device=device)
    scale = float(first.mean.std())
    torch.testing.assert_close(second.mean, first.mean, rtol=0, atol=0.01 * scale)
    assert there.result["zeros"] == here.result["zeros"]


def test_samples_from_the_first_step_on(data, tmp_path):
    settings = short(burn_in=0.0, samples=16)
    assert settings.warmup == settings.noise_from == 0
    run = train(settings, data, tmp_path / "run", progress=False)
    assert [s.step for s in run.bank()] == list(range(1, 17))


def test_a_folder_of_another_run_is_refused(data, finished, tmp_path):
    before = (finished.path / "artefact.json").read_bytes()
    with pytest.raises(ValueError, match=r"was started with sparsity = 0\.7, now it is 0\.5"):
        train(short(sparsity=0.5), data, finished.path)
    other = generate(Recipe("kle", 40, Grid(8, 6), {"terms": 5}, test_share=0.25), tmp_path / "other", workers=0)
    with pytest.raises(ValueError, match="is another: use the same data"):
        train(finished.settings, other, finished.path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match="is not a run of ours"):
        train(short(), data, tmp_path / "mine")
    assert (finished.path / "artefact.json").read_bytes() == before


def test_a_run_of_fit_is_not_a_surrogates(data, tmp_path):
    Artefact.claim(tmp_path / "fit", RUN)
    with pytest.raises(ValueError, match="is a run of fit, not of a surrogate"):
        SurrogateRun.open(tmp_path / "fit")
    with pytest.raises(ValueError, match="is a run of fit, not of a surrogate"):
        train(short(), data, tmp_path / "fit", progress=False)


def test_the_data_are_found_from_anywhere(finished, tmp_path, monkeypatch):
    """Also when run and data have moved together; else the message says what to do."""
    monkeypatch.chdir(tmp_path)
    assert len(SurrogateRun.open(finished.path).find_data()) == 40
    shutil.copytree(finished.find_data().folder, tmp_path / "a" / "data")
    train(finished.settings, DarcyData("a/data"), "a/run", progress=False)
    (tmp_path / "a").rename(tmp_path / "b")
    run = SurrogateRun.open("b/run")
    assert len(run.find_data()) == 40
    shutil.rmtree("b/data")
    with pytest.raises(ValueError, match=r"is no longer at \.\./data: say where it is with --data"):
        run.find_data()


def test_fields_of_the_training_are_noticed(data, finished, tmp_path):
    """Data sets of one seed share their first fields: the test part of a shorter one is training data here."""
    recipe = Recipe("kle", 20, Grid(8, 6), {"terms": 4, "kappa_0": 6.0}, test_share=0.25)
    shorter = generate(recipe, tmp_path / "shorter", workers=0)
    with pytest.warns(UserWarning, match="5 test examples in .*shorter were training data of the run"):
        finished.find_data(shorter.folder)
    other = generate(replace(recipe, seed=1), tmp_path / "other", workers=0)
    assert len(finished.find_data(other.folder)) == 20


def test_data_without_a_test_part(data, tmp_path):
    recipe = Recipe("kle", 12, Grid(8, 6), {"terms": 4}, test_share=0.0)
    alone = generate(recipe, tmp_path / "alone", workers=0)
    run = train(short(), alone, tmp_path / "run", progress=False)
    assert "e1" not in run.history()[-1]
    with pytest.raises(ValueError, match="no samples in its test part"):
        evaluate(predicting(run), DarcyData(alone.folder))
