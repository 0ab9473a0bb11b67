"""How good predictions are: errors per sample, their quantiles, and the mean predictor beside them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.errors import e1, e2, mass_residual
from sparse_langevin.problems.darcy.grid import Array
from sparse_langevin.problems.darcy.summary import first_order_errors, mean_predictor_errors

Split = Literal["train", "test"]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MEASURES = ("e1", "e2", "mass_residual")


@dataclass(frozen=True)
class Evaluation:
    """Errors of a surrogate over one part of a data set, one number per sample."""

    split: Split
    e1: Array
    """Relative L2 error of the velocity."""
    e2: Array
    """Relative error in the norm weighted by 1/kappa."""
    mass_residual: Array
    """Largest |div u - f| over the cells."""
    baseline_e1: float
    """Mean e1 of the predictor that always answers the training mean."""
    baseline_e2: float
    first_order_e1: float
    """Mean e1 of the solution to first order around the training mean, which needs no network."""
    first_order_e2: float

    def mean(self, measure: str) -> float:
        """Mean over the samples."""
        return float(np.mean(getattr(self, measure)))

    def quantiles(self, measure: str) -> dict[float, float]:
        """The quantiles `QUANTILES` over the samples."""
        return dict(zip(QUANTILES, np.quantile(getattr(self, measure), QUANTILES).tolist(), strict=True))


def evaluate(predict: Callable[[Tensor], Tensor], data: DarcyData, split: Split = "test") -> Evaluation:
    """Compare predictions with the solver's velocities, in physical units and double precision.

    Parameters
    ----------
    predict
        Raw permeability (samples, ny, nx) to raw velocity (samples, edges), such as `darcy.Surrogate.predict`.
    data, split
        What to predict.
    """
    kappa, velocity = data.array("kappa", split), data.array("velocity", split)
    if not len(kappa):
        raise ValueError(f"{data.folder} has no samples in its {split} part: make it with another test_share")
    predicted = predict(torch.from_numpy(kappa)).double().cpu().numpy()
    return Evaluation(
        split,
        e1(data.grid, predicted, velocity),
        e2(data.grid, predicted, velocity, kappa),
        mass_residual(data.grid, predicted, data.recipe["source"]),
        *mean_predictor_errors(data, split),
        *first_order_errors(data, split),
    )
