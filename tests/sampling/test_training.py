"""The loop: batches, evaluation, history, callbacks, and what it refuses."""

import collections
import itertools
import math
import os
import signal

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from sparse_langevin import Batches, ChainWarning, GaussianLikelihood, PosteriorBank, Pruning, fit, psgld_sa, sgld
from sparse_langevin.sampling.training import CLOCKS
from sparse_langevin.storage.errors import DamagedError, MismatchError
from sparse_langevin.storage.lines import read_lines

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
    assert torch.cat([b[0] for b in batches]).tolist() == epochs[1]  # left alone, iterations follow each other
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
    sampler.step = lambda batch: (seen.append(batch[0][0, 0].item()), inner(batch))[1]
    fit(sampler, loader(), epochs=3)
    assert len({tuple(seen[i : i + 4]) for i in (0, 4, 8)}) == 3


def test_epochs_go_on_over_several_fits():
    seen = []
    sampler = make()
    inner = sampler.step
    sampler.step = lambda batch: (seen.append(batch[0][0, 0].item()), inner(batch))[1]
    for _ in range(3):
        fit(sampler, loader(), epochs=1)
    assert len({tuple(seen[i : i + 4]) for i in (0, 4, 8)}) == 3


def test_batches_arrive_as_they_are():
    """Named tuples, one-tuples and objects with a ``to`` method reach the likelihood unchanged."""
    Pair = collections.namedtuple("Pair", "x y")

    class Graph:
        moved = False

        def to(self, device):
            self.moved = True
            return self

    kinds = []

    def log_likelihood(model, batch):
        kinds.append(batch)
        return model(X).sum(1)

    sampler = psgld_sa(nn.Linear(3, 1), log_likelihood, num_data=25, step_size=1e-4)
    fit(sampler, [Pair(X, Y), (X,), [X, Y], Graph(), {"x": [X]}], epochs=1)
    arrived = [kind for kind, _ in itertools.groupby(kinds, type)]  # the first more than once: it starts the metric
    assert arrived == [Pair, tuple, list, Graph, dict]
    assert kinds[-2].moved


def test_loaders_without_a_usable_length():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(X, Y, strict=True))

    sampler = make()
    history = fit(sampler, DataLoader(Stream(), batch_size=5), epochs=2)
    assert sampler.steps == 10 and [r["step"] for r in history] == [10]


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


def test_run_folder_resumes_and_finished_runs_stay(tmp_path):
    def run(steps):
        sampler = make()
        history = fit(sampler, loader(), steps=steps, run=tmp_path / "run", save_every=4, evaluate_every=5)
        return sampler, history

    first, history = run(10)
    again, same = run(10)
    assert torch.equal(first.flat.vector, again.flat.vector) and again.steps == 10
    assert same == history == read_lines(tmp_path / "run/history.jsonl")
    longer, _ = run(15)
    whole = make()
    fit(whole, loader(), steps=15)
    assert torch.equal(longer.flat.vector, whole.flat.vector)
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == ["step-000000012", "step-000000015"]


def test_the_clock_goes_on_when_a_run_resumes(tmp_path, monkeypatch):
    now = iter(range(1000))
    monkeypatch.setitem(CLOCKS, "seconds", lambda: float(next(now)))

    def run(steps):
        return fit(make(), loader(), steps=steps, run=tmp_path, save_every=3, evaluate_every=4, timed=True)

    first = run(7)  # a record at 4 and 7, a checkpoint at 7, whose seconds count
    last = first[-1]["seconds"]
    assert [r["step"] for r in first] == [4, 7] and 0 < first[0]["seconds"] < last
    longer = run(12)
    assert longer[:2] == first and last + 1 < longer[2]["seconds"] < longer[3]["seconds"] < last + 9
    assert all(r["cpu_seconds"] >= 0 for r in longer)
    assert "seconds" not in fit(make(), loader(), steps=2)[-1]


