"""Data sets as torch tensors: standardised inputs and targets, and the way back to physical units."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.grid import Grid


@dataclass(frozen=True)
class Normalisation:
    """Maps between physical units and numbers of order one.

    kappa, or its logarithm, has one mean and one deviation for all cells. A velocity has a mean for each edge and one
    deviation for all: the squared error of normalised velocities is, up to a factor, that of the velocities.
    """

    kappa_mean: Tensor
    kappa_std: Tensor
    velocity_mean: Tensor
    velocity_std: Tensor
    kappa_log: Tensor
    """1 if the mean and deviation are those of log kappa, else 0."""

    @classmethod
    def of(cls, kappa: Tensor, velocity: Tensor) -> "Normalisation":
        """The one that standardises these fields (samples, ny, nx) and velocities (samples, edges).

        It takes logarithms of skewed values where these are far more symmetric, as for lognormal fields, where a few
        large ones would hide the others.
        """
        skewness = abs(_skewness(kappa))
        log = skewness > 1 and abs(_skewness(kappa.log())) < 0.5 * skewness
        kappa, mean = kappa.log() if log else kappa, velocity.mean(0)
        flag = torch.tensor(float(log))
        return cls(kappa.mean(), _deviation(kappa - kappa.mean()), mean, _deviation(velocity - mean), flag)

    @classmethod
    def identity(cls, grid: Grid) -> "Normalisation":
        """The one that changes nothing, to be filled from a file."""
        return cls(torch.zeros(()), torch.ones(()), torch.zeros(grid.edges), torch.ones(()), torch.zeros(()))

    def encode_kappa(self, kappa: Tensor) -> Tensor:
        """Normalised permeability with a channel dimension, (..., 1, ny, nx)."""
        values = torch.where(self.kappa_log > 0, kappa.log(), kappa)  # no branch: it can be traced and exported
        return ((values - self.kappa_mean) / self.kappa_std).unsqueeze(-3)

    def encode_velocity(self, velocity: Tensor) -> Tensor:
        """Normalised velocity."""
        return (velocity - self.velocity_mean) / self.velocity_std

    def decode_velocity(self, normalised: Tensor) -> Tensor:
        """Velocity in physical units."""
        return normalised * self.velocity_std + self.velocity_mean


class DarcyDataset(Dataset[tuple[Tensor, Tensor]]):
    """One part of a data set as pairs (kappa (1, ny, nx), velocity (edges,)), normalised, in memory.

    Parameters
    ----------
    data
        A finished data set.
    split
        ``"train"`` or ``"test"``; None takes all samples.
    normalisation
        Of the training part unless given, also for the test part: a test set must not set its own scale.
    dtype
        Of the tensors.

    Examples
    --------
    >>> train = DarcyDataset(DarcyData("data/kle32"), "train")  # doctest: +SKIP
    >>> loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        data: DarcyData,
        split: Literal["train", "test"] | None = "train",
        *,
        normalisation: Normalisation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        kappa, velocity = (torch.from_numpy(data.array(name, split)) for name in ("kappa", "velocity"))
        if not len(kappa):
            raise ValueError(f"{data.folder} has no samples in its {split} part: make it with another test_share")
        if normalisation is None:
            training = (kappa, velocity)
            if split != "train":
                training = (
                    torch.from_numpy(data.array("kappa", "train")),
                    torch.from_numpy(data.array("velocity", "train")),
                )
            normalisation = Normalisation.of(*training)
        self.grid, self.normalisation = data.grid, normalisation
        self.inputs = normalisation.encode_kappa(kappa).to(dtype)
        self.targets = normalisation.encode_velocity(velocity).to(dtype)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


def _deviation(centred: Tensor) -> Tensor:
    """Root mean square; 1 for a constant, which then maps to zero."""
    deviation = centred.square().mean().sqrt()
    return torch.where(deviation > 0, deviation, torch.ones_like(deviation))


def _skewness(values: Tensor) -> float:
    """Third moment of the standardised values."""
    centred = values - values.mean()
    return float((centred / _deviation(centred)).pow(3).mean())
