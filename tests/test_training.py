"""The loop: batches, evaluation, history, callbacks, and what it refuses."""

import json

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, Pruning, fit, psgld_sa, sgld
from sparse_langevin.checkpoint import CheckpointError

X = torch.randn(25, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] - X[:, 1:2]


def make(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    return psgld_sa(model, GaussianLikelihood(), **({"num_data": 25, "step_size": 1e-2} | options))


def loader(**options):
    return Batches(X, Y, **({"batch_size": 8} | options))


def test_batches_cover_every_row_once_in_an_order_of_their_own():
    batches = Batches(torch.arange(25), batch_size=8, seed=3)
    epochs = []
    for epoch in (0, 1, 0):
        batches.set_epoch(epoch)
        epochs.append(torch.cat([b[0] for b in batches]).tolist())
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(25))
    assert epochs[0] == epochs[2] != epochs[1]
    assert epochs[0] != torch.cat([b[0] for b in Batches(torch.arange(25), batch_size=8, seed=4)]).tolist()
    assert [len(b[0]) for b in batches] == [8, 8, 8, 1] and len(batches) == 4
    assert torch.cat([b[0] for b in Batches(torch.arange(25), batch_size=8, shuffle=False)]).tolist() == list(range(25))


def test_steps_and_epochs():
    sampler = make()
    fit(sampler, loader(), steps=10)
    assert sampler.steps == 10
    fit(sampler, loader(), epochs=3)
    assert sampler.steps == 22
    fit(sampler, iter_only(), epochs=2)
    assert sampler.steps == 30


def iter_only():
    """A loader without a length."""

    class Loader:
        def __iter__(self):
            return iter(loader())

    return Loader()


def test_every_epoch_has_its_own_order():
    seen = []
    sampler = make()
    inner = sampler.step
    sampler.step = lambda x, y: (seen.append(x[0, 0].item()), inner(x, y))[1]
    fit(sampler, loader(), epochs=3)
    assert len({tuple(seen[i : i + 4]) for i in (0, 4, 8)}) == 3


def test_history_evaluates_in_eval_mode_without_gradients():
    modes = []

    def evaluate(model):
        modes.append((model.training, torch.is_grad_enabled()))
        return {"mse": (model(X) - Y).square().mean()}

    sampler = make()
    history = fit(sampler, loader(), steps=10, evaluate=evaluate, evaluate_every=4)
    assert [record["step"] for record in history] == [4, 8, 10]
    assert modes == [(False, False)] * 3
    assert sampler.model.training
    assert set(history[0]) == {"step", "loss", "sigma", "inclusion", "sparsity", "mse"}
    by_epoch = fit(make(), loader(), epochs=2)
    assert [record["step"] for record in by_epoch] == [4, 8]


def test_history_loss_is_the_mean_since_the_last_record():
    losses = []
    history = fit(
        make(), loader(), steps=8, evaluate_every=4, callbacks=[lambda sampler, info: losses.append(info.loss)]
    )
    assert history[1]["loss"] == pytest.approx(sum(losses[4:]) / 4)


def test_frozen_statistics_survive_an_evaluation():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4).eval(), nn.Linear(4, 1))
    sampler = sgld(model, GaussianLikelihood(), num_data=25, step_size=1e-5)
    fit(sampler, loader(), epochs=2, evaluate=lambda model: {"zero": 0.0})
    assert not model[1].training and model[0].training


def test_dicts_come_through_and_torch_loaders_work():
    def log_likelihood(model, batch):
        return -(model(batch["x"]) - batch["y"]).square().sum(1)

    torch.manual_seed(0)
    sampler = psgld_sa(nn.Linear(3, 1), log_likelihood, num_data=25, step_size=1e-3)
    fit(sampler, [{"x": X[:10], "y": Y[:10]}, {"x": X[10:], "y": Y[10:]}], steps=5)
    fit(sampler, DataLoader([{"x": x, "y": y} for x, y in zip(X, Y, strict=True)], batch_size=5), epochs=1)
    assert sampler.steps == 10
    fit(make(), DataLoader(TensorDataset(X, Y), batch_size=5, shuffle=True), epochs=1)


def test_bank_collects_and_predicts(tmp_path):
    for folder in (None, tmp_path / "samples"):
        bank = PosteriorBank(thin=5, burn_in=20, folder=folder)
        sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=25, step_size=lambda k: 1e-2 / k)
        fit(sampler, loader(), steps=40, bank=bank)
        samples = list(bank)
        assert [s.step for s in samples] == [25, 30, 35, 40] and len(bank) == 4
        weights = torch.tensor([1 / s.step for s in samples])
        weights = weights / weights.sum()
        outputs = torch.stack([X @ s.parameters["weight"].T + s.parameters["bias"] for s in samples])
        mean = (weights[:, None, None] * outputs).sum(0)
        variance = (weights[:, None, None] * (outputs - mean).square()).sum(0)
        prediction = bank.predict(sampler.model, X)
        torch.testing.assert_close(prediction.mean, mean)
        torch.testing.assert_close(prediction.std, variance.sqrt(), rtol=1e-3, atol=1e-6)
        noise = sum(w * s.sigma**2 for w, s in zip(weights.tolist(), samples, strict=True))
        assert prediction.noise_std == pytest.approx(noise**0.5)
        torch.testing.assert_close(prediction.total_std, (variance + noise).sqrt())