def test_tensorboard_shows_the_history(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def run(steps):
        return fit(make(), loader(), steps=steps, run=tmp_path, evaluate_every=4, tensorboard=True)

    run(8)
    (tmp_path / "checkpoints" / "step-000000008").rename(tmp_path / "gone")  # as if killed before it was saved
    history = run(12)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(board.Tags()["scalars"]) == history[0].keys() - {"step"}
    shown = board.Scalars("loss")
    assert [e.step for e in shown] == [r["step"] for r in history] == [4, 8, 12]
    assert [e.value for e in shown] == pytest.approx([r["loss"] for r in history])
    with pytest.raises(ValueError, match="tensorboard=True needs a run folder"):
        fit(make(), loader(), steps=2, tensorboard=True)


@pytest.mark.parametrize("evaluate_every", [4, 5, None])
def test_the_last_record_survives_another_call(evaluate_every, tmp_path):
    def run():
        return fit(make(), loader(), steps=10, run=tmp_path, save_every=5, evaluate_every=evaluate_every)

    first = run()
    assert first[-1]["step"] == 10
    assert run() == first


def test_epochs_of_unknown_length_resume(tmp_path):
    for save_every in (4, 5):
        folder = tmp_path / str(save_every)
        first = fit(make(), iter_only(), epochs=3, run=folder, save_every=save_every)
        assert fit(make(), iter_only(), epochs=3, run=folder, save_every=save_every) == first
        assert [r["step"] for r in first] == [12]


def test_a_loaders_own_generator_is_restored(tmp_path):
    def torch_loader():
        data = TensorDataset(X, Y)
        return DataLoader(data, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(3))

    class Stop(Exception):
        pass

    def stop(sampler, info):
        if info.step == 9:
            raise Stop

    whole = make()
    fit(whole, torch_loader(), steps=20)
    with pytest.raises(Stop):
        fit(make(), torch_loader(), steps=20, run=tmp_path, save_every=3, callbacks=[stop])
    resumed = make()
    fit(resumed, torch_loader(), steps=20, run=tmp_path, save_every=3)
    assert torch.equal(resumed.flat.vector, whole.flat.vector)
    workers = DataLoader(TensorDataset(X, Y), num_workers=1, persistent_workers=True)
    with pytest.raises(ValueError, match="persistent_workers"):
        fit(make(), workers, steps=2, run=tmp_path / "other")


def test_one_process_at_a_time_in_a_run_folder(tmp_path):
    def second(sampler, info):
        fit(make(), loader(), steps=8, run=tmp_path)

    with pytest.raises(RuntimeError, match="another process is running in"):
        fit(make(), loader(), steps=8, run=tmp_path, callbacks=[second])


def test_frozen_parameters_and_buffers_are_restored(tmp_path):
    def other(seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4).eval(), nn.Linear(4, 1))
        model[0].weight.requires_grad_(False)
        model[1].running_mean.normal_()
        return sgld(model, GaussianLikelihood(), num_data=25, step_size=1e-5)

    one, two = other(0), other(1)
    fit(one, loader(), steps=4, run=tmp_path)
    fit(two, loader(), steps=4, run=tmp_path)
    assert torch.equal(one.model[0].weight, two.model[0].weight)
    assert torch.equal(one.model[1].running_mean, two.model[1].running_mean)


def test_ctrl_c_without_a_run_folder_finishes_the_step():
    sampler = make()
    before = signal.getsignal(signal.SIGINT)

    def interrupt(sampler, info):
        if info.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit(sampler, loader(), steps=10, callbacks=[interrupt])
    assert sampler.steps == 3
    assert signal.getsignal(signal.SIGINT) is before

    def insist(sampler, info):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second one takes effect at once")

    with pytest.raises(KeyboardInterrupt):
        fit(sampler, loader(), steps=10, callbacks=[insist])


