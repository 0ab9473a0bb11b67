"""Calibration against closed forms, and factors that make intervals cover what they should."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from scipy import stats

from sparse_langevin.posterior import Mixture, Prediction
from sparse_langevin.posterior.calibration import assess, recalibrate

RNG = np.random.default_rng(1)
N = 40_000
MEAN, STD = RNG.normal(size=N), RNG.uniform(0.5, 2, N)
Y = MEAN + STD * RNG.standard_normal(N)
ERROR = 4 * 0.5 / np.sqrt(N)  # four standard errors of a share, at most


def test_forecasts_that_are_right():
    result = assess([(Y, Mixture.normal(MEAN, STD))])
    for level, share in result.coverage.items():
        assert share == pytest.approx(level, abs=ERROR)
        assert result.sharpness[level] == pytest.approx(2 * stats.norm.ppf((1 + level) / 2) * STD.mean(), rel=1e-8)
    assert result.crps == pytest.approx((STD / np.sqrt(np.pi)).mean(), rel=0.02)  # of a normal variable's own law
    assert result.nll == pytest.approx(-stats.norm.logpdf(Y, MEAN, STD).mean(), rel=1e-12)
    assert sum(result.pit) == result.count == N
    assert stats.chisquare(result.pit).pvalue > 1e-3
    levels, shares = result.reliability
    assert np.abs(levels - shares).max() < ERROR and shares[-1] == 1 and len(levels) == len(result.pit) + 1


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_forecasts_of_the_wrong_width(factor):
    result = assess([(Y, Mixture.normal(MEAN, factor * STD))])
    for level, share in result.coverage.items():
        true = 2 * stats.norm.cdf(factor * stats.norm.ppf((1 + level) / 2)) - 1
        assert share == pytest.approx(true, abs=ERROR)
    edges, middle = result.pit[0] + result.pit[-1], result.pit[9] + result.pit[10]
    assert (edges > 2 * middle) if factor < 1 else (middle > 2 * edges)
    assert result.crps > assess([(Y, Mixture.normal(MEAN, STD))]).crps


def test_parts_give_the_same_as_the_whole():
    means, stds, weights = RNG.normal(size=(3, 60, 2)), RNG.uniform(1, 2, 3), [1.0, 2.0, 3.0]
    truth = RNG.normal(size=(60, 2))
    whole = assess([(truth, Mixture.of(means, stds, weights))], levels=(0.6,))
    parts = assess(
        ((truth[i : i + 17], Mixture.of(means[:, i : i + 17], stds, weights)) for i in range(0, 60, 17)), levels=(0.6,)
    )
    assert whole.pit == parts.pit and whole.coverage == parts.coverage
    assert (whole.crps, whole.nll, whole.sharpness[0.6]) == pytest.approx((parts.crps, parts.nll, parts.sharpness[0.6]))
    assert np.isnan(assess([(truth, Mixture.of(means, stds))], crps=False).crps)


def test_ensembles_have_no_density():
    values = RNG.normal(size=(99, 2000))
    result = assess([(RNG.normal(size=2000), Mixture.of(values))])
    assert np.isnan(result.nll)
    assert result.coverage[0.9] == pytest.approx(0.9, abs=0.04)
    assert result.crps == pytest.approx(1 / np.sqrt(np.pi) * (1 + 1 / 99), rel=0.06)


@pytest.mark.parametrize("part", ["total", "noise"])
@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_recalibration_of_a_normal_forecast(part, factor):
    """The factor undoes the error in the width."""
    wrong = Mixture.normal(MEAN, STD / factor)
    found = recalibrate(Y, wrong, part=part)
    assert found.noise == pytest.approx(factor, rel=0.02)
    assert found.weights == (found.noise if part == "total" else 1.0)
    assert found.after == pytest.approx(0.9, abs=1 / N)
    assert found.before == pytest.approx(2 * stats.norm.cdf(stats.norm.ppf(0.95) / factor) - 1, abs=ERROR)
    fresh = MEAN + STD * RNG.standard_normal(N)
    assert assess([(fresh, found.apply(wrong))], crps=False).coverage[0.9] == pytest.approx(0.9, abs=0.01)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["noise"] == found.noise


@pytest.mark.parametrize("part", ["total", "noise"])
def test_recalibration_of_mixtures_and_of_predictions(part):
    centres = RNG.normal(size=(10, 5000))
    truth = centres.mean(0) + 2.5 * RNG.standard_normal(5000)
    found = recalibrate(truth, Mixture.of(centres, 0.2, range(1, 11)), level=0.8, part=part)
    assert found.before < 0.6 and found.after == pytest.approx(0.8, abs=1e-3) and found.count == 5000
    prediction = Prediction(torch.zeros(3), torch.full((3,), 2.0), 0.5)
    applied = found.apply(prediction)
    assert applied.noise_std == pytest.approx(0.5 * found.noise)
    assert applied.std[0].item() == pytest.approx(2.0 * found.weights, rel=1e-6)


def test_what_cannot_be_recalibrated():
    forecast = Mixture.of(RNG.normal(size=(20, 300)), 1e-3)
    for truth, mixture, options, message in (
        (np.zeros(300), forecast, {"part": "noise"}, "spread of the parameters alone covers"),
        (np.full(300, 1e9), forecast, {"part": "noise"}, "check their units"),
        (np.zeros(300), Mixture.of(np.zeros((20, 300))), {}, "have no spread"),
        (np.zeros(300), Mixture.of(np.zeros((20, 300))), {"part": "noise"}, "ensembles without noise"),
        (np.zeros(300), forecast, {"level": 90}, r"level must be in \(0, 1\)"),
        (np.zeros(300), forecast, {"part": "mean"}, "'total' or 'noise'"),
        (np.zeros(7), forecast, {}, r"shape \(7,\) do not fit forecasts of shape \(300,\)"),
        (np.full(300, np.nan), forecast, {}, "not finite"),
        (np.zeros(0), Mixture.of(np.zeros((20, 0)), 1.0), {}, "no held-out data"),
    ):
        with pytest.raises(ValueError, match=message):
            recalibrate(truth, mixture, **options)
    with pytest.raises(ValueError, match="no forecasts to assess"):
        assess([])
