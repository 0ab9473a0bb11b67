"""Permeability and velocity as numbers of order one, and the way back to physical units."""

from typing import Any

import torch
from torch import Tensor

from sparse_langevin.surrogates.codec import Codec


class Normalisation(Codec):
    """Maps between physical units and numbers of order one.

    kappa, or its logarithm, has one mean and one deviation for all cells. A velocity has a mean for each edge and one
    deviation for all, so that the squared error of normalised velocities is, up to a factor, that of the velocities.

    Parameters
    ----------
    edges
        Length of a velocity. The codec changes nothing until it is fitted or loaded from a file.
    """

    kappa_mean: Tensor
    kappa_std: Tensor
    kappa_log: Tensor
    """1 if the mean and deviation are those of log kappa, else 0."""
    velocity_mean: Tensor
    velocity_std: Tensor

    def __init__(self, edges: int) -> None:
        super().__init__()
        sizes: dict[str, Any] = {"kappa_mean": (), "kappa_log": (), "velocity_mean": (edges,)}
        for name, shape in sizes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        for name in ("kappa_std", "velocity_std"):
            self.register_buffer(name, torch.ones((), dtype=torch.float64))

    @classmethod
    def of(cls, kappa: Tensor, velocity: Tensor) -> "Normalisation":
        """A normalisation fitted to fields (samples, ny, nx) and velocities (samples, edges)."""
        made = cls(velocity.shape[-1])
        made.fit(kappa, velocity)
        return made

    def fit(self, inputs: Tensor, outputs: Tensor) -> None:
        """Take means and deviations from fields (samples, ny, nx) and velocities (samples, edges).

        Skewed permeabilities, such as lognormal ones, are replaced by their logarithms if these are far more symmetric:
        otherwise a few large values would hide the others.
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
        # No branch, so that it can be traced and exported.
        values = torch.where(self.kappa_log > 0, inputs.log(), inputs)
        return ((values - self.kappa_mean) / self.kappa_std).unsqueeze(-3)

    def encode_outputs(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """Normalised velocity."""
        return (outputs - self.velocity_mean) / self.velocity_std

    def decode(self, normalised: Tensor) -> Tensor:
        """Velocity in physical units."""
        return normalised * self.velocity_std + self.velocity_mean

    @property
    def noise_scale(self) -> Tensor:
        """Standard deviation of the velocities."""
        return self.velocity_std

    def remarks(self) -> dict[str, str]:
        """What the network takes as its input, for the report."""
        return {"input": "logarithm of the permeability" if self.kappa_log else "permeability"}


def _deviation(centred: Tensor) -> Tensor:
    """Root mean square of centred values; 1 if they are all zero, so that a constant maps to zero."""
    deviation = centred.square().mean().sqrt()
    return torch.where(deviation > 0, deviation, torch.ones_like(deviation))


def _skewness(values: Tensor) -> float:
    """Third moment of the standardised values."""
    centred = values - values.mean()
    return float((centred / _deviation(centred)).pow(3).mean())
