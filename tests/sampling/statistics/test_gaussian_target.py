"""Stationary mean and variance on Gaussian targets against the closed form of the discretised chain."""

import math

import numpy as np
import pytest
import torch

from sparse_langevin import Batches, GaussianLikelihood, GaussianPrior, RMSprop, psgld, sgld
from sparse_langevin.sampling.kernels import BlockState, StepScalars
from sparse_langevin.sampling.kernels.reference import update
from sparse_langevin.sampling.metrics import Identity
from tests.sampling.statistics.gaussian import Vector, assert_moments, gaussian_log_density, stationary_variance

EIGENVALUES = np.array([1.0, 10.0, 100.0, 1e3, 1e4])
FLAT = GaussianPrior(math.inf)
MEAN = 0.7


def run(sampler, burn_in, steps, every):
    kept = []
    for k in range(burn_in + steps):
        sampler.step(None)
        if k >= burn_in and k % every == 0:
            kept.append(sampler.flat.vector.clone())
    return torch.stack(kept).numpy()


def columns_of(chains):
    return np.split(np.arange(sum(chains)), np.cumsum(chains)[:-1])


@pytest.mark.parametrize("relative_step", [1.0, 1.4, 1.9])
def test_sgld_update_over_four_decades(relative_step):
    """The bare update on eigenvalues 1 to 1e4; the slowest direction takes 1e4/relative_step steps to relax."""
    step_size = relative_step / EIGENVALUES.max()
    chains = [6000, 2000, 700, 400, 400]  # fast directions make up for fewer chains by time
    precision = torch.from_numpy(np.repeat(EIGENVALUES, chains))
    relaxation = round(1 / step_size)
    every = relaxation // 200
    generator = torch.Generator().manual_seed(1)
    beta = torch.full_like(precision, MEAN)
    scalars = StepScalars(step_size=step_size, tau=1.0, omega=0.0)
    kept = []
    for k in range(6 * relaxation):
        if k % 100 == 0:
            noise = torch.randn(100, len(beta), generator=generator).double()  # float32 draws cost a third
        grad = (beta - MEAN).mul_(precision)
        update(BlockState(FLAT, Identity(), beta, grad, numbers=(0.0,)), scalars, noise[k % 100])
        if k >= 3 * relaxation and k % every == 0:
            kept.append(beta.clone())
    draws = torch.stack(kept).numpy()
    for value, columns in zip(EIGENVALUES, columns_of(chains), strict=True):
        correlation = (1 - step_size * value) ** every
        assert_moments(draws[:, columns], MEAN, stationary_variance(value, step_size), correlation)


@pytest.mark.parametrize("relative_step", [0.5, 1.0, 1.8])
def test_sgld_sampler(relative_step):
    """The whole sampler, with its own noise, on two decades."""
    values = EIGENVALUES[:3]
    step_size = relative_step / values.max()
    chains = [3000, 1000, 400]
    precision = torch.from_numpy(np.repeat(values, chains))
    target = gaussian_log_density(MEAN, precision)
    start = torch.full_like(precision, MEAN)
    sampler = sgld(Vector(start), target, num_data=1, step_size=step_size, prior=FLAT, seed=2)
    relaxation = round(1 / step_size)
    draws = run(sampler, 3 * relaxation, 12 * relaxation, every=5)
    for value, columns in zip(values, columns_of(chains), strict=True):
        correlation = (1 - step_size * value) ** 5
        assert_moments(draws[:, columns], MEAN, stationary_variance(value, step_size), correlation)


@pytest.mark.filterwarnings("ignore:the chain is too warm")
@pytest.mark.parametrize("step_size", [0.1, 0.6, 1.5])
def test_psgld_sampler_with_frozen_metric(step_size):
    """With V = lambda^2 frozen all directions relax at one rate: G*lambda is 1 up to eta."""
    chains = [700] * 5
    precision = torch.from_numpy(np.repeat(EIGENVALUES, chains))
    target = gaussian_log_density(MEAN, precision)
    start = torch.full_like(precision, MEAN)
    metric = RMSprop(alpha=1.0)
    sampler = psgld(Vector(start), target, num_data=1, step_size=step_size, prior=FLAT, preconditioner=metric, seed=3)
    state = sampler.state_dict()
    sampler.load_state_dict(state | {"steps": 1, "tensors": state["tensors"] | {"v": precision**2}})
    draws = run(sampler, burn_in=100, steps=3000, every=5)
    for value, columns in zip(EIGENVALUES, columns_of(chains), strict=True):
        g = 1 / (1e-3 + value)
        correlation = (1 - step_size * g * value) ** 5
        assert_moments(draws[:, columns], MEAN, stationary_variance(value, step_size, g), correlation)


