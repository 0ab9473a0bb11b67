"""The factors that correct a forecast, on numbers whose deviations are known."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from sparse_langevin.posterior import Prediction
from sparse_langevin.posterior.calibration import Recalibration
from sparse_langevin.surrogates.calibration import find_factors, trust_of


def made(weights, noise, fields=300, edges=100, seed=0):
    """A forecast, and truths whose deviations are multiples of the predicted ones."""
    rng = np.random.default_rng(seed)
    std = rng.lognormal(0, 1, size=(fields, edges))
    mean = rng.normal(size=(fields, edges))
    forecast = Prediction(torch.from_numpy(mean), torch.from_numpy(std), 0.5, samples=9)
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


def test_edges_that_are_known_do_not_count():
    """Those of closed sides: a likelihood with them would have no noise at all."""
    true, forecast = made(2.0, 0.5)
    known = torch.full((300, 5), 3.0, dtype=torch.float64)
    velocity, std = torch.cat([forecast.mean, known], 1), torch.cat([forecast.std, 0 * known], 1)
    more = Prediction(velocity, std, forecast.noise_std, samples=9)
    truth = np.concatenate([true, known.numpy() * (1 + 1e-8)], axis=1)
    assert find_factors(truth, more) == find_factors(true, forecast)
    assert trust_of(truth, more).plain == trust_of(true, forecast).plain
    off = truth + np.where(np.arange(105) < 100, 0, 0.3)  # without spread, but wrong: that counts
    assert find_factors(off, more).count == off.size


def test_quantiles_are_those_of_the_normal_distribution():
    _, forecast = made(1.0, 1.0, fields=2, edges=3)
    factors = Recalibration(2.0, 3.0, 0.9, 0.5, 0.9, 1)
    better = factors.apply(forecast, [0.1, 0.5, 0.9])
    total = np.hypot(2 * forecast.std.numpy(), 1.5)
    np.testing.assert_allclose(better.total_std, total)
    for level, quantile in zip((0.1, 0.5, 0.9), better.quantiles.numpy(), strict=True):
        np.testing.assert_allclose(quantile, norm.ppf(level, forecast.mean.numpy(), total))
    with pytest.raises(ValueError, match=r"between 0 and 1, got \[1\.5\]"):
        factors.apply(forecast, [1.5])
    with pytest.raises(ValueError, match="no spread to correct"):
        factors.apply(Prediction(forecast.mean))
