"""A sampler with a parameter at its limit is a simpler algorithm: bit for bit where the arithmetic is the same."""

import math

import pytest
import torch
from torch import nn

from sparse_langevin import (
    Batches,
    GaussianLikelihood,
    GaussianPrior,
    RMSprop,
    SpikeSlab,
    psgld,
    psgld_sa,
    sgld,
    sgld_sa,
)

N = 60


def make_model(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 5, generator=generator)
    return x, x[:, :1] - x[:, 1:2] + 0.1 * torch.randn(N, 1, generator=generator)


def negative_log_likelihood(model, x, y, sigma):
    """As a user of torch.optim would write it, scaled to the whole data set."""
    return -(N / len(x)) * ((model(x) - y).square().sum() * (-0.5 / sigma**2))


def weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_infinite_tau_is_sgd(data, engine):
    ours, theirs = make_model(), make_model()
    likelihood = GaussianLikelihood(sigma=0.5, learn=False)
    prior = GaussianPrior(2.0)
    sampler = sgld(ours, likelihood, num_data=N, step_size=1e-4, tau=math.inf, prior=prior, engine=engine)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=1e-4, weight_decay=0.25, foreach=False)
    for x, y in Batches(*data, batch_size=16):
        info = sampler.step(x, y)
        optimizer.zero_grad()
        negative_log_likelihood(theirs, x, y, 0.5).backward()
        optimizer.step()
        assert_equal(ours, theirs, engine)
        assert info.noise_norm == 0


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_infinite_tau_is_rmsprop(data, engine):
    ours, theirs = make_model(), make_model()
    likelihood = GaussianLikelihood(sigma=0.5, learn=False)
    metric = RMSprop(alpha=0.9, eta=1e-3)
    options = {"tau": math.inf, "prior": GaussianPrior(math.inf), "preconditioner": metric, "engine": engine}
    sampler = psgld(ours, likelihood, num_data=N, step_size=1e-3, **options)
    batches = list(Batches(*data, batch_size=16)) * 3
    sampler.step(*batches[0])  # torch starts from V = 0, we from V = g*g: compare from the second step on
    theirs.load_state_dict(ours.state_dict())
    optimizer = torch.optim.RMSprop(theirs.parameters(), lr=1e-3, alpha=0.9, eps=1e-3, foreach=False)
    seconds = sampler.flat.views(sampler.vectors["v"])
    for name, parameter in theirs.named_parameters():
        optimizer.state[parameter] = {"step": torch.tensor(1.0), "square_avg": seconds[name].clone()}
    for x, y in batches[1:]:
        sampler.step(x, y)
        optimizer.zero_grad()
        negative_log_likelihood(theirs, x, y, 0.5).backward()
        optimizer.step()
        assert_equal(ours, theirs, engine)


def assert_equal(ours, theirs, engine):
    """Bit for bit where the operations are torch's, to rounding where they are compiled."""
    if engine == "reference":
        assert torch.equal(weights(ours), weights(theirs))
    else:
        torch.testing.assert_close(weights(ours), weights(theirs), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("algorithm", [sgld_sa, psgld_sa])
def test_zero_omega_is_a_fixed_prior(data, algorithm):
    """With omega = 0 the latent variables stay, and the prior is exp(-kappa0|b|/sigma - kappa1 b^2/(2 sigma^2))."""
    prior = SpikeSlab(v0=0.3, v1=4.0, delta=0.25, latents="averaged")
    sigma = 0.5
    likelihood = GaussianLikelihood(sigma=sigma)
    ours = make_model(dtype=torch.float64)
    # Theirs has a kink inside the likelihood, where ours has a prior that tells its curvature.
    metric = {"preconditioner": RMSprop.as_printed()} if algorithm is psgld_sa else {}
    adaptive = algorithm(ours, likelihood, num_data=N, step_size=1e-4, prior=prior, omega=0.0, seed=3, **metric)

    theirs = make_model(dtype=torch.float64)

    def log_likelihood(model, batch):
        """The same posterior with the sparse layers' prior spread over the examples."""
        x, y = batch
        penalty = 0.0
        for layer in (model[0], model[2]):
            w = layer.weight
            penalty = penalty + (0.75 / 0.3 * w.abs() / sigma + 0.25 / 4.0 * w.square() / (2 * sigma**2)).sum()
        return -0.5 / sigma**2 * (model(x) - y).square().sum(1) - penalty / N

    plain = {sgld_sa: sgld, psgld_sa: psgld}[algorithm]
    fixed = plain(
        theirs,
        log_likelihood,
        num_data=N,
        step_size=1e-4,
        prior=GaussianPrior(math.inf),
        dense_prior=GaussianPrior(1.0),
        seed=3,
        **metric,
    )
    for x, y in Batches(*(t.double() for t in data), batch_size=16):
        info = adaptive.step(x, y)
        fixed.step((x, y))
    assert info.sigma == sigma
    assert info.inclusion == pytest.approx(0.25, abs=1e-15)
    assert set(adaptive.delta.values()) == {0.25}
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-12, atol=1e-13)


def test_frozen_metric_is_sgld_in_scaled_coordinates():
    """With V frozen, PSGLD in beta is SGLD in theta = beta/sqrt(G), noise included."""

    class Vector(nn.Module):
        def __init__(self, start):
            super().__init__()
            self.beta = nn.Parameter(start.clone())

    generator = torch.Generator().manual_seed(2)
    precision = torch.rand(6, 6, generator=generator, dtype=torch.float64)
    precision = precision @ precision.T + torch.eye(6, dtype=torch.float64)
    v = torch.rand(6, generator=generator, dtype=torch.float64) * 4
    root = (1e-3 + v.sqrt()).rsqrt()
    start = torch.randn(6, generator=generator, dtype=torch.float64)

    def target(scale):
        return lambda model, batch: -0.5 * ((scale * model.beta) @ precision @ (scale * model.beta)).reshape(1)

    flat = GaussianPrior(math.inf)
    ones = torch.ones_like(start)
    metric = RMSprop(alpha=1.0)
    ours = psgld(Vector(start), target(ones), num_data=1, step_size=0.05, prior=flat, preconditioner=metric, seed=5)
    theirs = sgld(Vector(start / root), target(root), num_data=1, step_size=0.05, prior=flat, seed=5)
    state = ours.state_dict()
    ours.load_state_dict(state | {"steps": 1, "tensors": state["tensors"] | {"v": v}})
    theirs.load_state_dict(theirs.state_dict() | {"steps": 1})
    for _ in range(50):
        ours.step(None)
        theirs.step(None)
    assert torch.equal(ours.vectors["v"], v)
    torch.testing.assert_close(ours.flat.vector, theirs.flat.vector * root, rtol=1e-12, atol=1e-13)
