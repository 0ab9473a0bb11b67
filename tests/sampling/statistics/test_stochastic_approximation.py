"""The latent variables: rate of convergence, fixed points by quadrature, and exact enumeration of models."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import GaussianLikelihood, Polynomial, RMSprop, SpikeSlab, psgld_sa, sgld_sa
from tests.sampling.statistics.gaussian import Vector, gaussian_log_density

GRID = np.linspace(-15, 15, 300_001)


def component_densities(prior, sigma=1.0):
    spike = np.exp(-np.abs(GRID) / (sigma * prior.v0)) / (2 * sigma * prior.v0)
    slab = np.exp(-(GRID**2) / (2 * sigma**2 * prior.v1)) / math.sqrt(2 * math.pi * sigma**2 * prior.v1)
    return spike, slab


def fixed_point(mean, precision, prior):
    """The rho with rho = E[r(beta)], beta from the likelihood N(mean, 1/precision) times the prior at rho."""
    spike, slab = component_densities(prior)
    r = prior.delta * slab / (prior.delta * slab + (1 - prior.delta) * spike)
    rho = 0.5
    for _ in range(200):
        energy = precision / 2 * (GRID - mean) ** 2
        energy += (1 - rho) / prior.v0 * np.abs(GRID) + rho / prior.v1 * GRID**2 / 2
        weight = np.exp(energy.min() - energy)
        rho = float((weight * r).sum() / weight.sum())
    return rho


def chain(algorithm, means, prior, *, step_size, omega, seed, **options):
    start = torch.as_tensor(means, dtype=torch.float64)
    target = gaussian_log_density(start, torch.ones_like(start))
    return algorithm(
        Vector(start),
        target,
        num_data=1,
        step_size=step_size,
        omega=omega,
        prior=prior,
        sparse=["beta"],
        seed=seed,
        **options,
    )


def test_mean_square_error_is_proportional_to_omega():
    """E|theta - theta*|^2 = O(omega): log-log slope 1 over 200 replicates, theta = (rho, s)."""
    prior = SpikeSlab(v0=1.0, v1=9.0, delta=0.5, delta_update="fixed", latents="averaged")
    exact = fixed_point(2.0, 1.0, prior)
    omegas = np.array([5e-4, 1e-3, 2e-3, 4e-3, 8e-3])
    errors = []
    for omega in omegas:
        sampler = chain(sgld_sa, np.full(200, 2.0), prior, step_size=0.05, omega=omega, seed=1)
        burn_in, steps = round(4 / omega), round(2 / omega)
        squares = []
        for k in range(burn_in + steps):
            sampler.step(None)
            if k >= burn_in and k % 20 == 0:
                theta = torch.stack([sampler.vectors["rho"], sampler.vectors["s"]])
                squares.append((theta - exact).square().sum(0).mean().item())
        errors.append(np.mean(squares))
    slope = np.polyfit(np.log(omegas), np.log(errors), 1)[0]
    assert 0.8 < slope < 1.2


@pytest.mark.parametrize("algorithm", [sgld_sa, psgld_sa])
def test_rho_reaches_the_quadrature_fixed_point(algorithm):
    prior = SpikeSlab(v0=1.0, v1=9.0, delta=0.5, delta_update="fixed", latents="averaged")
    means = [0.0, 1.0, 2.0, 3.0, 5.0]
    options = {"preconditioner": RMSprop(alpha=0.999, eta=0.1)} if algorithm is psgld_sa else {}
    sampler = chain(
        algorithm,
        np.repeat(means, 300),
        prior,
        step_size=0.03,
        omega=Polynomial(1.0, 10.0, 0.8),
        seed=2,
        **options,
    )
    total = 0.0
    for k in range(6000):
        sampler.step(None)
        if k >= 3000:
            total = total + sampler.vectors["rho"].view(5, 300).mean(1) / 3000
    for mean, seen in zip(means, total.tolist(), strict=True):
        assert abs(seen - fixed_point(mean, 1.0, prior)) < 0.01, f"at mean {mean}"


def enumerate_models(estimates, n, prior):
    """P(gamma_j = 1 | y) by summing over all 2^p models of an orthogonal design, X'X = n I, sigma = 1."""
    spike, slab = component_densities(prior)
    width = GRID[1] - GRID[0]
    evidence = []  # of each weight under spike and slab
    for estimate in estimates:
        likelihood = np.exp(-n * (GRID - estimate) ** 2 / 2)
        evidence.append((float((likelihood * spike).sum() * width), float((likelihood * slab).sum() * width)))
    total, inclusion = 0.0, np.zeros(len(estimates))
    for model in itertools.product((0, 1), repeat=len(estimates)):
        gamma = np.array(model)
        size = gamma.sum()
        weight = prior.delta**size * (1 - prior.delta) ** (len(gamma) - size)
        weight *= math.prod(e[g] for e, g in zip(evidence, model, strict=True))
        total += weight
        inclusion += weight * gamma
    return inclusion / total


@pytest.mark.parametrize(("algorithm", "step_size"), [(sgld_sa, 3e-4), (psgld_sa, 3e-3)])
def test_rho_equals_enumeration_of_all_models(algorithm, step_size):
    """Ten predictors of every strength. Each output of the layer is an independent chain on the same data."""
    n, p, chains = 100, 10, 100
    rng = np.random.default_rng(0)
    x = math.sqrt(n) * np.linalg.qr(rng.normal(size=(n, p)))[0]
    y = x @ np.array([2.0, 1.0, 0.7, 0.5, 0.4, 0.3, 0.2, 0.0, 0.0, 0.0]) + rng.normal(size=n)
    prior = SpikeSlab(v0=0.1, v1=10.0, delta=0.5, delta_update="fixed", latents="averaged")
    exact = enumerate_models(x.T @ y / n, n, prior)
    assert ((exact > 0.1) & (exact < 0.9)).sum() >= 3  # not only clear cases

    sampler = algorithm(
        nn.Linear(p, chains, bias=False).double(),
        GaussianLikelihood(sigma=1.0, learn=False),
        num_data=n,
        step_size=step_size,
        prior=prior,
        omega=Polynomial(1.0, 10.0, 0.8),
        seed=3,
        **({"preconditioner": RMSprop(alpha=0.9999)} if algorithm is psgld_sa else {}),
    )
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)[:, None].repeat(1, chains)
    total = 0.0
    for k in range(8000):
        sampler.step(inputs, targets)
        if k >= 4000:
            total = total + sampler.vectors["rho"].view(chains, p).mean(0) / 4000
    assert np.abs(total.numpy() - exact).max() < 0.02
