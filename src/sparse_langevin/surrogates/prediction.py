"""Velocity of new permeability fields, and how sure the posterior samples are of it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sparse_langevin.surrogates.runs import SurrogateRun


@dataclass(frozen=True)
class Prediction:
    """Velocities (fields, edges) in physical units."""

    velocity: Tensor
    """Mean over the posterior samples, or the last sample's answer when none were kept."""
    std: Tensor | None
    """Standard deviation due to the weights; None without samples."""
    samples: int
    """Posterior samples behind it; 0 for the last one alone."""


def predict(
    run: SurrogateRun,
    kappa: Tensor,
    *,
    last: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Prediction:
    """Predict with all posterior samples of a run, one after the other, so that memory does not grow with them.

    Parameters
    ----------
    run
        A finished run.
    kappa
        Raw permeability (fields, ny, nx).
    last
        Only the finished network, the last sample of its chain.
    progress
        Called with (samples done, samples in all).
    """
    total = 0 if last else len(run.bank())
    if not total:
        return Prediction(run.surrogate().predict(kappa), None, 0)
    weight, mean, squares = 0.0, torch.zeros(()), torch.zeros(())
    for done, (share, velocity) in enumerate(run.sampled_predictions(kappa), 1):
        weight += share
        step = velocity - mean
        mean = mean + step * (share / weight)
        squares = squares + share * step * (velocity - mean)
        progress(done, total)
    return Prediction(mean, (squares / weight).clamp_min(0).sqrt(), total)
