"""Whether a run's error bars can be trusted: coverage, CRPS and NLL, before and after recalibration.

A prediction is summed up as a normal distribution for each output, with the mean over the samples and the variance of
weights and noise together. Recalibration multiplies the two standard deviations by factors that are found on the part
of the training data that was set apart (``--validation``), never on test data. They are needed because the samples of a
short chain show where a prediction is uncertain, not by how much, and because the noise that a chain learns is that of
the data it was fitted to.
"""

import contextlib
import warnings
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import spearmanr

from sparse_langevin.posterior import Mixture, Prediction
from sparse_langevin.posterior.calibration import WIDEST, Calibration, Recalibration, assess, recalibrate
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.storage.lines import read_lines, write_line
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.problem import Array, DataSet
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.settings import Settings

FACTORS = "recalibration.jsonl"


@dataclass(frozen=True)
class Trust:
    """Quality of the error bars on a test set."""

    plain: Calibration
    """Calibration of the predictions as the posterior gives them."""
    factors: Recalibration | None
    """Factors found on validation data; None if none were set apart."""
    recalibrated: Calibration | None
    """Calibration with these factors."""
    predicted: Array
    """Root mean square of the standard deviation over the outputs, one number per test example."""
    actual: Array
    """Root mean square error over the outputs, one number per test example."""

    @property
    def results(self) -> dict[str, Calibration]:
        """The calibrations under the names that tables and figures use."""
        found = {"as it is": self.plain}
        return found if self.recalibrated is None else found | {"recalibrated": self.recalibrated}

    @property
    def rank_correlation(self) -> float:
        """Spearman correlation of predicted deviation and actual error over the test examples; 0 if undefined."""
        if len(self.predicted) < 2 or not np.ptp(self.predicted) or not np.ptp(self.actual):
            return 0.0
        return float(spearmanr(self.predicted, self.actual).statistic)


def trust(run: SurrogateRun, data: DataSet, made: Prediction, device: str | None = None) -> Trust:
    """Judge a run's prediction of the test part of a data set, also with factors if they can be found."""
    factors = None
    if run.settings.validation:
        try:
            factors = run_factors(run, data, device)
        except ValueError as error:
            warnings.warn(f"error bars are not recalibrated: {error}", stacklevel=2)
    return trust_of(data.outputs("test"), made, factors)


def run_factors(run: SurrogateRun, data: DataSet | None = None, device: str | None = None) -> Recalibration:
    """The factors of a run, found on the part of its data that was set apart.

    They are kept in the run's folder, and found again once chains have been added. ``data`` is used if it is the run's
    own data set.
    """
    samples = len(run.samples())
    if (known := _kept_factors(run, samples)) is not None:
        return known
    own = data if data is not None and data.fingerprint == run.data_sha256 else run.find_data()
    inputs, outputs = set_apart(run.settings, own)
    if not len(inputs):
        raise ValueError(
            f"the run in {run.path} has no validation data to recalibrate with: train with --validation 0.1"
        )
    made = predict(run, inputs, device=device)
    if not made.samples:
        raise ValueError(f"the run in {run.path} has kept no posterior samples whose spread could be corrected")
    found = find_factors(outputs, made)
    with contextlib.suppress(OSError):  # the folder may be somebody else's
        write_atomically(run.path / FACTORS, write_line({"samples": samples, **asdict(found)}))
    return found


def _kept_factors(run: SurrogateRun, samples: int) -> Recalibration | None:
    try:
        (kept,) = read_lines(run.path / FACTORS)
        return Recalibration(**kept) if kept.pop("samples") == samples else None
    except (OSError, ValueError, KeyError, TypeError, DamagedError):
        return None  # there are none, or they are damaged: find them again


def find_factors(true: Array, made: Prediction) -> Recalibration:
    """The factors under which held-out outputs (examples, ...) are most likely, scaled to cover 90 % of them.

    The likelihood decides the ratio of the two factors; the coverage, which heavy tails do not disturb, their size.
    """
    true, made = _without_known(true, made)
    assert made.std is not None and made.noise_std is not None
    errors = np.square(true - _numpy(made.mean))
    noise = np.broadcast_to(_numpy(made.noise_std), errors.shape)
    parts = np.stack([np.square(_numpy(made.std)), np.square(noise)]).reshape(2, -1)
    flat = errors.reshape(-1)

    def surprise(logarithms: Array) -> tuple[float, Array]:
        """Negative log-likelihood per output, and its gradient in the logarithms of the factors."""
        scaled = np.exp(2 * logarithms)[:, None] * parts
        variance = scaled.sum(0)
        slope = (1 - flat / variance) / variance
        return 0.5 * float(np.mean(np.log(variance) + flat / variance)), np.mean(scaled * slope, axis=1)

    widest = np.log(WIDEST)
    best = minimize(surprise, np.zeros(2), jac=True, method="L-BFGS-B", bounds=[(-widest, widest)] * 2).x
    weights, noise_factor = np.exp(best).tolist()
    first = Recalibration(weights, noise_factor, 0.9, 0.0, 0.0, 0)
    whole = recalibrate(true, _normal(first.apply(made)))
    before = recalibrate(true, _normal(made)).before
    return replace(whole, weights=first.weights * whole.weights, noise=first.noise * whole.weights, before=before)


def trust_of(true: Array, made: Prediction, factors: Recalibration | None = None) -> Trust:
    """Judge a prediction of true outputs (examples, ...), as it is and with factors."""
    judged, bars = _without_known(true, made)
    return Trust(
        assess([(judged, _normal(bars))]),
        factors,
        assess([(judged, _normal(factors.apply(bars)))]) if factors is not None else None,
        deviation(made),
        np.sqrt(np.mean(np.square(_numpy(made.mean) - true).reshape(len(true), -1), axis=1)),
    )


def deviation(made: Prediction) -> Array:
    """Root mean square over the outputs of the standard deviation due to the weights, one number per example."""
    assert made.std is not None
    found: Array = np.sqrt(np.mean(_numpy(made.std).reshape(len(made.std), -1) ** 2, axis=1))
    return found


def set_apart(settings: Settings, data: DataSet) -> tuple[Array, Array]:
    """Inputs and outputs of the part of the training data that a run with these settings does not train on."""
    inputs, outputs = data.inputs("train"), data.outputs("train")
    held = settings.held(len(inputs))
    return inputs[:held], outputs[:held]


def _without_known(true: Array, made: Prediction) -> tuple[Array, Prediction]:
    """Leave out outputs with neither error nor spread in any example, such as the flow through closed sides.

    For them any noise would be too large, and every interval would cover them.
    """
    assert made.std is not None
    largest = np.maximum(np.abs(true - _numpy(made.mean)), _numpy(made.std)).max(0)
    unknown = largest > 1e-6 * np.abs(true).max()
    if unknown.all() or not unknown.any():
        return true, made
    kept, noise = torch.from_numpy(unknown), made.noise_std
    if isinstance(noise, torch.Tensor) and noise.dim():
        noise = noise.expand(unknown.shape)[kept]
    return true[:, unknown], replace(
        made, mean=made.mean[:, kept], std=made.std[:, kept], noise_std=noise, quantiles=None
    )


def _normal(made: Prediction) -> Mixture:
    return Mixture.normal(_numpy(made.mean), _numpy(made.total_std))


def _numpy(values: torch.Tensor | float) -> Array:
    return np.asarray(values.double().numpy() if isinstance(values, torch.Tensor) else values, dtype=float)
