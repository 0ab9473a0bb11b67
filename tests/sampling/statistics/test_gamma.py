"""The Gamma correction: its formula, the curvature behind it, and the bias that it removes."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import (
    CategoricalLikelihood,
    GaussianLikelihood,
    GaussianPrior,
    RMSprop,
    SpikeSlab,
    psgld,
    psgld_sa,
)
from sparse_langevin.sampling.curvature import hutchinson_diagonal, linear_diagonal
from tests.sampling.statistics.gaussian import Vector, gaussian_log_density

ETA, TAU, EPS = 20.0, 3.0, 1e-3


def make_sampler(kind, correction):
    torch.manual_seed(0)
    metric = RMSprop(alpha=0.0, eta=ETA, correction=correction)
    options = {"num_data": 30, "step_size": EPS, "tau": TAU, "preconditioner": metric, "omega": 0.0, "seed": 1}
    if kind == "gaussian-prior":
        return psgld(nn.Linear(3, 2).double(), GaussianLikelihood(sigma=0.8), prior=GaussianPrior(0.9), **options)
    if kind == "categorical":
        return psgld_sa(nn.Linear(3, 2).double(), CategoricalLikelihood(), **options)
    return psgld_sa(nn.Linear(3, 2).double(), GaussianLikelihood(sigma=0.8), prior=SpikeSlab(v0=0.3, v1=2.0), **options)


def batch(kind):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(10, 3, generator=generator, dtype=torch.float64)
    if kind == "categorical":
        return x, torch.randint(0, 2, (10,), generator=generator)
    return x, torch.randn(10, 2, generator=generator, dtype=torch.float64)


def metric_after(kind, beta, v):
    """G after one step from (beta, V): what Gamma differentiates."""
    sampler = make_sampler(kind, None)
    restart(sampler, beta, v)
    sampler.step(*batch(kind))
    return 1 / (ETA + sampler.vectors["v"].sqrt())


def restart(sampler, beta, v):
    state = sampler.state_dict()
    sampler.load_state_dict(state | {"steps": 1, "tensors": state["tensors"] | {"beta": beta, "v": v}})


@pytest.mark.parametrize("kind", ["gaussian-prior", "spike-slab", "categorical"])
def test_formula_against_finite_differences(kind):
    """The step with Gamma minus the step without is eps*Gamma/tau, and Gamma is dG/dbeta, prior included."""
    generator = torch.Generator().manual_seed(3)
    beta = torch.randn(8, generator=generator, dtype=torch.float64)
    v = 100 * torch.rand(8, generator=generator, dtype=torch.float64)
    moved = {}
    for correction in (None, "exact"):
        sampler = make_sampler(kind, correction)
        restart(sampler, beta, v)
        sampler.step(*batch(kind))
        moved[correction] = sampler.flat.vector.clone()
    ours = (moved["exact"] - moved[None]) * TAU / EPS

    h = 1e-6
    differences = torch.zeros(8, dtype=torch.float64)
    for i, unit in enumerate(torch.eye(8, dtype=torch.float64)):
        up, down = metric_after(kind, beta + h * unit, v), metric_after(kind, beta - h * unit, v)
        differences[i] = (up[i] - down[i]) / (2 * h)
    assert ours.abs().min() > 1e-6
    torch.testing.assert_close(ours, differences, rtol=1e-6, atol=1e-6 * differences.abs().max().item())


@pytest.mark.parametrize("likelihood", [GaussianLikelihood(sigma=0.8), CategoricalLikelihood()])
def test_linear_diagonal_is_exact(likelihood):
    torch.manual_seed(0)
    model = nn.Linear(3, 4).double()
    x, y = torch.randn(10, 3).double(), torch.randint(0, 4, (10,))
    target = y if isinstance(likelihood, CategoricalLikelihood) else torch.randn(10, 4).double()

    def potential(weight, bias):
        call = torch.func.functional_call
        module = lambda inputs: call(model, {"weight": weight, "bias": bias}, (inputs,))  # noqa: E731
        return -likelihood.evaluate(module, (x, target), 0.8).log_likelihood

    hessian = torch.autograd.functional.hessian(potential, (model.weight.detach(), model.bias.detach()))
    weight = hessian[0][0].reshape(12, 12).diagonal().view(4, 3)
    bias = hessian[1][1].diagonal()
    ours = linear_diagonal(model, likelihood, x, 0.8, [model.bias, model.weight])
    torch.testing.assert_close(ours[1], weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours[0], bias, rtol=1e-12, atol=1e-12)


def test_hutchinson_is_unbiased():
    """Over all sign vectors the estimate's mean is the exact diagonal, on a network with a coupled Hessian."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1, bias=False)).double()
    x, y = torch.randn(5, 2).double(), torch.randn(5, 1).double()
    parameters = list(model.parameters())
    sizes = [p.numel() for p in parameters]
    total = torch.zeros(sum(sizes), dtype=torch.float64)
    for signs in itertools.product((-1.0, 1.0), repeat=sum(sizes)):
        pieces = torch.tensor(signs, dtype=torch.float64).split(sizes)
        probe = [piece.view_as(p) for piece, p in zip(pieces, parameters, strict=True)]
        gradients = torch.autograd.grad((model(x) - y).square().sum(), parameters, create_graph=True)
        total += torch.cat([h.reshape(-1) for h in hutchinson_diagonal(gradients, parameters, probe)])
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])

    def potential(vector):
        values = {n: v.view_as(p) for (n, p), v in zip(model.named_parameters(), vector.split(sizes), strict=True)}
        return (torch.func.functional_call(model, values, (x,)) - y).square().sum()

    exact = torch.autograd.functional.hessian(potential, flat).diagonal()
    torch.testing.assert_close(total / 2 ** sum(sizes), exact, rtol=1e-11, atol=1e-11)