def test_another_runs_bank_is_left_alone(tmp_path):
    fit(make(), loader(), steps=20, run=tmp_path / "a", bank=PosteriorBank(thin=10, folder=tmp_path / "a/samples"))
    fit(make(), loader(), steps=60, run=tmp_path / "b", bank=PosteriorBank(thin=5, folder=tmp_path / "b/samples"))
    with pytest.raises(RuntimeError, match="give the bank of this run"):
        fit(make(), loader(), steps=40, run=tmp_path / "a", bank=PosteriorBank(thin=10, folder=tmp_path / "b/samples"))
    assert len(PosteriorBank(folder=tmp_path / "b/samples")) == 12
    with pytest.raises(MismatchError, match="started with bank"):
        fit(make(), loader(), steps=40, run=tmp_path / "a")
    with pytest.raises(ValueError, match="samples of another run"):
        fit(make(seed=5), loader(), steps=20, bank=PosteriorBank(thin=5, folder=tmp_path / "b/samples"))


def test_bank_that_begins_before_pruning_ends_warns():
    sampler = make(pruning=Pruning(target=0.5, end=20))
    with pytest.warns(ChainWarning, match="mix denser and sparser models"):
        fit(sampler, loader(), steps=24, bank=PosteriorBank(thin=5))


@pytest.mark.parametrize("values", [None, 3.0, {"loss": 1.0}])
def test_evaluate_must_return_numbers_with_new_names(values):
    with pytest.raises(TypeError, match="evaluate must return a dictionary"):
        fit(make(), loader(), steps=4, evaluate=lambda model: values)


def test_missing_history_is_noticed(tmp_path):
    fit(make(), loader(), steps=4, run=tmp_path)
    (tmp_path / "history.jsonl").unlink()
    with pytest.raises(DamagedError, match="missing or shorter"):
        fit(make(), loader(), steps=8, run=tmp_path)


def test_other_settings_are_refused(tmp_path):
    fit(make(seed=1), loader(), steps=4, run=tmp_path)
    for sampler, batches, message in (
        (make(seed=2), loader(), "started with seed = 1, now it is 2"),
        (make(seed=1, step_size=2e-2), loader(), "step_size"),
        (make(seed=1), loader(seed=9), "loader"),
    ):
        with pytest.raises(MismatchError, match=message):
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
    with pytest.raises(DamagedError, match=r"step-000000004 is intact: delete the folder .*step-000000008"):
        fit(make(), loader(), steps=8, run=tmp_path, save_every=4)


def test_missing_samples_are_noticed(tmp_path):
    def run(steps):
        bank = PosteriorBank(thin=2, folder=tmp_path / "samples")
        fit(make(), loader(), steps=steps, run=tmp_path, bank=bank)

    run(8)
    (tmp_path / "samples/sample-000-000000004.safetensors").unlink()
    with pytest.raises(RuntimeError, match="holds 3 samples up to step 8, but the checkpoint was saved with 4"):
        run(12)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"steps": 5, "epochs": 1}, ValueError, "either steps or epochs"),
        ({}, ValueError, "either steps or epochs"),
        ({"steps": 0}, ValueError, "steps must be an integer at least 1"),
        ({"steps": 2.5}, ValueError, "steps must be an integer"),
        ({"epochs": -1}, ValueError, "epochs must be an integer at least 1"),
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


def test_a_run_that_diverges_but_stays_finite_says_so():
    """A weight that doubles with every step: 30 steps later the loss is huge, and finite."""
    torch.manual_seed(0)
    x = torch.randn(20, 1)
    sampler = sgld(nn.Linear(1, 1), GaussianLikelihood(learn=False), num_data=20, step_size=0.12, tau=math.inf)
    with pytest.warns(ChainWarning, match=r"the loss ended at .* times the .* it has diverged"):
        fit(sampler, Batches(x, x, batch_size=20), steps=30)
    assert torch.isfinite(sampler.flat.vector).all()
