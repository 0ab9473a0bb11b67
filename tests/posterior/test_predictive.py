"""Predictions: moments, quantiles and draws against sums over the samples done by hand."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch import nn

from sparse_langevin import Batches, CategoricalLikelihood, GaussianLikelihood, PosteriorBank, fit, psgld_sa, sgld
from sparse_langevin.posterior import Prediction, Predictive, Sample
from sparse_langevin.posterior.calibration import assess
from tests.posterior.chains import X, Y


def loader():
    return Batches(X, Y, batch_size=8)


@pytest.fixture
def linear():
    """A linear model whose samples have unequal weights and noise levels, and their outputs."""
    bank = PosteriorBank(thin=5, burn_in=20)
    sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=25, step_size=lambda k: 1e-2 / k)
    fit(sampler, loader(), steps=80, bank=bank)
    samples = list(bank)
    outputs = torch.stack([X @ s.parameters["weight"].T + s.parameters["bias"] for s in samples])
    weights = np.array([s.weight for s in samples])
    return sampler.model, bank, outputs.double().numpy(), weights / weights.sum(), np.array([s.sigma for s in samples])


@pytest.mark.parametrize("on_disk", [False, True])
def test_bank_collects_and_predicts(on_disk, tmp_path):
    bank = PosteriorBank(thin=5, burn_in=20, folder=tmp_path / "samples" if on_disk else None)
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


def test_quantiles_of_new_observations_and_of_outputs(linear):
    model, bank, outputs, weights, sigmas = linear
    levels = [0.05, 0.5, 0.9]
    found = bank.predictive(model, X).quantiles(levels)
    assert found.shape == (3, 25, 1) and found.dtype == torch.float32
    for i, level in enumerate(levels):
        for j in range(25):

            def excess(x, level=level, j=j):
                return weights @ stats.norm.cdf(x, outputs[:, j, 0], sigmas) - level

            assert found[i, j].item() == pytest.approx(optimize.brentq(excess, -50, 50), abs=1e-5)
    alone = bank.predictive(model, X).quantiles(levels, noise=False)
    exact = [np.quantile(outputs, level, axis=0, weights=weights, method="inverted_cdf") for level in levels]
    assert alone.numpy() == pytest.approx(np.stack(exact), abs=1e-6)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_chunks_and_batches_change_nothing(linear, batch_size):
    model, bank, *_ = linear
    whole = Predictive(bank, model, X)
    small = Predictive(bank, model, X, memory=7 * len(bank) * 4, batch_size=batch_size)
    assert [rows for rows, _ in small.mixtures()] == [slice(i, min(i + 7, 25)) for i in range(0, 25, 7)]
    torch.testing.assert_close(small.quantiles([0.1, 0.8]), whole.quantiles([0.1, 0.8]))
    torch.testing.assert_close(small.moments().mean, whole.moments().mean)
    assert np.array_equal(small.mixture().means, whole.mixture().means) or batch_size
    one, other = (assess((Y[rows], mix) for rows, mix in p.mixtures()) for p in (whole, small))
    assert one.coverage == other.coverage and one.crps == pytest.approx(other.crps)


def test_each_sample_is_read_once_a_chunk(linear):
    model, bank, *_ = linear

    class Counting:
        reads = 0

        def __len__(self):
            return len(bank)

        def __iter__(self):
            for sample in bank:
                self.reads += 1
                yield sample

    counting = Counting()
    Predictive(counting, model, X).moments()
    assert counting.reads == len(bank)
    Predictive(counting, model, X, memory=13 * len(bank) * 4).quantiles([0.5, 0.9])
    assert counting.reads == len(bank) + 1 + 2 * len(bank)  # one to learn the size of an output, then two chunks


def test_draws_have_the_moments_of_the_distribution(linear):
    model, bank, outputs, *_ = linear
    predictive = bank.predictive(model, X)
    draws = predictive.draw(4000).double().numpy()
    exact = predictive.moments()
    error = exact.total_std.numpy() / np.sqrt(4000)
    assert (np.abs(draws.mean(0) - exact.mean.numpy()) < 5 * error).all()
    assert draws.std(0) == pytest.approx(exact.total_std.numpy(), rel=0.1)
    alone = predictive.draw(500, noise=False).numpy()
    # A draw is one sample's output at all inputs.
    distance = np.abs(alone[:, None] - outputs[None]).max((2, 3)).min(1)
    assert distance.max() < 1e-5
    assert torch.equal(predictive.draw(5, seed=3), predictive.draw(5, seed=3))
    assert not torch.equal(predictive.draw(5, seed=3), predictive.draw(5, seed=4))


@pytest.mark.parametrize("scale", [3.0, torch.tensor([3.0])])
def test_a_change_of_units(linear, scale):
    model, bank, *_ = linear
    plain = bank.predictive(model, X)
    scaled = bank.predictive(model, X, transform=lambda y: 3 * y + 1, noise_scale=scale)
    torch.testing.assert_close(scaled.quantiles([0.1, 0.7]), 3 * plain.quantiles([0.1, 0.7]) + 1)
    torch.testing.assert_close(scaled.moments().total_std, 3 * plain.moments().total_std)
    torch.testing.assert_close(scaled.draw(3), 3 * plain.draw(3) + 1)


def test_inputs_of_several_tensors():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 1)

        def forward(self, a, b):
            return self.layer(a) + b

    torch.manual_seed(0)
    model = Sum()
    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    samples = [Sample(0, k, 1.0, 0.1, {n: p + 0.1 * k for n, p in parameters.items()}) for k in range(4)]
    expected = Predictive(samples, model, (X, Y)).quantiles([0.3])
    for inputs in ((X, Y), {"a": X, "b": Y}):
        small = Predictive(samples, model, inputs, memory=6 * 4 * 4, batch_size=2)
        torch.testing.assert_close(small.quantiles([0.3]), expected)


def test_predictions_are_made_in_eval_mode_and_transformed():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    sampler, bank = psgld_sa(model, GaussianLikelihood(), num_data=25, step_size=1e-2), PosteriorBank(thin=2)
    fit(sampler, loader(), steps=10, bank=bank)
    one, two = bank.predict(model, X), bank.predict(model, X)
    assert torch.equal(one.mean, two.mean) and model.training
    assert torch.equal(bank.predictive(model, X).draw(3), bank.predictive(model, X).draw(3)) and model.training
    outputs = bank.predict(model, X, transform=torch.exp)
    assert (outputs.mean > 0).all() and not torch.allclose(outputs.mean, one.mean.exp())


def test_without_samples(linear):
    model, bank, *_ = linear
    weightless = [Sample(s.chain, s.step, 0.0, s.sigma, s.parameters) for s in bank]
    for samples in (PosteriorBank(), weightless):
        predictive = Predictive(samples, model, X)
        for ask in (predictive.moments, lambda p=predictive: p.quantiles([0.5]), lambda p=predictive: p.draw(2)):
            with pytest.raises(ValueError, match="no samples of positive weight"):
                ask()
    with pytest.raises(ValueError, match="no samples of positive weight"):
        PosteriorBank().predict(model, X)


def test_samples_of_another_model(linear):
    _, bank, *_ = linear
    with pytest.raises(ValueError, match=r"another model: their 'bias' has shape \(1,\), the model's \(2,\)"):
        bank.predict(nn.Linear(3, 2), X)
    with pytest.raises(ValueError, match=r"another model: their 'bias' has shape .* is missing"):
        bank.predict(nn.Sequential(nn.Linear(3, 1)), X)

    class Larger(nn.Linear):
        def __init__(self):
            super().__init__(3, 1)
            self.extra = nn.Parameter(torch.zeros(2))

    with pytest.raises(ValueError, match="they have no 'extra'"):
        bank.predict(Larger(), X)


def test_outputs_that_do_not_count_examples():
    class Total(nn.Linear):
        def forward(self, x):
            return super().forward(x).sum(0)

    model = Total(3, 2)
    samples = [Sample(0, k, 1.0, 0.1, {n: p.detach() for n, p in model.named_parameters()}) for k in range(3)]
    assert Predictive(samples, model, X).quantiles([0.5]).shape == (1, 2)
    with pytest.raises(ValueError, match="first dimension does not count them"):
        Predictive(samples, model, X, memory=100).quantiles([0.5])


def test_a_prediction_holds_what_it_always_did():
    prediction = Prediction(torch.zeros(2), torch.full((2,), 3.0), 4.0)
    assert prediction.total_std.tolist() == [5.0, 5.0]


MEMORY = """
import resource, sys
sys.path.insert(0, {root!r})
import torch
from torch import nn
from sparse_langevin import GaussianLikelihood, PosteriorBank, Pruning, sgld
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(100, 1000), nn.ReLU(), nn.Linear(1000, 1000))
sampler = sgld(model, GaussianLikelihood(), num_data=4, step_size=1e-6, pruning=Pruning(target=0.5, end=1))
bank = PosteriorBank(thin=1, folder={folder!r})
x, y = torch.randn(4, 100), torch.randn(4, 1000)
for _ in range({samples}):
    bank.collect(sampler, sampler.step(x, y))
