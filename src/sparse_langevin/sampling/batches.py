"""Minibatches whose order is a pure function of (seed, epoch)."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


class Batches:
    """Shuffled minibatches of tensors.

    Parameters
    ----------
    *tensors
        Inputs, targets, ...: tensors with one row per example.
    batch_size
        Number of rows per batch; the last batch of an epoch holds the rest.
    seed
        Seed of the order.
    shuffle
        If false, rows come in their original order.

    Examples
    --------
    >>> loader = Batches(torch.arange(5), torch.arange(5), batch_size=2)
    >>> [len(x) for x, y in loader]
    [2, 2, 1]
    """

    def __init__(self, *tensors: Tensor, batch_size: int, seed: int = 0, shuffle: bool = True) -> None:
        lengths = [len(t) for t in tensors]
        if len(set(lengths)) != 1 or not lengths[0]:
            raise ValueError(f"Batches needs tensors with the same number of rows, at least one; got {lengths} rows")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size!r}")
        self.tensors, self.batch_size, self.seed, self.shuffle = tensors, batch_size, seed, shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order the next iteration follows; without it each iteration is the next epoch."""
        self.epoch = epoch

    def __repr__(self) -> str:
        rows = len(self.tensors[0])
        return f"Batches(rows={rows}, batch_size={self.batch_size}, seed={self.seed}, shuffle={self.shuffle})"

    def __len__(self) -> int:
        return -(-len(self.tensors[0]) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        rows = len(self.tensors[0])
        order = torch.arange(rows)
        if self.shuffle:
            # A prime far larger than any number of epochs gives each pair (seed, epoch) a seed of its own.
            generator = torch.Generator().manual_seed((self.seed * 1_000_000_007 + self.epoch) % 2**63)
            order = torch.randperm(rows, generator=generator)
        self.epoch += 1
        order = order.to(self.tensors[0].device)
        for start in range(0, rows, self.batch_size):
            chosen = order[start : start + self.batch_size]
            yield tuple(t[chosen] for t in self.tensors)


def move(batch: Any, device: torch.device) -> Any:
    """Move a batch to a device: tensors, tuples, lists and dictionaries of them, and objects with a ``to`` method."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):  # a named tuple
        return type(batch)(*(move(value, device) for value in batch))
    if type(batch) in (tuple, list):
        return type(batch)(move(value, device) for value in batch)
    if type(batch) is dict:
        return {key: move(value, device) for key, value in batch.items()}
    return batch.to(device) if hasattr(batch, "to") else batch
