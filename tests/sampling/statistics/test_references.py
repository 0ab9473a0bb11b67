"""Chains against NUTS: logistic regression, the eight schools, and a network's error bars in a gap.

``python -m benchmarks.references`` made references.json, with NumPyro.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import (
    Batches,
    CategoricalLikelihood,
    GaussianLikelihood,
    GaussianPrior,
    Identity,
    PosteriorBank,
    Sampler,
    fit,
    psgld,
    suggest_step_size,
)
from tests.sampling.statistics import models

REFERENCES = json.loads(Path(__file__).with_name("references.json").read_text())


def reference(name):
    record = REFERENCES[name]
    assert record["rhat"] < 1.01 and record["ess"] > 1000
    return np.array(record["mean"]), np.array(record["std"])


def assert_close(draws, name, share):
    """Means within 0.1 deviations and deviations within a share, on average; each within three times that."""
    mean, std = reference(name)
    off, ratio = np.abs(draws.mean(0) - mean) / std, draws.std(0) / std
    assert off.mean() < 0.1 and off.max() < 0.3, off
    assert abs(ratio.mean() - 1) < share and np.abs(ratio - 1).max() < 3 * share, ratio


class TwoClasses(nn.Module):
    """A logistic regression with coefficients beta: logits (0, x beta)."""

    def __init__(self, size):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(size, dtype=torch.float64))

    def forward(self, x):
        score = x @ self.beta
        return torch.stack([torch.zeros_like(score), score], 1)


@pytest.mark.parametrize(("batch", "share", "steps"), [(569, 0.05, 12_000), (190, 0.10, 30_000)])
def test_logistic_regression_on_breast_cancer(batch, share, steps):
    """Full batches within 5 %, minibatches at the advised step within 10 %."""
    x, y = models.breast_cancer()
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y).long()
    loader = Batches(inputs, labels, batch_size=batch)
    model = TwoClasses(x.shape[1])

    def chain(step_size, tau=1.0):
        options = {"momentum": 0.9, "prior": GaussianPrior(1.0), "tau": tau, "seed": 1}
        return psgld(model, CategoricalLikelihood(), num_data=len(x), step_size=step_size, **options)

    fit(chain(1e-2, math.inf), loader, steps=500)  # to the mode
    advice = suggest_step_size(chain(1e-6), loader)
    bank = PosteriorBank(thin=10, burn_in=steps // 10, precision="full")
    fit(chain(advice.step_size), loader, steps=steps, bank=bank)
    assert_close(np.array([sample.parameters["beta"].numpy() for sample in bank]), "breast cancer", share)


class Schools(nn.Module):
    """Parameters of the eight schools: mu, log tau, eta."""

    def __init__(self):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([5.0, 1.5, *[0.0] * 8], dtype=torch.float64))


def test_eight_schools():
    """The joint density as one example's log-likelihood, full batch, with momentum."""
    effects, errors = torch.from_numpy(models.EFFECTS), torch.from_numpy(models.ERRORS)
    centre, width = models.LOG_TAU

    def log_density(model, _):
        mu, log_tau, eta = model.theta[0], model.theta[1], model.theta[2:]
        fit_ = ((effects - mu - log_tau.exp() * eta) / errors).square().sum()
        prior = (mu / models.SCALE).square() + ((log_tau - centre) / width).square() + eta.square().sum()
        return -0.5 * (fit_ + prior).reshape(1)

    flat = GaussianPrior(math.inf)
    bank = PosteriorBank(thin=10, burn_in=5000, precision="full")
    sampler = psgld(Schools(), log_density, num_data=1, step_size=0.1, momentum=0.9, prior=flat, seed=3)
    fit(sampler, [None], steps=40_000, bank=bank)
    assert_close(np.array([sample.parameters["theta"].numpy() for sample in bank]), "eight schools", 0.05)


def network_draws(chain, steps=20_000):
    """Outputs on the grid by one chain."""
    x, y = models.gap_data()
    torch.manual_seed(chain)
    model = nn.Sequential(nn.Linear(1, models.WIDTH), nn.Tanh(), nn.Linear(models.WIDTH, 1)).double()
    deviations = {"0.weight": "w1", "0.bias": "b1", "2.weight": "w2", "2.bias": "b2"}
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=models.PRIOR[deviations[name]])
    sampler = Sampler(
        model,
        GaussianLikelihood(models.NOISE, learn=False),
        num_data=len(x),
        step_size=1e-3,
        momentum=0.99,
        preconditioner=Identity(),
        prior={name: GaussianPrior(models.PRIOR[part]) for name, part in deviations.items()},
        sparse=list(deviations),  # each with a prior of its own
        seed=7,
        chain=chain,
    )
    inputs, targets = (torch.from_numpy(values)[:, None] for values in (x, y))
    bank = PosteriorBank(thin=40, burn_in=steps // 4, precision="full")
    fit(sampler, [(inputs, targets)], steps=steps, bank=bank)
    grid = torch.from_numpy(models.GRID)[:, None]
    with torch.no_grad():
        return np.stack(
            [torch.func.functional_call(model, sample.parameters, (grid,)).numpy()[:, 0] for sample in bank]
        )


def test_a_networks_error_bars_in_a_gap():
    """One chain has at least half, four chains at least 0.8 of NUTS's deviation in the gap; on the data within 15 %."""
    _, std = reference("network")
    chains = [network_draws(chain) for chain in range(4)]
    single = [np.mean(draws.std(0)[models.GAP] / std[models.GAP]) for draws in chains]
    pooled = np.concatenate(chains).std(0) / std
    assert min(single) > 0.5, single
    assert 0.8 < pooled[models.GAP].mean() < 1.2, pooled[models.GAP]
    assert abs(pooled[models.ON_DATA].mean() - 1) < 0.15, pooled[models.ON_DATA]