inputs = torch.randn(200, 100)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
predictive = bank.predictive(model, inputs, memory=2**23)
predictive.moments()
predictive.quantiles([0.05, 0.95])
predictive.draw(3)
print(peak() - before)
"""


def test_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    """1.1 million parameters; the paper's network has 7.5 times as many, and 1 GB for that would be 136 MB here."""
    root = Path(__file__).parents[2]
    needed = []
    for samples in (10, 60):
        script = MEMORY.format(root=str(root), folder=str(tmp_path / str(samples)), samples=samples)
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        needed.append(float(result.stdout))
    assert max(needed) < 80, needed
    assert needed[1] - needed[0] < 40, needed  # fifty samples are 110 MB in 16 bits, and their outputs 40 MB


def test_no_noise_is_added_to_logits():
    """The predictive distribution of a classifier's outputs is that of its samples; a new label is another thing."""
    torch.manual_seed(0)
    model, bank = nn.Linear(3, 4), PosteriorBank(thin=1, precision="full")
    sampler = sgld(model, CategoricalLikelihood(), num_data=20, step_size=1e-2)
    x, y = torch.randn(20, 3), torch.randint(4, (20,))
    for _ in range(8):
        bank.collect(sampler, sampler.step(x, y))
    outputs = torch.stack([torch.nn.functional.linear(x, *(s.parameters[n] for n in ("weight", "bias"))) for s in bank])
    predictive = bank.predictive(model, x)
    assert predictive.moments().noise_std == 0.0
    torch.testing.assert_close(predictive.quantiles([0.999])[0], outputs.max(0).values)
    for draw in predictive.draw(5):
        assert min(float((draw - output).abs().max()) for output in outputs) < 1e-6
