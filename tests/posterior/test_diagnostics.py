"""Diagnostics against ArviZ, and against processes whose effective sample size is known."""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its announcement of a new major version
    import arviz

from sparse_langevin.posterior import diagnostics


def autoregression(rng, chains, draws, phi):
    x = np.zeros((chains, draws))
    x[:, 0] = rng.standard_normal(chains) / np.sqrt(1 - phi**2)
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + rng.standard_normal(chains)
    return x


@pytest.mark.parametrize("case", range(60))
def test_equal_to_arviz(case):
    rng = np.random.default_rng(case)
    x = autoregression(rng, int(rng.integers(2, 6)), int(rng.integers(8, 600)), rng.uniform(-0.9, 0.99))
    if case % 5 == 0:
        x = np.round(x)  # ties
    if case % 7 == 0:
        x += np.arange(len(x))[:, None]  # chains that disagree
    assert diagnostics.rhat(x) == pytest.approx(arviz.rhat(x), rel=1e-10)
    assert diagnostics.ess(x) == pytest.approx(arviz.ess(x, method="bulk"), rel=1e-10)
    assert diagnostics.ess_tail(x) == pytest.approx(arviz.ess(x, method="tail"), rel=1e-10)
    assert diagnostics.mcse(x) == pytest.approx(np.squeeze(arviz.mcse(x, method="mean")), rel=1e-10)


def test_known_autocorrelation_time():
    """An AR(1) process has integrated time (1 + phi)/(1 - phi)."""
    x = autoregression(np.random.default_rng(0), 4, 20_000, 0.8)
    assert diagnostics.ess(x) == pytest.approx(80_000 / 9, rel=0.1)
    assert diagnostics.mcse(x) == pytest.approx(1 / (1 - 0.8) / np.sqrt(80_000), rel=0.06)


def test_shapes_constants_and_bad_input():
    x = np.random.default_rng(0).standard_normal((2, 50, 3, 2))
    assert diagnostics.rhat(x).shape == (3, 2)
    assert diagnostics.ess(x)[1, 1] == diagnostics.ess(x[:, :, 1, 1])
    assert diagnostics.rhat(np.ones((2, 10))) == 1.0 and diagnostics.ess(np.ones((2, 10))) == 20
    assert np.isnan(diagnostics.rhat(np.full((2, 10), np.nan)))
    assert diagnostics.rhat(np.repeat([[0.0], [1.0]], 10, axis=1)) == np.inf
    with pytest.raises(ValueError, match=r"draws >= 4"):
        diagnostics.ess(np.ones((2, 3)))
