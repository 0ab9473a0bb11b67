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
    """Judge a forecast of the test part of a data set."""
    true = data.array("velocity", "test")
    mixture = _normal(forecast)
    factor = _factor(run) if run.settings.validation else None
    std, mean = forecast.std, forecast.velocity.double().numpy()
    assert std is not None
    return Trust(
        assess([(true, mixture)]),
        factor,
        assess([(true, factor.apply(mixture))]) if factor is not None else None,
        np.sqrt(np.mean(std.double().numpy() ** 2, axis=1)),
        np.sqrt(np.mean((mean - true) ** 2, axis=1)),
    )


def _factor(run: SurrogateRun) -> Recalibration:
    """From the part of the run's own training data that was set apart."""
    data = run.find_data()
    kappa, velocity = data.array("kappa", "train"), data.array("velocity", "train")
    held = run.settings.held(len(kappa))
    return recalibrate(velocity[:held], _normal(predict(run, torch.from_numpy(kappa[:held]))))


def _normal(forecast: Forecast) -> Mixture:
    return Mixture.normal(forecast.velocity.double().numpy(), forecast.total_std.double().numpy())
