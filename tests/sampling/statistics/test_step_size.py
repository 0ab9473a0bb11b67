"""Advised steps: against closed forms, and against the deviations that they lead to."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn

from sparse_langevin import (
    Batches,
    ChainWarning,
    GaussianLikelihood,
    GaussianPrior,
    PosteriorBank,
    SpikeSlab,
    fit,
    psgld,
    psgld_sa,
    sgld,
    suggest_step_size,
)
from tests.sampling.statistics.gaussian import Vector, gaussian_log_density

SIGMA = 0.7
BATCH = 34  # 13 of them make 442 rows


@pytest.fixture(scope="module")
def diabetes():
    """Conjugate regression with the exact posterior: data, mean, deviations."""
    x, y = load_diabetes(return_X_y=True)
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    precision = x.T @ x / SIGMA**2 + np.eye(x.shape[1])
    mean, std = np.linalg.solve(precision, x.T @ y / SIGMA**2), np.sqrt(np.diag(np.linalg.inv(precision)))
    return torch.from_numpy(x), torch.from_numpy(y[:, None]), mean, std


def chain(algorithm, step_size, mean, rows, **options):
    model = nn.Linear(len(mean), 1, bias=False).double()
    model.weight.data[:] = torch.from_numpy(mean)
    return algorithm(
        model, GaussianLikelihood(SIGMA, learn=False), num_data=rows, step_size=step_size, seed=1, **options
    )


def draws(sampler, loader, steps, **options):
    bank = PosteriorBank(thin=10, burn_in=steps // 10, precision="full")
    fit(sampler, loader, steps=steps, bank=bank, **options)
    return np.array([sample.parameters["weight"].numpy()[0] for sample in bank])


@pytest.mark.parametrize(
    ("algorithm", "momentum", "steps"), [(sgld, 0.0, 100_000), (sgld, 0.95, 20_000), (psgld, 0.9, 20_000)]
)
def test_full_batches_at_the_advised_step(algorithm, momentum, steps, diabetes):
    """Means within 0.1 deviations, deviations within 5 %, besides the Monte Carlo error."""
    x, y, mean, std = diabetes
    first = chain(algorithm, 1e-9, mean, len(x), momentum=momentum)
    advice = suggest_step_size(first, [(x, y)])
    assert math.isinf(advice.limits["noise"]) and "momentum" in str(advice)
    found = draws(chain(algorithm, advice.step_size, mean, len(x), momentum=momentum), [(x, y)], steps)
    check(found, mean, std, 0.05)


@pytest.mark.parametrize(("algorithm", "momentum"), [(sgld, 0.0), (psgld, 0.9)])
def test_minibatches_at_the_advised_step(algorithm, momentum, diabetes):
    """Deviations within 10 % with batches of 34, and control variates that make larger steps right."""
    x, y, mean, std = diabetes
    loader = Batches(x, y, batch_size=BATCH)
    advice = suggest_step_size(chain(algorithm, 1e-9, mean, len(x), momentum=momentum), loader)
    assert advice.limited_by == "noise" and "control variates" in str(advice)
    found = draws(chain(algorithm, advice.step_size, mean, len(x), momentum=momentum), loader, 150_000)
    check(found, mean, std, 0.10)


def test_control_variates_make_large_steps_right(diabetes):
    x, y, mean, std = diabetes
    loader, size = Batches(x, y, batch_size=BATCH), 1e-3
    with pytest.warns(ChainWarning, match="the chain is too warm by a factor of"):
        hot = draws(chain(sgld, size, mean, len(x), momentum=0.9), loader, 10_000)
    assert (hot.std(0) / std).mean() > 1.3
    cool = draws(chain(sgld, size, mean, len(x), momentum=0.9), loader, 30_000, control_variates=1)
    check(cool, mean, std, 0.10)


def check(found, mean, std, share):
    """Deviations within a share of the truth on average over weights, and within twice that for each."""
    assert np.abs(found.mean(0) - mean).max() < 0.3 * std.max() and np.mean(np.abs(found.mean(0) - mean) / std) < 0.1
    ratios = found.std(0) / std
    assert abs(ratios.mean() - 1) < share and np.abs(ratios - 1).max() < 2.5 * share, ratios


def test_limits_against_closed_forms():
    """A diagonal Gaussian: stability at one over the largest curvature, errors from each weight's own."""
    precision = torch.tensor([1.0] * 30 + [100.0], dtype=torch.float64)
    target = gaussian_log_density(0.0, precision)
    options = {"num_data": 1, "step_size": 1e-6, "prior": GaussianPrior(math.inf)}
    advice = suggest_step_size(sgld(Vector(torch.ones(31)), target, **options), [None], error=0.1)
    assert advice.limits["stability"] == pytest.approx(0.01, rel=0.01)
    excess = 1.1**2 - 1
    assert advice.limits["step"] == pytest.approx(2 * excess / (1 + excess), rel=0.02)  # of 95 % of the weights
    advice = suggest_step_size(sgld(Vector(torch.ones(31)), target, momentum=0.9, **options), [None])
    assert advice.limits["stability"] == pytest.approx(1.9 / (2 * 0.1 * 100), rel=0.01)
    assert advice.step_size == advice.limits["stability"] and advice.limited_by == "stability"


def test_noise_of_batches_against_its_variance():
    """Batches that shift the gradient by a known amount: the limit is 2 q/(tau C)."""
    shifts = torch.tensor([-3.0, 3.0, -3.0, 3.0, -3.0, 3.0], dtype=torch.float64)

    def log_density(model, shift):
        return (-0.5 * model.beta.square().sum() + shift * model.beta.sum()).reshape(1)

    options = {"num_data": 1, "step_size": 1e-6, "prior": GaussianPrior(math.inf), "tau": 2.0}
    advice = suggest_step_size(sgld(Vector(torch.zeros(8)), log_density, **options), list(shifts), error=0.1)
    assert advice.limits["noise"] == pytest.approx(2 * (1.1**2 - 1) / (2.0 * float(shifts.var())), rel=1e-9)


def test_the_sampler_is_left_as_it_was(diabetes):
    x, y, _, _ = diabetes
    sampler = psgld_sa(
        nn.Linear(10, 1).double(), GaussianLikelihood(), num_data=len(x), step_size=1e-3, prior=SpikeSlab(v0=0.05)
    )
    for _ in range(3):
        sampler.step(x, y)
    before = {name: tensor.clone() for name, tensor in sampler.state_dict()["tensors"].items()}
    random = torch.get_rng_state()
    suggest_step_size(sampler, [(x, y)])
    assert all(torch.equal(tensor, before[name]) for name, tensor in sampler.state_dict()["tensors"].items())
    assert sampler.steps == 3 and torch.equal(torch.get_rng_state(), random)
    for bad in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="error must be between 0 and 1"):
            suggest_step_size(sampler, [(x, y)], error=bad)
    with pytest.raises(ValueError, match="the loader gave no batches"):
        suggest_step_size(sampler, [])
