"""The factors that correct a forecast, on numbers whose deviations are known."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from sparse_langevin.surrogates.calibration import Factors, find_factors, trust_of
from sparse_langevin.surrogates.prediction import Forecast


def made(weights, noise, fields=300, edges=100, seed=0):
    """A forecast, and truths whose deviations are multiples of the predicted ones."""
    rng = np.random.default_rng(seed)
    std = rng.lognormal(0, 1, size=(fields, edges))
    mean = rng.normal(size=(fields, edges))
    forecast = Forecast(torch.from_numpy(mean), torch.from_numpy(std), 0.5, samples=9)
    return mean + np.hypot(weights * std, noise * 0.5) * rng.normal(size=std.shape), forecast


@pytest.mark.parametrize(("weights", "noise"), [(1.0, 1.0), (4.0, 4.0), (0.5, 3.0)])
def test_known_factors_are_found(weights, noise):
    true, forecast = made(weights, noise)
    found = find_factors(true, forecast)
    assert (found.weights, found.noise) == pytest.approx((weights, noise), rel=0.05)
    assert found.after == pytest.approx(0.9, abs=1e-4) and found.count == true.size
    held, other = made(weights, noise, seed=1)
    judged = trust_of(held, other, found)
    assert judged.recalibrated.coverage[0.5] == pytest.approx(0.5, abs=0.01)
    assert judged.recalibrated.nll <= judged.plain.nll + 1e-3
    assert judged.recalibrated.coverage[0.9] == pytest.approx(0.9, abs=0.01)


def test_a_spread_that_says_nothing_is_left_to_the_noise():
    true, forecast = made(0.0, 2.0)
    found = find_factors(true, forecast)
    assert found.weights < 0.05 and found.noise == pytest.approx(2.0, rel=0.05)


def test_quantiles_are_those_of_the_normal_distribution():
    _, forecast = made(1.0, 1.0, fields=2, edges=3)
    better = Factors(2.0, 3.0, 0.9, 1).apply(forecast, [0.1, 0.5, 0.9])
    total = np.hypot(2 * forecast.std.numpy(), 1.5)
    np.testing.assert_allclose(better.total_std, total)
    for level, quantile in zip((0.1, 0.5, 0.9), better.quantiles.numpy(), strict=True):
        np.testing.assert_allclose(quantile, norm.ppf(level, forecast.velocity.numpy(), total))
    with pytest.raises(ValueError, match=r"between 0 and 1, got \[1\.5\]"):
        Factors(2.0, 3.0, 0.9, 1).apply(forecast, [1.5])
    with pytest.raises(ValueError, match="no spread to correct"):
        Factors(2.0, 3.0, 0.9, 1).apply(Forecast(forecast.velocity))
