"""What a trained contender says about images: the average of its members' probabilities.

Members are the networks of an ensemble, samples of a posterior, or passes with different masks of dropout. An ordinary
network has one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin import PosteriorBank
from sparse_langevin.posterior import classification

ROWS = 1000  # images in one call of a network; masks of dropout depend on it
Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Opinion:
    """Probabilities (n, classes) and the two measures of doubt (n,)."""

    probabilities: np.ndarray
    entropy: np.ndarray
    mutual_information: np.ndarray


@dataclass(frozen=True)
class Members:
    """Networks with equal weights."""

    forwards: list[Forward]

    def weighted(self) -> Iterator[tuple[float, Forward]]:
        """Give each member with its weight."""
        for forward in self.forwards:
            yield 1.0 / len(self.forwards), forward

    def classify(self, x: Tensor) -> Opinion:
        """Average over the members."""
        with torch.no_grad():
            each = [torch.cat([f(rows).double().softmax(1) for rows in x.split(ROWS)]) for f in self.forwards]
        p = torch.stack(each).numpy()
        if not np.isfinite(p).all():
            raise FloatingPointError("the probabilities are not finite: training has diverged, use smaller steps")
        return Opinion(p.mean(0), classification.entropy(p.mean(0)), classification.mutual_information(p))


@dataclass(frozen=True)
class Bank:
    """The samples in a `PosteriorBank`, weighted by step size."""

    bank: PosteriorBank
    model: nn.Module

    def weighted(self) -> Iterator[tuple[float, Forward]]:
        """Give each sample with its weight."""
        for sample in self.bank:
            yield sample.weight, lambda x, s=sample: functional_call(self.model, s.parameters, (x,))

    def classify(self, x: Tensor) -> Opinion:
        """Average over the samples, by ``bank.classify``."""
        made = self.bank.classify(self.model, x, batch_size=ROWS)
        arrays = (made.probabilities, made.entropy, made.mutual_information)
        return Opinion(*(values.double().numpy() for values in arrays))


Predictor = Members | Bank


def fixed(model: nn.Module) -> Forward:
    """Return the model as one member, in eval mode."""
    return model.eval()


def dropped(model: nn.Module, passes: int) -> list[Forward]:
    """Return members that differ by their masks of dropout; each has the same masks at every call with as many rows."""

    def member(number: int) -> Forward:
        def forward(x: Tensor) -> Tensor:
            with torch.random.fork_rng():
                torch.manual_seed(number)
                return model(x)

        return forward

    model.train()
    return [member(number) for number in range(passes)]
