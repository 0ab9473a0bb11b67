"""A spike and slab with gamma summed out: its chain samples the posterior, and rho is a probability."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import GaussianLikelihood, SpikeSlab, psgld_sa, sgld_sa
from tests.linear.gibbs_reference import Model, gibbs

N, P, CHAINS = 100, 10, 32  # pooled over the chains, the Monte Carlo error of rho is at most 0.013


@pytest.fixture(scope="module")
def correlated():
    """Ten predictors with correlation 0.8^|i - j|, effects of every strength."""
    rng = np.random.default_rng(0)
    covariance = 0.8 ** abs(np.subtract.outer(range(P), range(P)))
    x = rng.multivariate_normal(np.zeros(P), covariance, size=N)
    x = (x - x.mean(0)) / x.std(0)
    return x, x @ np.array([1.0, 0, 0.5, 0, 0, 0.3, 0, 0, 0.2, 0]) + rng.normal(size=N)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("v0", [0.03, 0.1])
def test_rho_on_correlated_predictors(v0, seed, correlated):
    """Within 0.05 of an exact Gibbs sampler, whatever the seed; each output of the layer is a chain of its own."""
    x, y = correlated
    model = Model(v0=v0, v1=10.0, delta=0.5, sigma=1.0)
    exact = gibbs(x, y, model, 100_000, np.random.default_rng(1), burn_in=2000).inclusion.mean(0)
    assert ((exact > 0.1) & (exact < 0.9)).sum() >= 2  # not only clear cases
    found = rho_of(x, y, SpikeSlab(v0=v0, v1=10.0, delta=0.5, delta_update="fixed"), seed)
    assert np.abs(found - exact).max() < 0.05, (found, exact)


def test_the_stochastic_approximation_is_off_there(correlated):
    """The paper's rule gives the small effects too little, which a narrow spike makes worse."""
    x, y = correlated
    exact = gibbs(x, y, Model(v0=0.03, v1=10.0, delta=0.5, sigma=1.0), 100_000, np.random.default_rng(1), burn_in=2000)
    prior = SpikeSlab(v0=0.03, v1=10.0, delta=0.5, delta_update="fixed", latents="averaged")
    assert np.abs(rho_of(x, y, prior, 0) - exact.inclusion.mean(0)).max() > 0.08


def rho_of(x, y, prior, seed):
    torch.manual_seed(seed)
    sampler = sgld_sa(
        nn.Linear(P, CHAINS, bias=False).double(),
        GaussianLikelihood(1.0, learn=False),
        num_data=N,
        step_size=1e-3,
        momentum=0.9,
        prior=prior,
        seed=seed,
    )
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)[:, None].repeat(1, CHAINS)
    for _ in range(12_000):
        sampler.step(inputs, targets)
    return sampler.inclusion()["weight"].numpy().mean(0)


def test_moments_of_the_prior_itself():
    """Without data the chain samples the mixture: second and fourth moments, and rho = delta, against closed forms."""
    v0, v1, delta, size = 0.5, 2.0, 0.3, 4000
    model = nn.Linear(1, size, bias=False).double()
    prior = SpikeSlab(v0=v0, v1=v1, delta=delta, delta_update="fixed", scale=1.0)
    sampler = sgld_sa(model, lambda model, _: 0.0 * model.weight.sum().reshape(1), num_data=1, step_size=0.02,
                      momentum=0.9, prior=prior, seed=2)  # fmt: skip
    second, fourth = 0.0, 0.0
    for k in range(6000):
        sampler.step(None)
        if k >= 1000:
            square = sampler.flat.vector.square()
            second, fourth = second + float(square.mean()) / 5000, fourth + float(square.square().mean()) / 5000
    assert second == pytest.approx((1 - delta) * 2 * v0**2 + delta * v1, rel=0.03)
    assert fourth == pytest.approx((1 - delta) * 24 * v0**4 + delta * 3 * v1**2, rel=0.06)
    assert float(sampler.vectors["rho"].mean()) == pytest.approx(delta, abs=0.01)


