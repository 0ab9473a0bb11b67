"""A metric that starts safely and stops: what the samples gain by it."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn

from sparse_langevin import (
    Batches,
    GaussianLikelihood,
    GaussianPrior,
    PosteriorBank,
    RMSprop,
    Switch,
    fit,
    psgld,
    psgld_sa,
)
from sparse_langevin.sampling.curvature import curvature_size
from sparse_langevin.sampling.noise import CounterNoise
from tests.sampling.statistics.gaussian import Vector, gaussian_log_density, stationary_variance

FLAT = GaussianPrior(math.inf)
CHAINS = 4000


def normalised_variance(metric, step_size, *, burn_in, steps, momentum=0.0):
    """Variance of independent chains on N(0, 1) over that of chains with their final metrics: 1 if it is harmless."""
    start = torch.randn(CHAINS, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    target = gaussian_log_density(0.0, torch.ones(CHAINS, dtype=torch.float64))
    options = {"prior": FLAT, "preconditioner": metric, "momentum": momentum, "seed": 5}
    sampler = psgld(Vector(start), target, num_data=1, step_size=step_size, **options)
    squares = torch.zeros(CHAINS, dtype=torch.float64)
    for k in range(burn_in + steps):
        sampler.step(None)
        if k >= burn_in:
            squares += sampler.flat.vector.square() / steps
    g = 1 / (metric.eta + sampler.vectors["v"].sqrt())
    exact = 1.0 if momentum else stationary_variance(1.0, step_size, g)
    return float((squares / exact).mean())


@pytest.mark.parametrize("momentum", [0.0, 0.9], ids=["plain", "momentum"])
@pytest.mark.parametrize("eta", [1e-3, 1.0])
@pytest.mark.parametrize("alpha", [0.9, 0.99, 0.999])
def test_a_frozen_metric_leaves_the_variance_alone(alpha, eta, momentum):
    """Within 2 %, Monte Carlo error included; a metric that goes on has up to 1.5 instead of 1."""
    metric = RMSprop(alpha=alpha, eta=eta, freeze=300)
    found = normalised_variance(metric, 0.1, burn_in=600, steps=600, momentum=momentum)
    assert abs(found - 1) < 0.02, found


@pytest.mark.filterwarnings("ignore::sparse_langevin.ChainWarning")
def test_a_metric_that_goes_on_does_not():
    metric = RMSprop(alpha=0.9, eta=1.0, freeze=None)
    assert normalised_variance(metric, 0.1, burn_in=600, steps=600) > 1.15


@pytest.fixture(scope="module")
def diabetes():
    """Conjugate regression: standardised data, known noise, prior N(0, 1); with the exact mean and deviations."""
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    sigma = 0.7
    precision = x.T @ x / sigma**2 + np.eye(x.shape[1])
    mean, std = np.linalg.solve(precision, x.T @ y / sigma**2), np.sqrt(np.diag(np.linalg.inv(precision)))
    return torch.from_numpy(x), torch.from_numpy(y[:, None]), sigma, mean, std


@pytest.mark.parametrize(
    ("late", "freeze"),
    [(0, "burn-in"), (50, "burn-in"), (50, 50)],
    ids=["noise at once", "noise later", "noise as V stops"],
)
def test_the_optimum_is_not_left(diabetes, late, freeze):
    """A chain that starts at the optimum, where full-batch gradients vanish, stays within 2 posterior deviations.

    Started from the gradient alone, the weights are thrown off by tens of deviations.
    """
    x, y, sigma, mean, std = diabetes

    def farthest(metric):
        model = nn.Linear(x.shape[1], 1, bias=False).double()
        model.weight.data[:] = torch.from_numpy(mean)
        options = {"tau": Switch(math.inf, 1.0, late)} if late else {}
        likelihood = GaussianLikelihood(sigma, learn=False)
        sampler = psgld(model, likelihood, num_data=len(x), step_size=5e-3, preconditioner=metric, **options)
        away = []
        for _ in range(late + 100):
            sampler.step(x, y)
            away.append(np.sqrt(np.mean(((model.weight.detach().numpy()[0] - mean) / std) ** 2)))
        return max(away)

    assert farthest(RMSprop(freeze=freeze)) < 2
    if not late:  # before noise that comes later, steps that are too long have found out about the curvature
        assert farthest(RMSprop(start="gradient")) > 10


def test_v_starts_from_the_curvature_over_tau(diabetes):
    """At the optimum the gradient adds nothing: what is left is the squared gradient to expect at this temperature."""
    x, y, sigma, mean, _ = diabetes

    def start(tau):
        model = nn.Linear(x.shape[1], 1, bias=False).double()
        model.weight.data[:] = torch.from_numpy(mean)
        likelihood = GaussianLikelihood(sigma, learn=False)
        sampler = psgld(model, likelihood, num_data=len(x), step_size=1e-6, tau=tau)
        sampler.step(x, y)
        return sampler.vectors["v"]

    diagonal = (x.square().sum(0) / sigma**2 + 1).numpy()
    torch.testing.assert_close(start(100.0), start(1.0) / 100, rtol=1e-6, atol=0)
    assert (start(1.0).numpy().ravel() > 0.9 * diagonal).all()


def test_curvature_size_is_the_length_of_a_row():
    """A quadratic with a known Hessian: the mean over many probes; the weights stay where they were."""
    root = np.random.default_rng(0).normal(size=(6, 4))
    hessian = torch.from_numpy(root.T @ root)
    model = Vector([0.5, -1.0, 2.0, 0.0])
    sampler = psgld(model, lambda m, _: -0.5 * (m.beta @ hessian @ m.beta).reshape(1), num_data=1, step_size=1e-3)
    before = sampler.flat.vector.clone()
    found = torch.stack(
        [
            curvature_size(sampler.flat, lambda: sampler.gradient(None), CounterNoise(seed, 4, dtype=before.dtype), 1)
            for seed in range(2000)
        ]
    )
    assert torch.equal(sampler.flat.vector, before)
    size = found.square().mean(0).sqrt()
    torch.testing.assert_close(size, hessian.square().sum(1).sqrt(), rtol=0.05, atol=0)


def test_curvature_is_measured_with_the_same_dropout():
    """With another mask for each gradient the differences would be those of the masks, a thousand times as large."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 40), nn.Dropout(0.5), nn.Linear(40, 1)).double()
    x, y = torch.randn(30, 5).double(), torch.randn(30, 1).double()
    sampler = psgld(model, GaussianLikelihood(), num_data=30, step_size=1e-4)
    state = torch.get_rng_state()
    size = curvature_size(
        sampler.flat, lambda: sampler.gradient((x, y)), CounterNoise(0, sampler.flat.size, dtype=x.dtype), 1
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert size.max() < 1e3, size.max()


def test_fit_lets_the_metric_stop_when_samples_begin():
    x, y = torch.randn(50, 3), torch.randn(50, 1)
    for freeze, burn_in, wanted in (("burn-in", 200, 200), ("burn-in", 0, 100), (0.25, 200, 75), (40, 200, 40)):
        metric = RMSprop(freeze=freeze)
        sampler = psgld_sa(nn.Linear(3, 1), GaussianLikelihood(), num_data=50, step_size=1e-3, preconditioner=metric)
        seen = {}
        fit(
            sampler,
            Batches(x, y, batch_size=25),
            steps=300,
            bank=PosteriorBank(burn_in=burn_in),
            callbacks=[lambda s, info, seen=seen: seen.update({info.step: s.vectors["v"].clone()})],
        )
        assert sampler.preconditioner.freeze == wanted and f"freeze={wanted}" in sampler.settings()["preconditioner"]
        assert not torch.equal(seen[wanted - 1], seen[wanted]) and torch.equal(seen[wanted], seen[300])
    without = psgld_sa(nn.Linear(3, 1), GaussianLikelihood(), num_data=50, step_size=1e-3)
    fit(without, Batches(x, y, batch_size=25), steps=10)
    assert without.preconditioner.freeze == "burn-in"
    with pytest.raises(ValueError, match=r"RMSprop\(freeze=0.5\) is a share of a run whose length is not known"):
        RMSprop(freeze=0.5).planned(0, None, 100)
