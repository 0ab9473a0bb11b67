"""The network of all contenders, and its pruning where a contender does not prune by itself.

    convolution 3x3 to 16 channels, pooled - convolution 3x3 to 32, pooled - dense 128 - dense 10

It has 206,922 parameters, of which 206,736 are weights of the four layers; the shares of zeros are of these.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from sparse_langevin import Pruning
from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.pruning import Mask

MEAN, DEVIATION = 0.286, 0.353  # of the pixels of the training images
PRUNED_FROM = 0.05  # share of the run after which pruning begins


class CNN(nn.Module):
    """Pixels (n, 1, 28, 28) in [0, 1] to 10 logits; with ``dropout`` before both dense layers."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.dense1, self.dense2 = nn.Linear(32 * 7 * 7, 128), nn.Linear(128, 10)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        x = ((x - MEAN) / DEVIATION).to(memory_format=torch.channels_last)  # twice as fast on a CPU
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2)).flatten(1)
        x = functional.relu(self.dense1(functional.dropout(x, self.dropout, self.training)))
        return self.dense2(functional.dropout(x, self.dropout, self.training))


def make(seed: int, dropout: float = 0.0) -> CNN:
    """Return an untrained network; torch's generator is seeded."""
    torch.manual_seed(seed)
    return CNN(dropout)


def plan(zeros: float, settings: Mapping[str, Any], steps: int) -> Pruning | None:
    """Return the cubic plan of all contenders: it reaches its share of zeros at ``pruned_by`` of the run."""
    if not zeros:
        return None
    start = round(PRUNED_FROM * steps)
    end = max(start + 1, round(settings["pruned_by"] * steps))
    return Pruning(target=zeros, start=start, end=end, scope=settings.get("scope", "layer"))


class Pruner:
    """Prunes a model that an optimiser trains, and holds its zeros: call it after each step."""

    def __init__(self, model: nn.Module, pruning: Pruning | None) -> None:
        self.flat = FlatParameters(model)
        self.mask = Mask(self.flat, pruning) if pruning is not None else None

    def __call__(self, step: int) -> None:
        """Prune after ``step`` if it is due."""
        if self.mask is not None and self.mask.plan.due(step):
            self.mask.prune(step)
        elif self.mask is not None:
            self.mask.apply()


def share_of_zeros(model: nn.Module) -> float:
    """Return the share of zeros among the weights of all layers, without biases."""
    weights = [p for p in model.parameters() if p.dim() > 1]
    return sum(int((p == 0).sum()) for p in weights) / sum(p.numel() for p in weights)


def zeros_by_layer(model: nn.Module) -> dict[str, float]:
    """Return the share of zeros of each layer's weights."""
    return {name: float((p == 0).float().mean()) for name, p in model.named_parameters() if p.dim() > 1}