def test_rho_is_an_average_that_forgets_the_beginning():
    """Weights proportional to (k + 1)(k + 2)(k + 3): those of the recursion with rate 4/(k + 4)."""
    torch.manual_seed(0)
    prior = SpikeSlab(v0=0.3, delta_update="fixed")
    sampler = sgld_sa(nn.Linear(3, 1).double(), GaussianLikelihood(), num_data=20, step_size=1e-3, prior=prior)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 1).double()
    seen = []
    for _ in range(30):
        sampler.step(x, y)
        seen.append(sampler.vectors["s"].clone())
    k = np.arange(30.0)
    weights = (k + 1) * (k + 2) * (k + 3)
    expected = (weights[:, None] * torch.stack(seen).numpy()).sum(0) / weights.sum()
    np.testing.assert_allclose(sampler.vectors["rho"].numpy(), expected, rtol=1e-12)


def network_data(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (200, 1))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(
        np.sin(3 * x) + 0.1 * rng.normal(size=(200, 1)), dtype=torch.float32
    )


def test_a_network_does_not_collapse():
    """Noise of 0.1 is found, where priors that scale with sigma end at several times that, nearly all in the spike."""
    x, y = network_data()

    def run(**options):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1, 50), nn.Tanh(), nn.Linear(50, 1))
        sampler = psgld_sa(model, GaussianLikelihood(), num_data=200, step_size=1e-3, momentum=0.9, **options)
        assert math.isclose(sampler.sigma, 1.0)
        for _ in range(6000):
            sampler.step(x, y)
        return sampler

    default, former = run(), run(prior=SpikeSlab(latents="averaged"))
    assert default.sigma < 0.16 and all(float(rho.mean()) > 0.05 for rho in default.inclusion().values())
    assert former.sigma > 1.5 * default.sigma


def test_scale_and_hold():
    prior = SpikeSlab.for_network(hold=3)
    assert prior.for_layer((50, 16)).scale == 0.25 and prior.for_layer((8, 3, 3, 3)).scale == 27**-0.5
    assert SpikeSlab().for_layer((50, 16)) == SpikeSlab()
    assert not prior.scales_with_sigma and SpikeSlab().scales_with_sigma
    resolved = prior.for_layer((50, 16))
    assert resolved.numbers(7.0, {"delta": 0.5}) == resolved.numbers(0.1, {"delta": 0.5})  # sigma plays no part
    scalars = {"delta": 0.99, "steps": 0.0}
    for step in range(1, 6):
        scalars = resolved.next_scalars(scalars, included=10.0, size=800, omega=0.5)
        assert (scalars["delta"] == 0.99) == (step <= 3) and scalars["steps"] == step
    for bad in ("width", True, 0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match=r"SpikeSlab\.scale must be"):
            SpikeSlab(scale=bad)
    with pytest.raises(ValueError, match=r"SpikeSlab\.latents must be"):
        SpikeSlab(latents="drawn")


def test_weights_with_a_scale_of_their_own_have_no_part_in_sigma():
    """Sigma's equation is then that of the residuals alone."""
    torch.manual_seed(1)
    x, y = torch.randn(30, 4).double(), torch.randn(30, 1).double()
    model = nn.Linear(4, 1, bias=False).double()
    likelihood = GaussianLikelihood(0.7, nu=2.0, lambda_=0.3)
    for engine in ("native", "reference"):
        prior = SpikeSlab(scale="fan-in")
        sampler = sgld_sa(model, likelihood, num_data=30, step_size=1e-9, prior=prior, omega=0.25, engine=engine)
        rss = float((model(x) - y).detach().square().sum())
        sampler.step(x, y)
        assert sampler.sigma == pytest.approx(0.75 * 0.7 + 0.25 * math.sqrt((rss + 0.6) / 32), rel=1e-9)


def test_the_noise_level_starts_from_the_data():
    torch.manual_seed(2)
    x, y = torch.randn(50, 3).double(), 1e3 * torch.randn(50, 1).double()
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)).double()
    sampler = sgld_sa(model, GaussianLikelihood(), num_data=50, step_size=1e-9, omega=0.0)
    random = torch.get_rng_state()
    rms = float((model(x) - y).detach().square().mean().sqrt())
    torch.set_rng_state(random)
    sampler.step(x, y)
    assert sampler.sigma == pytest.approx(rms, rel=1e-12)
    assert GaussianLikelihood(learn=False).sigma == 1.0 and GaussianLikelihood(0.3).sigma == 0.3