def variance(metric, step_size, *, burn_in, steps, tau=1.0, chains=4000):
    """Variance of PSGLD samples on N(0, 1), averaged over chains and time."""
    start = torch.randn(chains, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    target = gaussian_log_density(0.0, torch.ones(chains, dtype=torch.float64))
    flat = GaussianPrior(math.inf)
    sampler = psgld(
        Vector(start), target, num_data=1, step_size=step_size, prior=flat, preconditioner=metric, tau=tau, seed=5
    )
    squares = []
    for k in range(burn_in + steps):
        sampler.step(None)
        if k >= burn_in:
            squares.append(sampler.flat.vector.square().mean().item())
    return np.mean(squares)


def test_gamma_removes_the_bias_without_memory():
    """N(0, 1) with alpha = 0 and eta = 1: variance 13/9 = 1.444 without Gamma, 1 with it."""
    with pytest.warns(UserWarning, match="1 - alpha"):
        without = variance(RMSprop.as_printed(alpha=0.0, eta=1.0), 0.01, burn_in=1500, steps=2000)
    assert abs(without - 1.444) < 0.02
    assert abs(variance(RMSprop(alpha=0.0, eta=1.0, correction="auto"), 0.01, burn_in=1500, steps=2000) - 1) < 0.02


def test_gamma_is_divided_by_tau():
    """At inverse temperature 4 the target is N(0, 1/4)."""
    metric = RMSprop(alpha=0.0, eta=1.0, correction="hutchinson")
    assert abs(variance(metric, 0.01, tau=4.0, burn_in=1200, steps=2000) * 4 - 1) < 0.02


@pytest.mark.filterwarnings("ignore::sparse_langevin.ChainWarning")
def test_bias_falls_as_the_memory_grows():
    biases = []
    for forgetting in (0.1, 0.03, 0.01, 0.003, 0.001):
        metric = RMSprop.as_printed(alpha=1 - forgetting, eta=1.0)
        biases.append(variance(metric, 0.1, burn_in=max(300, round(3 / forgetting)), steps=2000) - 1)
    assert all(earlier > later for earlier, later in itertools.pairwise(biases)), biases
    assert biases[0] > 0.2
    assert biases[-1] < 0.05
