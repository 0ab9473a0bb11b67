"""Permeability and velocity as numbers of order one, and the way back to physical units."""

from typing import Any

import torch
from torch import Tensor

from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.surrogates.codec import Codec


class Normalisation(Codec):
    """Maps between physical units and numbers of order one.

    kappa, or its logarithm, has one mean and one deviation for all cells. A velocity has a mean for each edge and one
    deviation for all: the squared error of normalised velocities is, up to a factor, that of the velocities.

    Parameters
    ----------
    grid
        Where the fields live. The codec changes nothing until it is fitted, or filled from a file.
    """

    kappa_mean: Tensor
    kappa_std: Tensor
    kappa_log: Tensor
    """1 if the mean and deviation are those of log kappa, else 0."""
    velocity_mean: Tensor
    velocity_std: Tensor

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"kappa_mean": (), "kappa_log": (), "velocity_mean": (grid.edges,)}
        for name, shape in sizes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        for name in ("kappa_std", "velocity_std"):
            self.register_buffer(name, torch.ones((), dtype=torch.float64))

    def fit(self, inputs: Tensor, outputs: Tensor) -> None:
        """Standardise these fields (samples, ny, nx) and velocities (samples, edges).

        It takes logarithms of skewed values where these are far more symmetric, as for lognormal fields, where a few
        large ones would hide the others.
        """
        skewness = abs(_skewness(inputs))
        log = skewness > 1 and abs(_skewness(inputs.log())) < 0.5 * skewness
        kappa, mean = inputs.log() if log else inputs, outputs.mean(0)
        self.kappa_log.fill_(float(log))
        self.kappa_mean.copy_(kappa.mean())
        self.kappa_std.copy_(_deviation(kappa - kappa.mean()))
        self.velocity_mean.copy_(mean)
        self.velocity_std.copy_(_deviation(outputs - mean))

    def encode(self, inputs: Tensor) -> Tensor:
        """Normalised permeability with a channel dimension, (..., 1, ny, nx)."""
        values = torch.where(self.kappa_log > 0, inputs.log(), inputs)  # no branch: it can be traced and exported
        return ((values - self.kappa_mean) / self.kappa_std).unsqueeze(-3)

    def encode_outputs(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Normalised velocity."""
        return (outputs - self.velocity_mean) / self.velocity_std

    def decode(self, normalised: Tensor) -> Tensor:
        """Velocity in physical units."""
        return normalised * self.velocity_std + self.velocity_mean

    @property
    def noise_scale(self) -> Tensor:
        """The deviation of velocities."""
        return self.velocity_std

    def remarks(self) -> dict[str, str]:
        """What the network sees."""
        return {"input": "logarithm of the permeability" if self.kappa_log else "permeability"}


def _deviation(centred: Tensor) -> Tensor:
    """Root mean square; 1 for a constant, which then maps to zero."""
    deviation = centred.square().mean().sqrt()
    return torch.where(deviation > 0, deviation, torch.ones_like(deviation))


def _skewness(values: Tensor) -> float:
    """Third moment of the standardised values."""
    centred = values - values.mean()
    return float((centred / _deviation(centred)).pow(3).mean())
