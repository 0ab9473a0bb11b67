"""Whether a run's error bars can be believed: coverage, CRPS and NLL, as they are and recalibrated.

A forecast is summed up as a normal distribution for each edge, with the mean over the samples and the variance of
weights and noise together. Two factors, on their standard deviations, are found on the part of the training data that
was set apart (``--validation``), never on test data: the samples of a short chain know where they are unsure, not by
how much, and the noise that a chain learns is that of the data it was fitted to.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import norm, spearmanr

from sparse_langevin.posterior.calibration import WIDEST, Calibration, assess, recalibrate
from sparse_langevin.posterior.mixture import Mixture
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.grid import Array
from sparse_langevin.surrogates.prediction import Forecast, predict
from sparse_langevin.surrogates.runs import SurrogateRun, fingerprint
from sparse_langevin.surrogates.settings import Settings


@dataclass(frozen=True)
class Factors:
    """What the two standard deviations of a forecast are multiplied by."""

    weights: float
    noise: float
    after: float
    """Coverage of intervals of 90 % on the data they were found on, with the factors."""
    count: int
    """Number of velocities they were found on."""

    def apply(self, forecast: Forecast, quantiles: Sequence[float] = ()) -> Forecast:
        """The forecast with its deviations multiplied, and the quantiles of the normal distribution with them."""
        if forecast.std is None or forecast.noise_std is None:
            raise ValueError("a single network has no spread to correct: keep posterior samples, train --samples 20")
        std, noise = forecast.std * self.weights, forecast.noise_std * self.noise
        made = replace(forecast, std=std, noise_std=noise, quantiles=None)
        if not quantiles:
            return made
        if not all(0 < level < 1 for level in quantiles):
            raise ValueError(f"levels of quantiles must lie between 0 and 1, got {list(quantiles)}")
        steps = torch.tensor(norm.ppf(quantiles), dtype=made.velocity.dtype)[:, None, None]
        return replace(made, quantiles=made.velocity + steps * made.total_std)


@dataclass(frozen=True)
class Trust:
    """How the forecasts of a test set did."""

    plain: Calibration
    """As the posterior gives them."""
    factors: Factors | None
    """What validation data say; None if none were set apart."""
    recalibrated: Calibration | None
    """With these factors."""
    predicted: Array
    """Root mean square of the standard deviation over the edges, one number per test sample."""
    actual: Array
    """Root mean square error over the edges, one number per test sample."""

    @property
    def rank_correlation(self) -> float:
        """Of predicted deviation and actual error over the test samples (Spearman); 0 if the deviation is constant."""
        if not np.ptp(self.predicted):
            return 0.0
        return float(spearmanr(self.predicted, self.actual).statistic)


def trust(run: SurrogateRun, data: DarcyData, forecast: Forecast) -> Trust:
    """Judge a run's forecast of the test part of a data set; the factors come from the run's own data, if there."""
    factors = None
    if run.settings.validation:
        try:
            factors = run_factors(run, data)
        except ValueError as error:
            warnings.warn(f"error bars are not recalibrated: {error}", stacklevel=2)
    return trust_of(data.array("velocity", "test"), forecast, factors)


def run_factors(run: SurrogateRun, data: DarcyData | None = None) -> Factors:
    """The factors of a run's forecasts, from the part of its data that was set apart; ``data``: where these are now."""
    own = data if data is not None and fingerprint(data) == run.data_sha256 else run.find_data()
    kappa, velocity = set_apart(run.settings, own)
    if not len(kappa):
        raise ValueError(
            f"the run in {run.path} has set no data apart to recalibrate with: train with --validation 0.1"
        )
    forecast = predict(run, torch.from_numpy(kappa))
    if not forecast.samples:
        raise ValueError(f"the run in {run.path} has kept no posterior samples whose spread could be corrected")
    return find_factors(velocity, forecast)


def find_factors(true: Array, forecast: Forecast) -> Factors:
    """The factors under which held-out velocities (fields, edges) are most likely, then widened to cover 90 %.

    The likelihood settles how the two deviations compare; the coverage, which heavy tails do not disturb, their size.
    """
    true, forecast = _without_known(true, forecast)
    assert forecast.std is not None and forecast.noise_std is not None
    errors = np.square(true - forecast.velocity.double().numpy())
    parts = np.stack([np.square(forecast.std.double().numpy()), np.full_like(errors, forecast.noise_std**2)])

    def surprise(logarithms: Array) -> tuple[float, Array]:
        """Negative log-likelihood per velocity, and its gradient in the logarithms of the factors."""
        scaled = np.exp(2 * logarithms)[:, None, None] * parts
        variance = scaled.sum(0)
        slope = (1 - errors / variance) / variance
        return 0.5 * float(np.mean(np.log(variance) + errors / variance)), np.mean(scaled * slope, axis=(1, 2))

    widest = np.log(WIDEST)
    best = minimize(surprise, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-widest, widest)] * 2).x
    weights, noise = np.exp(best).tolist()
    whole = recalibrate(true, _normal(Factors(weights, noise, 0.0, 0).apply(forecast)))
    return Factors(weights * whole.factor, noise * whole.factor, whole.after, whole.count)


def trust_of(true: Array, forecast: Forecast, factors: Factors | None = None) -> Trust:
    """Judge a forecast of the true velocities (fields, edges) of test fields, as it is and with factors."""
    mean = forecast.velocity.double().numpy()
    judged, bars = _without_known(true, forecast)
    return Trust(
        assess([(judged, _normal(bars))]),
        factors,
        assess([(judged, _normal(factors.apply(bars)))]) if factors is not None else None,
        deviation(forecast),
        np.sqrt(np.mean((mean - true) ** 2, axis=1)),
    )


def deviation(forecast: Forecast) -> Array:
    """Root mean square over the edges of the standard deviation due to the weights, one number per field."""
    assert forecast.std is not None
    found: Array = np.sqrt(np.mean(forecast.std.double().numpy() ** 2, axis=1))
    return found


def set_apart(settings: Settings, data: DarcyData) -> tuple[Array, Array]:
    """Permeability and velocity of the part of the training data that a run with these settings does not train on."""
    kappa, velocity = data.array("kappa", "train"), data.array("velocity", "train")
    held = settings.held(len(kappa))
    return kappa[:held], velocity[:held]


def _without_known(true: Array, forecast: Forecast) -> tuple[Array, Forecast]:
    """Leave out edges that a network knows, such as those of closed sides: neither error nor spread, on no field.

    They would make any noise too wide, and any interval cover them.
    """
    assert forecast.std is not None
    largest = np.maximum(np.abs(true - forecast.velocity.double().numpy()), forecast.std.double().numpy()).max(0)
    unknown = largest > 1e-6 * np.abs(true).max()
    if unknown.all() or not unknown.any():
        return true, forecast
    kept = torch.from_numpy(unknown)
    return true[:, unknown], replace(
        forecast, velocity=forecast.velocity[:, kept], std=forecast.std[:, kept], quantiles=None
    )


def _normal(forecast: Forecast) -> Mixture:
    return Mixture.normal(forecast.velocity.double().numpy(), forecast.total_std.double().numpy())
