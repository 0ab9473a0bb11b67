"""The spike and slab's closed forms against densities and roots found otherwise, as they are and compiled."""

import numpy as np
import pytest
from scipy import optimize, stats

from sparse_langevin.runtime.jit import compiled
from sparse_langevin.sampling import mixture
from sparse_langevin.sampling.sampler import OMEGA
from sparse_langevin.sampling.schedules import Polynomial


@pytest.fixture(params=["plain", "compiled"])
def function(request):
    def named(name):
        plain = getattr(mixture, name)
        return plain if request.param == "plain" else compiled(plain)

    return named


@pytest.mark.parametrize("beta", [0.0, 0.03, -0.4, 2.0])
def test_log_odds_are_the_ratio_of_densities(function, beta):
    sigma, v0, v1, delta = 0.7, 0.05, 1.3, 0.2
    slab, spike = stats.norm(scale=sigma * np.sqrt(v1)), stats.laplace(scale=sigma * v0)
    ratio = function("log_ratio_at_zero")(v0, v1)
    assert ratio == pytest.approx(slab.logpdf(0.0) - spike.logpdf(0.0), rel=1e-12)
    expected = np.log(delta) + slab.logpdf(beta) - np.log1p(-delta) - spike.logpdf(beta)
    at_zero = ratio + np.log(delta / (1 - delta))
    assert function("log_odds")(beta, sigma, v0, v1, at_zero) == pytest.approx(expected, rel=1e-12)


def test_delta_mean_is_that_of_the_beta_distribution(function):
    rho, a, b = np.array([0.0, 1.0, 1.0, 0.0, 0.0]), 1.5, 4.0
    assert function("delta_mean")(rho.sum(), len(rho), a, b) == pytest.approx(stats.beta(a + 2, b + 3).mean())


def test_sigma_root(function):
    a, b, c = 120.0, 7.5, 33.0
    expected = optimize.brentq(lambda s: a * s * s - b * s - c, 0.0, 10.0, xtol=1e-14)
    assert function("sigma_root")(a, b, c) == pytest.approx(expected, rel=1e-12)


def test_omega_is_the_samplers_default(function):
    assert Polynomial(*mixture.OMEGA) == OMEGA
    assert [function("omega_at")(float(k)) for k in (1, 700, 10_000)] == [OMEGA(k) for k in (1, 700, 10_000)]
