r"""Measures of the calibration of predictive distributions, and a factor that calibrates them.

For true values y and a forecast F (a `Mixture`) at each of them:

    coverage     share of y within the central interval of a level; should be the level
    sharpness    mean width of that interval; smaller is better, once coverage is right
    crps         mean of the integral of (F(x) - 1[y <= x])^2, in the units of y
    nll          mean of -log density
    pit          histogram of F(y); flat if calibrated, a U if too narrow, a hill if too wide
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.optimize import bisect
from scipy.special import ndtri

from sparse_langevin.posterior.mixture import Array, Mixture
from sparse_langevin.posterior.predictive import Prediction

LEVELS = (0.5, 0.8, 0.9, 0.95)
BINS = 20
WIDEST = 1e4  # largest factor on the noise that is tried; if it is not enough, something else is wrong
Part = Literal["total", "noise"]


@dataclass(frozen=True)
class Calibration:
    """How well a set of forecasts agreed with the true values."""

    count: int
    """Number of true values."""
    coverage: dict[float, float]
    """Share of true values in the central interval of each level."""
    sharpness: dict[float, float]
    """Mean width of the central interval of each level."""
    crps: float
    nll: float
    """Mean negative log density; nan for ensembles of points, which have no density."""
    pit: tuple[int, ...]
    """Number of true values with F(y) in each of the bins of equal width from 0 to 1."""

    @property
    def reliability(self) -> tuple[Array, Array]:
        """Levels p, and the share of true values below the quantile of level p; equal if calibrated."""
        levels = np.linspace(0, 1, len(self.pit) + 1)
        return levels, np.concatenate([[0.0], np.cumsum(self.pit) / self.count])


def assess(
    forecasts: Iterable[tuple[ArrayLike, Mixture]], *, levels: Sequence[float] = LEVELS, crps: bool = True
) -> Calibration:
    """Compare forecasts with the true values. They are taken one by one, so they need not fit into memory together.

    Parameters
    ----------
    forecasts
        Pairs of true values and their forecast. One pair will do; for many examples use
        ``((y[rows], mixture) for rows, mixture in predictive.mixtures())``.
    levels
        Levels of the central intervals.
    crps
        Whether to compute the CRPS; for S posterior samples it costs S^2/2 evaluations of the normal distribution per
        true value.

    Examples
    --------
    >>> result = assess([([0.0, 1.0, 5.0], Mixture.normal([0.1, 0.8, 0.0], 1.0))])
    >>> round(result.coverage[0.9], 3)
    0.667
    """
    count, score, loss = 0, 0.0, 0.0
    inside, width = np.zeros(len(levels)), np.zeros(len(levels))
    bins = np.zeros(BINS, dtype=int)
    for truth, forecast in forecasts:
        y = _matching(truth, forecast)
        count += y.size
        for i, (low, high) in enumerate(_interval(forecast, level) for level in levels):
            inside[i] += ((low <= y) & (y <= high)).sum()
            width[i] += (high - low).sum()
        bins += np.histogram(forecast.cdf(y), BINS, (0, 1))[0]
        loss -= float(forecast.log_density(y).sum())
        score += float(forecast.crps(y).sum()) if crps else np.nan
    if not count:
        raise ValueError("there are no forecasts to assess: give at least one true value")
    return Calibration(
        count,
        dict(zip(levels, (inside / count).tolist(), strict=True)),
        dict(zip(levels, (width / count).tolist(), strict=True)),
        score / count,
        loss / count,
        tuple(bins.tolist()),
    )


@dataclass(frozen=True)
class Recalibration:
    """Factors on the standard deviations of predictions, found on held-out data."""

    weights: float
    """Factor on the spread due to the parameters."""
    noise: float
    """Factor on the observation noise."""
    level: float
    """Level of the central intervals whose coverage the factors were chosen for."""
    before: float
    """Coverage of these intervals on the held-out data without the factors."""
    after: float
    """Coverage with the factors."""
    count: int
    """Number of held-out values."""

    @overload
    def apply(self, forecast: Mixture) -> Mixture: ...
    @overload
    def apply(self, forecast: Prediction, quantiles: Sequence[float] = ()) -> Prediction: ...
    def apply(self, forecast: Mixture | Prediction, quantiles: Sequence[float] = ()) -> Mixture | Prediction:
        """Return the forecast with the factors applied; the quantiles of a prediction are those of a normal one."""
        if isinstance(forecast, Mixture):
            mean = forecast.mean()
            means = forecast.means if self.weights == 1 else mean + self.weights * (forecast.means - mean)
            return replace(forecast, means=means, stds=forecast.stds * self.noise)
        if forecast.std is None or forecast.noise_std is None:
            raise ValueError("a single network has no spread to correct: keep posterior samples (train --samples 20)")
        std, noise = forecast.std * self.weights, forecast.noise_std * self.noise
        made = replace(forecast, std=std, noise_std=noise, quantiles=None)
        if not quantiles:
            return made
        if not all(0 < level < 1 for level in quantiles):
            raise ValueError(f"levels of quantiles must lie between 0 and 1, got {list(quantiles)}")
        return replace(made, quantiles=torch.stack([made.mean + float(ndtri(q)) * made.total_std for q in quantiles]))


def recalibrate(truth: ArrayLike, forecast: Mixture, *, level: float = 0.9, part: Part = "total") -> Recalibration:
    """Find the factor with which central intervals of ``level`` cover that share of held-out data.

    For ``"total"`` the factor is exact: each true value is covered from a certain factor on, and the result is a
    quantile of these factors. For ``"noise"`` it is found by bisection.

    Parameters
    ----------
    truth
        True values that were not used in training, one for each output of the forecast.
    forecast
        The prediction; ``Mixture.normal(mean, std)`` if only mean and standard deviation are known.
    level
        The desired coverage.
    part
        What to multiply: ``"total"``, the spread around the mean, or ``"noise"``, the sigma of each sample.
    """
    y = _matching(truth, forecast)
    if not 0 < level < 1 or part not in ("total", "noise"):
        raise ValueError(f"level must be in (0, 1) and part 'total' or 'noise', got {level!r} and {part!r}")
    if not y.size:
        raise ValueError("there is no held-out data to recalibrate with")
    factor = (_factor_of_the_spread if part == "total" else _factor_of_the_noise)(y, forecast, level)
    weights = factor if part == "total" else 1.0
    result = Recalibration(weights, factor, level, _coverage(y, forecast, level), 0.0, y.size)
    return replace(result, after=_coverage(y, result.apply(forecast), level))


def _factor_of_the_spread(y: Array, forecast: Mixture, level: float) -> float:
    low, high = _interval(forecast, level)
    mean = forecast.mean()
    reach = np.where(y < mean, mean - low, high - mean)
    if not (reach > 0).all():
        raise ValueError("some forecasts have no spread, so there is nothing to multiply: use forecasts with noise")
    # Slightly more than the order statistic, so that the value that sets the factor lies inside its interval.
    return float(np.quantile(np.abs(y - mean) / reach, level, method="inverted_cdf")) * (1 + 1e-9)


def _factor_of_the_noise(y: Array, forecast: Mixture, level: float) -> float:
    if forecast.points:
        raise ValueError("the forecasts are ensembles without noise: make them with noise, or use part='total'")

    def excess(exponent: float) -> float:
        scaled = replace(forecast, stds=forecast.stds * 10**exponent)
        # A central interval ends at F = (1 -+ level)/2, so no quantile is needed.
        return float((np.abs(scaled.cdf(y) - 0.5) <= level / 2).mean()) - level

    most = float(np.log10(WIDEST))
    if excess(-most) >= 0:
        raise ValueError(
            f"the spread of the parameters alone covers {excess(-most) + level:.0%} of the data without any noise: use "
            "part='total'"
        )
    if excess(most) < 0:
        raise ValueError(f"even {WIDEST:g} times the noise does not cover {level:.0%} of the data: check their units")
    return float(10 ** bisect(excess, -most, most, xtol=1e-10))


def _coverage(y: Array, forecast: Mixture, level: float) -> float:
    low, high = _interval(forecast, level)
    return float(((low <= y) & (y <= high)).mean())


def _interval(forecast: Mixture, level: float) -> Array:
    return forecast.quantile([(1 - level) / 2, (1 + level) / 2])


def _matching(truth: ArrayLike, forecast: Mixture) -> Array:
    y = np.asarray(truth, dtype=float)
    if y.shape != forecast.means.shape[1:]:
        raise ValueError(f"true values of shape {y.shape} do not fit forecasts of shape {forecast.means.shape[1:]}")
    if not np.isfinite(y).all():
        raise ValueError("some true values are not finite: leave them out, with their forecasts")
    return y