def test_empty_banks_and_damaged_samples(tmp_path):
    with pytest.raises(ValueError, match="bank is empty"):
        PosteriorBank().predict(nn.Linear(3, 1), X)
    with pytest.raises(ValueError, match="thin >= 1"):
        PosteriorBank(thin=0)
    bank = PosteriorBank(thin=5, folder=tmp_path)
    fit(make(), loader(), steps=10, bank=bank)
    path = sorted(tmp_path.iterdir())[0]
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(RuntimeError, match="is damaged"):
        list(bank)


def test_run_folder_resumes_and_finished_runs_stay(tmp_path):
    def run(steps):
        sampler = make()
        history = fit(sampler, loader(), steps=steps, run=tmp_path / "run", save_every=4, evaluate_every=5)
        return sampler, history

    first, history = run(10)
    again, same = run(10)
    assert torch.equal(first.flat.vector, again.flat.vector) and again.steps == 10
    assert same == history == [json.loads(line) for line in (tmp_path / "run/history.jsonl").read_text().splitlines()]
    longer, _ = run(15)
    whole = make()
    fit(whole, loader(), steps=15)
    assert torch.equal(longer.flat.vector, whole.flat.vector)
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == ["step-000000012", "step-000000015"]


def test_other_settings_are_refused(tmp_path):
    fit(make(seed=1), loader(), steps=4, run=tmp_path)
    for sampler, batches, message in (
        (make(seed=2), loader(), "started with seed = 1, now it is 2"),
        (make(seed=1, step_size=2e-2), loader(), "step_size"),
        (make(seed=1), loader(seed=9), "loader"),
    ):
        with pytest.raises(CheckpointError, match=message):
            fit(sampler, batches, steps=8, run=tmp_path)


def test_foreign_files_are_not_overwritten(tmp_path):
    (tmp_path / "history.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="in the way"):
        fit(make(), loader(), steps=4, run=tmp_path)
    assert (tmp_path / "history.jsonl").read_text() == "{}\n"
    fit(make(), loader(), steps=10, bank=PosteriorBank(thin=5, folder=tmp_path / "samples"))
    with pytest.raises(ValueError, match="in the way"):
        fit(make(), loader(), steps=4, run=tmp_path / "new", bank=PosteriorBank(folder=tmp_path / "samples"))
    assert len(PosteriorBank(folder=tmp_path / "samples")) == 2


def test_damaged_checkpoint_offers_the_previous(tmp_path):
    fit(make(), loader(), steps=8, run=tmp_path, save_every=4)
    newest = tmp_path / "checkpoints/step-000000008"
    state = newest / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"step-000000004 is intact: delete the folder .*step-000000008"):
        fit(make(), loader(), steps=8, run=tmp_path, save_every=4)


def test_missing_samples_are_noticed(tmp_path):
    def run(steps):
        bank = PosteriorBank(thin=2, folder=tmp_path / "samples")
        fit(make(), loader(), steps=steps, run=tmp_path, bank=bank)

    run(8)
    (tmp_path / "samples/sample-000000004.safetensors").unlink()
    with pytest.raises(RuntimeError, match="holds 3 samples up to step 8, but the checkpoint was saved with 4"):
        run(12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"steps": 5, "epochs": 1}, ValueError, "either steps or epochs"),
        ({}, ValueError, "either steps or epochs"),
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"epochs": -1}, ValueError, "epochs must be at least 1"),
        ({"steps": 5, "save_every": 0}, ValueError, "save_every"),
        ({"steps": 5, "train": []}, ValueError, "loader is empty"),
        ({"steps": 5, "train": 3}, TypeError, "iterable of batches"),
        ({"steps": 5, "train": (b for b in [(X, Y)])}, ValueError, "no batches in epoch 2.*iterated only once"),
    ],
)
def test_bad_arguments(arguments, error, message):
    arguments = dict(arguments)
    train = arguments.pop("train", loader())
    with pytest.raises(error, match=message):
        fit(make(), train, **arguments)


def test_bank_of_a_run_needs_a_folder(tmp_path):
    with pytest.raises(ValueError, match="samples on disk"):
        fit(make(), loader(), steps=4, run=tmp_path, bank=PosteriorBank())


def test_pruning_must_end_within_the_run():
    sampler = make(pruning=Pruning(target=0.5, end=100))
    with pytest.raises(ValueError, match="pruning ends at step 100, but the run stops at step 50"):
        fit(sampler, loader(), steps=50)


def test_bad_batches():
    with pytest.raises(ValueError, match="same number of rows"):
        Batches(X, Y[:3], batch_size=2)
    with pytest.raises(ValueError, match="batch_size"):
        Batches(X, Y, batch_size=0)


def test_progress_is_silent_unless_wanted(capfd):
    fit(make(), loader(), steps=3)
    assert capfd.readouterr() == ("", "")
    fit(make(), loader(), steps=3, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "3/3" in err and "loss" in err and "sparsity" in err
