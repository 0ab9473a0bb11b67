"""Whether a run's error bars can be believed: coverage, CRPS and NLL, as they are and recalibrated.

A forecast is summed up as a normal distribution for each edge, with the mean over the samples and the standard
deviation of weights and noise together. A factor on that deviation is found on the part of the training data that was
set apart (``--validation``), never on test data.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr

from sparse_langevin.darcy.datasets import DarcyData
from sparse_langevin.darcy.grid import Array
from sparse_langevin.posterior.calibration import Calibration, Recalibration, assess, recalibrate
from sparse_langevin.posterior.mixture import Mixture
from sparse_langevin.surrogates.prediction import Forecast, predict
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.settings import Settings


@dataclass(frozen=True)
class Trust:
    """How the forecasts of a test set did."""

    plain: Calibration
    """As the posterior gives them."""
    factor: Recalibration | None
    """What validation data say; None if none were set apart."""
    recalibrated: Calibration | None
    """With that factor."""
    predicted: Array
    """Root mean square of the standard deviation over the edges, one number per test sample."""
    actual: Array
    """Root mean square error over the edges, one number per test sample."""

    @property
    def rank_correlation(self) -> float:
        """Of predicted deviation and actual error over the test samples (Spearman)."""
        return float(spearmanr(self.predicted, self.actual).statistic)


def trust(run: SurrogateRun, data: DarcyData, forecast: Forecast) -> Trust:
    """Judge a run's forecast of the test part of a data set; the factor comes from the run's own data."""
    held = None
    if run.settings.validation:
        kappa, velocity = set_apart(run.settings, run.find_data())
        held = velocity, predict(run, torch.from_numpy(kappa))
    return trust_of(data.array("velocity", "test"), forecast, held)


def trust_of(true: Array, forecast: Forecast, held: tuple[Array, Forecast] | None = None) -> Trust:
    """Judge a forecast of true velocities (fields, edges), whoever made it.

    Parameters
    ----------
    true, forecast
        Of the test fields.
    held
        True velocities and forecast of the fields that were set apart, to find the factor with.
    """
    mixture = _normal(forecast)
    factor = recalibrate(held[0], _normal(held[1])) if held is not None else None
    mean = forecast.velocity.double().numpy()
    return Trust(
        assess([(true, mixture)]),
        factor,
        assess([(true, factor.apply(mixture))]) if factor is not None else None,
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


def _normal(forecast: Forecast) -> Mixture:
    return Mixture.normal(forecast.velocity.double().numpy(), forecast.total_std.double().numpy())
