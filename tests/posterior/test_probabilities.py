"""Class probabilities of a bank against sums over its samples done by hand."""

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from sparse_langevin import CategoricalLikelihood, GaussianLikelihood, PosteriorBank, fit, psgld_sa, sgld
from sparse_langevin.posterior import Classification, Sample
from sparse_langevin.posterior.classification import mutual_information
from sparse_langevin.posterior.probabilities import classify

X = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
LABELS = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()


@pytest.fixture
def bank():
    """Samples of unequal weight that differ a lot, and their probabilities and shares."""
    torch.manual_seed(0)
    model, bank = nn.Linear(3, 4), PosteriorBank(thin=2, precision="full")
    sampler = sgld(model, CategoricalLikelihood(), num_data=30, step_size=lambda k: 0.5 / k)
    fit(sampler, [(X, LABELS)], steps=16, bank=bank)
    logits = [X.double() @ s.parameters["weight"].double().T + s.parameters["bias"].double() for s in bank]
    weights = np.array([s.weight for s in bank])
    return model, bank, np.stack([z.softmax(1).numpy() for z in logits]), weights / weights.sum()


def close(found, expected):
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("batch_size", [None, 7])
def test_weighted_sums_over_the_samples(bank, batch_size):
    model, samples, each, share = bank
    made = samples.classify(model, X, batch_size=batch_size)
    mean = np.tensordot(share, each, 1)
    close(made.probabilities, mean)
    close(made.std, np.sqrt(np.tensordot(share, (each - mean) ** 2, 1)))
    close(made.entropy, stats.entropy(mean, axis=1))
    close(made.mutual_information, stats.entropy(mean, axis=1) - share @ stats.entropy(each, axis=2))
    close(made.mutual_information, mutual_information(each, share))
    assert made.classes.tolist() == mean.argmax(1).tolist() and made.samples == len(samples) == 8
    assert made.probabilities.dtype == made.entropy.dtype == torch.float32
    assert share.max() > 5 * share.min() and not np.allclose(mean, each.mean(0), atol=1e-2)  # the weights matter


def test_it_is_what_predict_gives_with_a_softmax(bank):
    model, samples, *_ = bank
    made, same = samples.classify(model, X), samples.predict(model, X, transform=lambda z: z.softmax(1), batch_size=9)
    torch.testing.assert_close(made.probabilities, same.mean)
    torch.testing.assert_close(made.std, same.std, rtol=1e-4, atol=1e-6)
    # There is no observation noise: what is left is the spread due to the parameters.
    assert same.noise_std == 0.0 and torch.equal(same.total_std, same.std)
    assert not torch.allclose(samples.predict(model, X).mean.softmax(1), made.probabilities, atol=1e-3)


def test_samples_that_are_certain():
    """In closed form: agreement has no entropy, disagreement has all of it in the parameters, a coin has none there."""
    model = nn.Linear(1, 2, bias=False)

    def sampled(*slopes, weights=None):
        pairs = zip(slopes, weights or [1.0] * len(slopes), strict=True)
        return [Sample(0, k, w, 1.0, {"weight": torch.tensor([[0.0], [s]])}) for k, (s, w) in enumerate(pairs)]

    x = torch.ones(1, 1)
    agree = classify(sampled(200.0, 300.0), model, x)
    assert agree.entropy == agree.mutual_information == 0.0 and agree.probabilities.tolist() == [[0.0, 1.0]]
    apart = classify(sampled(200.0, -200.0, weights=[3.0, 1.0]), model, x)
    expected = pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert apart.entropy.item() == expected and apart.mutual_information.item() == expected
    assert apart.std.tolist() == [[pytest.approx(np.sqrt(0.75 * 0.25))] * 2] and apart.classes.tolist() == [1]
    coin = classify(sampled(0.0, 0.0), model, x)
    assert coin.entropy.item() == pytest.approx(np.log(2)) and coin.mutual_information == 0.0


