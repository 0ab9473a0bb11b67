"""Effective draws and Monte Carlo errors of weighted samples, against replicated chains and closed forms."""

import numpy as np
import pytest

from sparse_langevin import Cosine, PosteriorBank
from sparse_langevin.posterior.diagnostics import Traces, ess, ess_tail, mcse, traces, verdict
from tests.posterior.chains import run
from tests.posterior.test_diagnostics import autoregression

REPLICATES = 400


def geometric(draws, ratio):
    """Weights that fall by a factor."""
    return ratio ** (-np.arange(draws) / draws)


def cosine(draws, cycles=4):
    """The weights of a cyclical step size."""
    length = draws // cycles
    return (1 + np.cos(np.pi * (np.arange(draws) % length) / length)) / 2


def replicated(chains, draws, phi, seed=0):
    """Chains (chains, draws, replicates) of an AR(1) process of variance 1."""
    x = autoregression(np.random.default_rng(seed), chains * REPLICATES, draws, phi) * np.sqrt(1 - phi**2)
    return x.reshape(REPLICATES, chains, draws).transpose(1, 2, 0)


def exact_error(chains, weights, phi):
    """The error of the weighted mean over chains with the same weights: sqrt(w' C w / chains) / sum w."""
    lags = np.abs(np.subtract.outer(np.arange(len(weights)), np.arange(len(weights))))
    return np.sqrt(weights @ phi**lags @ weights / chains) / weights.sum()


@pytest.mark.parametrize("case", range(20))
def test_equal_weights_change_nothing(case):
    rng = np.random.default_rng(case)
    x = autoregression(rng, int(rng.integers(1, 5)), int(rng.integers(8, 300)), rng.uniform(-0.9, 0.99))
    for weights in (np.full(x.shape, 0.1), 3.0):
        for statistic in (ess, mcse):
            assert statistic(x, weights) == statistic(x)
        assert ess_tail(x, weights=weights) == ess_tail(x)
    nearly = 1 + 1e-13 * np.arange(x.shape[1])  # these take the path of weights that differ
    for statistic in (ess, mcse):
        assert statistic(x, nearly) == pytest.approx(statistic(x), rel=1e-8)


@pytest.mark.parametrize(
    ("chains", "draws", "phi", "weights", "bias"),
    [
        (4, 1000, 0.8, geometric(1000, 20), 0.03),
        (4, 1000, 0.8, cosine(1000), 0.03),
        (4, 1000, -0.5, geometric(1000, 20), 0.03),
        (1, 2000, 0.8, geometric(2000, 20), 0.05),
        (1, 2000, 0.9, geometric(2000, 400), 0.08),
        (1, 2000, 0.9, cosine(2000), 0.05),
        # Each cycle, the part of a chain that counts, is hardly longer than the memory of the chain.
        (4, 200, 0.95, cosine(200), 0.15),
    ],
)
def test_the_error_of_a_weighted_mean(chains, draws, phi, weights, bias):
    """The stated error against its closed form and the spread of the mean over 400 replicates, in root mean square."""
    x = replicated(chains, draws, phi)
    stated = mcse(x, weights)
    root = np.sqrt(np.mean(stated**2))
    noise = 4 * stated.std() / np.sqrt(REPLICATES)
    exact = exact_error(chains, weights, phi)
    assert abs(root - exact) < noise + bias * exact
    means = np.average(x.mean(0), axis=0, weights=weights)
    assert abs(root - means.std()) < noise + (bias + 4 / np.sqrt(2 * REPLICATES)) * exact


def test_effective_draws_are_variance_over_error():
    """A monotone function of Gaussian draws has their ranks, whose scores are Gaussian again."""
    weights = geometric(1000, 20)
    x = replicated(4, 1000, 0.8, seed=1)
    exact = 1 / exact_error(4, weights, 0.8) ** 2
    assert np.median(ess(x, weights)) == pytest.approx(exact, rel=0.06)
    assert np.array_equal(ess(np.exp(3 * x[..., :5]), weights), ess(x[..., :5], weights))
    assert exact < 0.75 * np.median(ess(x))


def test_independent_draws_are_worth_kish():
    x, weights = replicated(2, 1000, 0.0, seed=2), geometric(1000, 50)
    kish = 2 * weights.sum() ** 2 / np.square(weights).sum()
    assert ess(x, weights).mean() == pytest.approx(kish, rel=0.05)
    assert ess_tail(x, weights=weights).mean() == pytest.approx(kish, rel=0.15)  # the smaller one of two
    assert ess(np.ones((2, 1000)), weights) == pytest.approx(kish)
    assert mcse(np.ones((2, 1000)), weights) == 0


def test_draws_without_weight_do_not_count():
    x = replicated(2, 1000, 0.5, seed=3)
    weights = np.repeat([0.0, 1.0], 500)
    assert np.mean(ess(x, weights) / ess(x[:, 500:])) == pytest.approx(1, abs=0.05)
    assert np.mean(mcse(x, weights) / mcse(x[:, 500:])) == pytest.approx(1, abs=0.03)
    shifted = x + 100 * (weights == 0)[:, None]
    assert mcse(shifted, weights) == pytest.approx(mcse(x, weights))


def test_chains_that_disagree_are_uncertain():
    x, weights = replicated(4, 500, 0.5, seed=4)[..., 0], cosine(500)
    assert mcse(x + 5 * np.arange(4)[:, None], weights) > 20 * mcse(x, weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(7), r"weights of shape \(7,\) do not fit draws of shape \(2, 50\)"),
        (np.zeros((2, 50)), "not all zero, got 0 to 0"),
        (np.linspace(-1, 1, 50), "not negative and not all zero, got -1 to 1"),
        (np.full(50, np.nan), "weights must be finite"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        mcse(np.random.default_rng(0).standard_normal((2, 50)), weights)


def test_traces_bring_the_weights_of_their_samples():
    bank = PosteriorBank(thin=5)
    for chain, steps in ((0, 40), (1, 50)):
        run(bank, steps=steps, chain=chain, step_size=Cosine(1e-3, 50))
    samples, found = list(bank), traces(bank)
    assert found.weights.tolist() == [[s.weight for s in samples[:8]], [s.weight for s in samples[10:]]]
    assert found.weights[0, 0] != found.weights[0, -1]
    assert dict(found).keys() == {"sigma"} and isinstance(found, dict)


def test_the_verdict_uses_the_weights():
    x = np.random.default_rng(5).standard_normal((4, 500))
    weights = np.broadcast_to(geometric(500, 1e6), x.shape)
    (line,) = verdict({"sigma": x})
    assert line.startswith("4 chains agree")
    lines = verdict(Traces({"sigma": x}, weights))
    assert f"sigma has {float(ess(x, weights)):.0f} effective draws of 2000, wanted 400" in lines[1]
    assert f"its mean is known to {float(mcse(x, weights)):.2g}" in lines[1]
    assert verdict(Traces({"sigma": x}, np.ones_like(x))) == verdict(Traces({"sigma": x})) == [line]
