"""BatchNorm: the batch's statistics in a chain, and those of the training inputs in predictions."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader, TensorDataset

from sparse_langevin import (
    Batches,
    GaussianLikelihood,
    GaussianPrior,
    PosteriorBank,
    RMSprop,
    fit,
    psgld,
    psgld_sa,
    sgld,
)
from sparse_langevin.posterior import Predictive, Sample
from sparse_langevin.sampling.batch_norm import estimate

X = torch.randn(25, 3, generator=torch.Generator().manual_seed(0)) * 3 + 1
Y = X[:, :1] - X[:, 1:2]
NEW = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))


def network(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(3, 6),
        nn.BatchNorm1d(6),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Linear(6, 4),
        nn.BatchNorm1d(4),
        nn.Linear(4, 1),
    ).to(dtype)


def make(model=None, **options):
    settings = {"num_data": 25, "step_size": 1e-3} | options
    return psgld_sa(network() if model is None else model, GaussianLikelihood(), **settings)


def loader():
    return Batches(X, Y, batch_size=10)  # batches of 10, 10 and 5


def buffers(model):
    return {name: b.clone() for name, b in model.named_buffers()}


def sampled(folder=None, steps=12):
    sampler, bank = make(), PosteriorBank(thin=3, precision="full", folder=folder)
    fit(sampler, loader(), steps=steps, bank=bank)
    return sampler.model, bank


def alone(model, sample, batches):
    """A copy of the model with a sample's weights and the statistics that torch's stochastic weight averaging finds."""
    twin = copy.deepcopy(model)
    twin.load_state_dict(sample.parameters, strict=False)
    for layer in twin.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0  # torch estimates with dropout, but the predicting network has none
    update_bn(batches, twin)
    return twin.eval()


def test_gradients_use_the_statistics_of_the_batch_alone():
    def chain(mean):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
        torch.manual_seed(3)
        for p in model.parameters():
            nn.init.normal_(p)
        model[1].running_mean.fill_(mean)
        sampler = sgld(model, GaussianLikelihood(learn=False), num_data=25, step_size=1e-4, dense_prior=GaussianPrior())
        values = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
        sampler.step(X[:10].double(), Y[:10].double())
        return sampler, values

    sampler, values = chain(0.0)
    hidden = X[:10].double() @ values["0.weight"].T + values["0.bias"]
    centred = hidden - hidden.mean(0)
    normed = centred / (centred.square().mean(0) + 1e-5).sqrt() * values["1.weight"] + values["1.bias"]
    output = normed @ values["2.weight"].T + values["2.bias"]
    (25 / 10 * 0.5 * (output - Y[:10].double()).square().sum()).backward()
    for name, gradient in sampler.flat.views(sampler.flat.grad).items():
        torch.testing.assert_close(gradient, values[name].grad)
    # The running statistics have no part in the chain.
    assert torch.equal(chain(7.0)[0].flat.vector, sampler.flat.vector)


def test_statistics_are_those_of_stochastic_weight_averaging():
    model, bank = sampled()
    batches = list(X.split(10))
    for sample in bank:
        twin = alone(model, sample, batches)
        model.eval()
        found = estimate(model, sample.parameters, sample.batch_norms, batches)
        model.train()
        assert found.keys() == {
            f"{i}.{n}" for i in (1, 5) for n in ("running_mean", "running_var", "num_batches_tracked")
        }
        for name, value in found.items():
            torch.testing.assert_close(value, dict(twin.named_buffers())[name])


def test_statistics_by_hand():
    """Averages over batches of their means and unbiased variances; batches count the same whatever their size."""
    layer = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    hidden = [layer[0](x).detach().numpy() for x in X.split(10)]
    found = estimate(layer, parameters, ["1"], X.split(10))
    np.testing.assert_allclose(found["1.running_mean"], np.mean([h.mean(0) for h in hidden], 0), rtol=1e-5)
    np.testing.assert_allclose(found["1.running_var"], np.mean([h.var(0, ddof=1) for h in hidden], 0), rtol=1e-5)
    whole = np.concatenate(hidden)
    found = estimate(layer, parameters, ["1"], [X])
    np.testing.assert_allclose(found["1.running_var"], whole.var(0, ddof=1), rtol=1e-5)


@pytest.mark.parametrize("on_disk", [False, True])
def test_predictions_estimate_the_statistics_of_every_sample(on_disk, tmp_path):
    model, bank = sampled(tmp_path if on_disk else None)
    before, modes = buffers(model), [(m.training, getattr(m, "momentum", None)) for m in model.modules()]
    batches = list(DataLoader(TensorDataset(X, Y), batch_size=10))
    outputs = torch.stack([alone(model, sample, batches)(NEW).detach() for sample in bank])
    for statistics in (DataLoader(TensorDataset(X, Y), batch_size=10), batches, list(X.split(10))):
        found = bank.predict(model, NEW, statistics=statistics)
        torch.testing.assert_close(found.mean, outputs.mean(0))
        torch.testing.assert_close(found.std, outputs.std(0, correction=0), rtol=1e-4, atol=1e-6)
    low = bank.predictive(model, NEW, statistics=batches, memory=2 * len(bank) * 4).quantiles([1e-9], noise=False)
    torch.testing.assert_close(low[0], outputs.min(0).values)
    draws = bank.predictive(model, NEW, statistics=batches).draw(6, noise=False)
    assert all(min(float((d - o).abs().max()) for o in outputs) < 1e-5 for d in draws)
    # Nothing is left behind in the model.
    assert [(m.training, getattr(m, "momentum", None)) for m in model.modules()] == modes
    assert all(torch.equal(b, before[n]) for n, b in model.named_buffers())


def test_predictions_do_not_depend_on_what_is_predicted_together():
    model, bank = sampled()
    whole = bank.predict(model, NEW, statistics=X).mean
    one_by_one = torch.cat([bank.predict(model, NEW[i : i + 1], statistics=X).mean for i in range(len(NEW))])
    torch.testing.assert_close(whole, one_by_one)
    torch.testing.assert_close(whole, bank.predict(model, NEW, statistics=X, batch_size=2).mean)
    # A loader that shuffles gives the same batches to every sample and every prediction, and keeps its own place.
    batches = loader()
    batches.set_epoch(4)
    first = bank.predict(model, NEW, statistics=batches).mean
    assert torch.equal(first, bank.predict(model, NEW, statistics=batches).mean) and batches.epoch == 4


def test_predictions_without_statistics_are_refused():
    model, bank = sampled()
    for mode in (True, False):  # whatever the model's mode is by now
        model.train(mode)
        with pytest.raises(
            ValueError, match=r"BatchNorm in training mode \(layer '1'\).*pass training inputs, such as"
        ):
            bank.predict(model, NEW)
    with pytest.raises(
        ValueError, match="'1' is a BatchNorm layer with running statistics, in this one it is GroupNorm"
    ):
        model[1] = nn.GroupNorm(1, 6)
        bank.predict(model, NEW, statistics=X)


@pytest.mark.parametrize(
    ("statistics", "error", "text"),
    [
        ((X, Y), TypeError, r"got tuple: put a single batch \(inputs, targets\) into a list"),
        (3, TypeError, "a tensor of training inputs or an iterable of batches such as a DataLoader, got int"),
        ((x for x in X.split(5)), TypeError, "a generator can be iterated only once"),
        ([], ValueError, "gave no batches"),
        ([None], TypeError, "each batch of statistics must be a tensor.*got NoneType"),
    ],
)
def test_statistics_that_cannot_be_used(statistics, error, text):
    model, bank = sampled(steps=3)
    with pytest.raises(error, match=text):
        bank.predict(model, NEW, statistics=statistics)


def test_inputs_of_several_tensors_and_a_layer_used_twice():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
            self.same = self.norm

        def forward(self, a, b):
            return self.norm(self.layer(a)) + self.same(self.layer(b))

    torch.manual_seed(0)
    model = Pair()
    parameters = {n: p.detach().clone() for n, p in model.named_parameters()}
    samples = [
        Sample(0, k, 1.0, 0.1, {n: p + k for n, p in parameters.items()}, batch_norms=("norm",)) for k in range(2)
    ]
    with torch.no_grad():
        hidden = [nn.functional.linear(v, parameters["layer.weight"], parameters["layer.bias"]) for v in (X, X + 1)]
    found = estimate(model.eval(), parameters, ["norm"], [((X, X + 1),)])
    torch.testing.assert_close(found["norm.running_mean"], (hidden[0].mean(0) + hidden[1].mean(0)) / 2)
    first = Predictive(samples, model, (NEW, NEW), statistics=[((X, X + 1), Y)]).moments().mean
    for statistics in ({"a": X, "b": X + 1}, [{"a": X, "b": X + 1}]):
        again = Predictive(samples, model, (NEW, NEW), statistics=statistics).moments().mean
        torch.testing.assert_close(again, first)


def test_a_model_that_is_one_layer():
    layer = nn.BatchNorm1d(3).eval()
    parameters = {n: p.detach() for n, p in layer.named_parameters()}
    found = estimate(layer, parameters, [""], [X])
    torch.testing.assert_close(
        functional_call(layer, parameters | found, (X,)).mean(0), torch.zeros(3), atol=1e-6, rtol=0
    )


def test_frozen_statistics_are_constants():
    model = network()
    for layer in (model[1], model[5]):
        layer.eval()
        layer.running_mean.normal_()
    before, bank = buffers(model), PosteriorBank(thin=1, precision="full")
    sampler = make(model)
    fit(sampler, loader(), steps=3, bank=bank)
    assert sampler.batch_norms == () and all(torch.equal(b, before[n]) for n, b in model.named_buffers())
    found = bank.predict(model, NEW).mean
    assert torch.equal(bank.predict(model, NEW, statistics=X).mean, found)  # there is nothing to estimate
    model.eval()
    outputs = torch.stack([functional_call(model, s.parameters, (NEW,)).detach() for s in bank])
    torch.testing.assert_close(found, outputs.mean(0))


def test_the_mode_must_not_change_within_a_chain():
    sampler = make()
    assert sampler.batch_norms == ("1", "5")
    sampler.step(X, Y)
    sampler.model[5].eval()
    with pytest.raises(ValueError, match=r"'5' was in training mode .* is in eval mode now.*call .train\(\)"):
        sampler.step(X, Y)
    frozen = network()
    frozen[1].eval(), frozen[5].eval()
    sampler = make(frozen)
    frozen.train()
    with pytest.raises(ValueError, match=r"'1' was in eval mode .* is in training mode now.*call .eval\(\)"):
        sampler.step(X, Y)
    assert sampler.steps == 0


def test_other_running_statistics():
    def instance(**options):
        return nn.Sequential(nn.Conv1d(1, 2, 2), nn.InstanceNorm1d(2, **options), nn.Flatten(), nn.Linear(4, 1))

    with pytest.raises(
        ValueError, match=r"layer '1', InstanceNorm1d, has running statistics.*track_running_stats=False"
    ):
        make(instance(track_running_stats=True))
    sampler = make(instance())
    sampler.step(X[:, None], Y)
    assert sampler.batch_norms == ()
    frozen = instance(track_running_stats=True)
    frozen[1].eval()
    make(frozen).step(X[:, None], Y)


def test_a_failed_step_leaves_the_statistics_as_they_were():
    sampler = make()
    sampler.step(X, Y)
    before = buffers(sampler.model)
    spoiled = X.clone()
    spoiled[3, 1] = torch.nan
    for inputs, targets, error in ((spoiled, Y, FloatingPointError), (X, Y[:, 0], ValueError)):
        with pytest.raises(error):
            sampler.step(inputs, targets)
        assert all(torch.equal(b, before[n]) for n, b in sampler.model.named_buffers())
    sampler.step(X, Y)
    assert sampler.steps == 2 and int(sampler.model[1].num_batches_tracked) == 2


def test_curvature_with_batch_statistics():
    """The estimate of the Hessian differentiates through the statistics twice, and evaluates the batch once."""
    metric = RMSprop(alpha=0.0, eta=10.0, correction="hutchinson")
    sampler = psgld(network(), GaussianLikelihood(), num_data=25, step_size=1e-5, preconditioner=metric)
    sampler.step(X, Y)
    assert int(sampler.model[1].num_batches_tracked) == 1 and torch.isfinite(sampler.flat.vector).all()


def test_runs_resume_bit_for_bit(tmp_path):
    def run(folder, steps, model=None):
        bank = PosteriorBank(thin=2, folder=tmp_path / folder / "samples")
        sampler = make(model)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            evaluate = {"evaluate": lambda model: {"mse": (model(X) - Y).square().mean()}}
            history = fit(sampler, loader(), steps=steps, run=tmp_path / folder, save_every=2, bank=bank, **evaluate)
        return sampler, bank, history

    run("cut", 5)
    cut, samples, history = run("cut", 11)
    whole, others, same = run("whole", 11)
    assert torch.equal(cut.flat.vector, whole.flat.vector) and history[-1] == same[-1]
    assert all(torch.equal(b, whole.model.get_buffer(n)) for n, b in cut.model.named_buffers())
    assert int(cut.model[1].num_batches_tracked) == 11
    for one, two in zip(samples, others, strict=True):
        assert one.batch_norms == two.batch_norms == ("1", "5")
        assert all(torch.equal(value, two.parameters[name]) for name, value in one.parameters.items())
    frozen = network()
    frozen[1].eval()
    with pytest.raises(ValueError, match="batch_norms"):
        run("cut", 11, frozen)
