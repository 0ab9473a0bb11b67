import math

import numpy as np
import pytest
import torch
from scipy import stats

from sparse_langevin import GaussianPrior, SpikeSlab


def inclusion_odds(beta, prior, sigma, delta):
    return prior.inclusion(beta, prior.numbers(sigma, {"delta": delta}))


BETA = torch.tensor([-3.0, -0.4, -1e-3, 0.0, 0.02, 0.3, 2.0], dtype=torch.float64)


@pytest.mark.parametrize("prior", [SpikeSlab(), SpikeSlab(v0=0.5, v1=2.0), SpikeSlab(v0=10.0, v1=0.1)])
@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 0.5), (0.3, 0.01), (2.5, 0.9)])
def test_inclusion_odds_against_scipy_densities(prior, sigma, delta):
    slab = stats.norm.pdf(BETA, scale=sigma * math.sqrt(prior.v1)) * delta
    spike = stats.laplace.pdf(BETA, scale=sigma * prior.v0) * (1 - delta)
    expected = slab / (slab + spike)
    np.testing.assert_allclose(inclusion_odds(BETA, prior, sigma, delta).numpy(), expected, rtol=1e-12)


def test_inclusion_odds_survive_where_densities_underflow():
    prior = SpikeSlab(v0=0.1, v1=10.0)
    far = torch.tensor([150.0, 500.0, 1e4], dtype=torch.float64)  # both densities underflow
    odds = inclusion_odds(far, prior, 1.0, 0.5)
    assert odds.isfinite().all()
    assert odds[0] == 1
    assert inclusion_odds(torch.zeros(1), prior, 1.0, 0.0).item() == 0.0


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_drift_is_the_gradient_of_the_expected_log_prior(sigma):
    prior = SpikeSlab(v0=0.2, v1=3.0)
    s = torch.linspace(0, 1, len(BETA), dtype=torch.float64)
    beta = BETA.clone().requires_grad_()
    energy = (1 - s) / prior.v0 * beta.abs() / sigma + s / prior.v1 * beta.square() / (2 * sigma**2)
    (expected,) = torch.autograd.grad(energy.sum(), beta)
    numbers = prior.numbers(sigma, {"delta": 0.5})
    ours = prior.add_gradient(torch.ones_like(BETA), BETA, (s, s), numbers) - 1
    torch.testing.assert_close(ours, expected, rtol=1e-14, atol=1e-14)
    second = torch.autograd.functional.hessian(lambda b: (s / prior.v1 * b.square() / (2 * sigma**2)).sum(), BETA)
    torch.testing.assert_close(prior.curvature(BETA, (s, s), numbers), second.diagonal())


def test_part_in_the_equation_for_sigma():
    prior = SpikeSlab(v0=0.2, v1=3.0)
    s = torch.linspace(0, 1, len(BETA), dtype=torch.float64)
    _, spike, slab = prior.update(BETA, (s, s), prior.numbers(1.0, {"delta": 0.5}), 0.0)
    assert spike.item() == pytest.approx(
        sum((1 - r) / 0.2 * abs(b) for r, b in zip(s.tolist(), BETA.tolist(), strict=True))
    )
    assert slab.item() == pytest.approx(sum(r / 3.0 * b * b for r, b in zip(s.tolist(), BETA.tolist(), strict=True)))


def test_delta_targets():
    assert SpikeSlab(a=1.0).delta_target(5.0, 100, 0.3) == pytest.approx(6 / 201)
    assert SpikeSlab(a=1.0, delta_update="mode").delta_target(5.0, 100, 0.3) == pytest.approx(5 / 199)
    assert SpikeSlab(a=2.0, b=3.0).delta_target(5.0, 100, 0.3) == pytest.approx(7 / 105)
    assert SpikeSlab(delta_update="fixed").delta_target(5.0, 100, 0.3) == 0.3


def test_slab_narrower_than_spike_compares_densities_at_zero():
    for v0, v1 in ((0.1, 10.0), (10.0, 0.1), (1.0, 0.6), (1.0, 0.7)):
        narrower = stats.norm.pdf(0, scale=math.sqrt(v1)) > stats.laplace.pdf(0, scale=v0)
        assert (SpikeSlab(v0=v0, v1=v1).warning() is not None) == narrower


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SpikeSlab(v0=0.0), "v0"),
        (lambda: SpikeSlab(v1=-1.0), "v1"),
        (lambda: SpikeSlab(b=0.0), "b"),
        (lambda: SpikeSlab(delta=1.0), "delta"),
        (lambda: SpikeSlab(delta_update="median"), "delta_update"),
        (lambda: GaussianPrior(0.0), "sigma0"),
        (lambda: GaussianPrior(1e-160), "sigma0 must be at least 1e-150"),
    ],
)
def test_bad_settings(make, name):
    with pytest.raises(ValueError, match=name):
        make()