def test_logits_at_many_places():
    torch.manual_seed(0)
    model = nn.Conv2d(1, 3, 3, padding=1).double()
    parameters = {n: p.detach().clone() for n, p in model.named_parameters()}
    samples = [Sample(0, k, 1.0 + k, 1.0, {n: p * (1 + k) for n, p in parameters.items()}) for k in range(3)]
    x = torch.randn(5, 1, 4, 6, dtype=torch.float64)
    made = classify(samples, model, x, batch_size=2)
    assert isinstance(made, Classification)
    assert made.probabilities.shape == made.std.shape == (5, 3, 4, 6) and made.probabilities.dtype == torch.float64
    assert made.classes.shape == made.entropy.shape == made.mutual_information.shape == (5, 4, 6)
    each = [torch.func.functional_call(model, s.parameters, (x,)).softmax(1).detach().numpy() for s in samples]
    expected = mutual_information(np.stack(each), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(made.mutual_information.numpy(), expected, rtol=1e-10, atol=1e-14)


def test_what_cannot_be_classified(bank):
    model, samples, *_ = bank
    with pytest.raises(ValueError, match=r"two classes or more, but the model's output has shape \(30, 1\)"):
        one, regression = nn.Linear(3, 1), PosteriorBank(thin=1)
        sampler = sgld(one, GaussianLikelihood(), num_data=30, step_size=1e-4)
        regression.collect(sampler, sampler.step(X, X[:, :1]))
        regression.classify(one, X)
    with pytest.raises(FloatingPointError, match="the logits of the sample of chain 0, step 2 are not finite"):
        samples.classify(model, X * torch.inf)
    with pytest.raises(ValueError, match="no samples of positive weight"):
        PosteriorBank().classify(model, X)
    for ask in (samples.classify, samples.predict, samples.predictive):
        with pytest.raises(ValueError, match=r"batch_size must be at least 1, or None .*, got 0"):
            ask(model, X, batch_size=0)


def test_batch_norm_needs_statistics():
    torch.manual_seed(0)
    model, bank = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)), PosteriorBank(thin=1)
    fit(psgld_sa(model, CategoricalLikelihood(), num_data=30, step_size=1e-2), [(X, LABELS)], steps=4, bank=bank)
    with pytest.raises(ValueError, match="statistics=loader"):
        bank.classify(model, X)
    made, same = (bank.classify(model, rows, statistics=X) for rows in (X, X[:1]))
    torch.testing.assert_close(made.probabilities[:1], same.probabilities)
    # One batch of all inputs: each sample predicts as in training mode, but for the n - 1 in the variance.
    model[1].eps = model[1].eps * 30 / 29
    each = []
    for sample in bank:
        with torch.no_grad():
            hidden = nn.functional.linear(X, sample.parameters["0.weight"], sample.parameters["0.bias"])
            scaled = (hidden - hidden.mean(0)) / (hidden.var(0) + 1e-5).sqrt()
            scaled = scaled * sample.parameters["1.weight"] + sample.parameters["1.bias"]
            each.append(nn.functional.linear(scaled, sample.parameters["2.weight"], sample.parameters["2.bias"]))
    torch.testing.assert_close(made.probabilities, torch.stack(each).softmax(2).mean(0))


class Attentive(nn.Module):
    """Tokens of three numbers, attended to and classified."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        hidden = self.encoder(self.embed(x))
        return self.head(self.attention(hidden, hidden, hidden, need_weights=False)[0].mean(1))


def test_fused_attention_predicts_with_the_samples_weights():
    """In eval mode torch runs attention in one kernel; it must see each sample's weights, and not the model's."""
    torch.manual_seed(0)
    model, bank = Attentive(), PosteriorBank(thin=1, precision="full")
    x, y = torch.randn(12, 4, 3), torch.randint(2, (12,))
    fit(psgld_sa(model, CategoricalLikelihood(), num_data=12, step_size=1e-2), [(x, y)], steps=6, bank=bank)
    names = set(next(iter(bank)).parameters)
    assert "encoder.layers.0.self_attn.in_proj_weight" in names
    fused = bank.classify(model, x).probabilities
    each = []
    for sample in bank:
        twin = copy.deepcopy(model).eval()
        twin.load_state_dict(sample.parameters)
        each.append(twin(x).detach().softmax(1))  # with gradients, so one operation after the other
    weights = torch.tensor([s.weight for s in bank])
    expected = (weights[:, None, None] * torch.stack(each)).sum(0) / weights.sum()
    torch.testing.assert_close(fused, expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert not torch.allclose(fused, model.eval()(x).softmax(1), atol=1e-3)