@pytest.mark.parametrize("relative_step", [1.0, 10.0, 30.0])
def test_momentum(relative_step):
    """With momentum the variance is exact at any stable step, here up to 15 times beyond the limit without it.

    The step as a linear map of (x, velocity), whose stationary covariance solves a Lyapunov equation.
    """
    mu, values, step_size = 0.9, np.array([0.1, 1.0]), relative_step
    chains = [1500, 1500]
    precision = torch.from_numpy(np.repeat(values, chains))
    start = torch.full_like(precision, MEAN)
    target = gaussian_log_density(MEAN, precision)
    sampler = sgld(Vector(start), target, num_data=1, step_size=step_size, prior=FLAT, momentum=mu, seed=6)
    draws = run(sampler, burn_in=300, steps=3000, every=50)
    for value, columns in zip(values, columns_of(chains), strict=True):
        h = np.sqrt(2 * step_size * (1 - mu) / (1 + mu))
        kick, drift = np.array([[1, 0], [-h * value, 1]]), np.array([[1, h / 2], [0, 1]])
        transition = drift @ np.diag([1, mu]) @ drift @ kick
        noise = np.outer(drift[:, 1], drift[:, 1]) * (1 - mu**2)
        covariance = np.linalg.solve(np.eye(4) - np.kron(transition, transition), noise.ravel()).reshape(2, 2)
        assert covariance[0, 0] == pytest.approx(1 / value, rel=1e-12)
        correlation = np.abs(np.linalg.eigvals(transition)).max() ** 50
        assert_moments(draws[:, columns], MEAN, 1 / value, correlation)


def test_temperature_scales_the_variance():
    """At inverse temperature tau the target is N(mu, 1/(tau*lambda)); tau may follow a schedule."""
    precision = torch.full((2000,), 2.0, dtype=torch.float64)
    target = gaussian_log_density(MEAN, precision)
    start = torch.full_like(precision, MEAN)

    def tau(step):
        return 1.0 if step < 50 else 4.0

    sampler = sgld(Vector(start), target, num_data=1, step_size=0.1, prior=FLAT, tau=tau, seed=4)
    draws = run(sampler, burn_in=150, steps=500, every=5)
    assert_moments(draws, MEAN, stationary_variance(2.0, 0.1) / 4, 0.8**5)


def test_minibatches_keep_the_posterior_mean():
    """Linear regression with a fixed sigma: the average over the chain is the ridge solution."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(200, 4, generator=generator, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5], [0.0]], dtype=torch.float64)
    y = y + torch.randn(200, 1, generator=generator, dtype=torch.float64)
    model = torch.nn.Linear(4, 1, bias=False).double()
    likelihood = GaussianLikelihood(sigma=1.0, learn=False)
    sampler = sgld(model, likelihood, num_data=200, step_size=2e-4, prior=GaussianPrior(1.0), seed=6)
    loader = Batches(x, y, batch_size=50, seed=7)
    total, count = torch.zeros(4, dtype=torch.float64), 0
    for epoch in range(1500):
        loader.set_epoch(epoch)
        for batch in loader:
            sampler.step(*batch)
            if epoch >= 100:
                total += sampler.flat.vector
                count += 1
    precision = x.T @ x + torch.eye(4, dtype=torch.float64)
    exact = torch.linalg.solve(precision, x.T @ y)[:, 0]
    sd = torch.linalg.inv(precision).diagonal().sqrt()
    # 5600 steps of relaxation time 1/(eps*200) = 25 are worth 112 draws or more of the posterior.
    assert ((total / count - exact).abs() / sd).max() < 4 / math.sqrt(112)
