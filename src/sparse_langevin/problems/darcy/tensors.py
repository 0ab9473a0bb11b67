"""Data sets as torch tensors: standardised inputs and targets, for training loops of your own."""

import torch
from torch import Tensor
from torch.utils.data import Dataset

from sparse_langevin.problems.darcy.codec import Normalisation
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.surrogates.problem import Split


class DarcyDataset(Dataset[tuple[Tensor, Tensor]]):
    """One part of a data set as pairs (kappa (1, ny, nx), velocity (edges,)), normalised, in memory.

    Parameters
    ----------
    data
        A finished data set.
    split
        ``"train"`` or ``"test"``; None takes all samples.
    normalisation
        That of the training part unless given, also for the test part: a test set must not set its own scale.
    dtype
        Type of the tensors.

    Examples
    --------
    >>> train = DarcyDataset(DarcyData("data/kle32"), "train")  # doctest: +SKIP
    >>> loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        data: DarcyData,
        split: Split | None = "train",
        *,
        normalisation: Normalisation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        kappa, velocity = (torch.from_numpy(data.array(name, split)) for name in ("kappa", "velocity"))
        if not len(kappa):
            raise ValueError(f"{data.folder} has no samples in its {split} part: make it with another test_share")
        if normalisation is None:
            training = [kappa, velocity]
            if split != "train":
                training = [torch.from_numpy(data.array(name, "train")) for name in ("kappa", "velocity")]
            normalisation = Normalisation.of(*training)
        self.grid, self.normalisation = data.grid, normalisation
        self.inputs = normalisation.encode(kappa).to(dtype)
        self.targets = normalisation.encode_outputs(velocity, kappa).to(dtype)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]
