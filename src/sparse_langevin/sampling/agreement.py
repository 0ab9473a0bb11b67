"""Whether several chains agree about the inclusion probabilities rho.

Stochastic approximation finds a fixed point of rho, and there can be several: weights that one chain has in the spike
another may have in the slab, and neither would ever tell. Chains from different initial weights show it.

In a network the hidden units can trade places, so that single weights of two chains have nothing to do with each
other. There, only the average of rho over each layer can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOLERANCE = 0.25  # in rho of one weight: with less, noise could make the difference where the data leave it open
LAYER_TOLERANCE = 0.1  # in the average of rho over a layer, whose noise is far smaller
REMEDY = (
    "Either they have not settled yet, or the updates of rho have several fixed points and the chains are at different "
    "ones, so that rho depends on where a chain began. Run longer; if they still disagree, sum gamma out "
    "(SpikeSlab(latents='summed')), or use a wider spike (larger v0)."
)


@dataclass(frozen=True)
class InclusionAgreement:
    """How far chains are apart in their inclusion probabilities."""

    difference: float
    """Largest difference between two chains in rho of one weight."""
    layer: str
    """The layer of that weight."""
    index: tuple[int, ...]
    """Its index in the layer."""
    rho: tuple[float, ...]
    """Its rho in each chain."""
    layers: dict[str, tuple[float, ...]]
    """Average of rho over each layer, in each chain."""
    comparable: bool
    """Whether single weights can be compared: there are no hidden units that could trade places."""

    @classmethod
    def of(cls, chains: Sequence[Mapping[str, Tensor]], *, comparable: bool) -> "InclusionAgreement | None":
        """Compare chains, given rho of each layer; None if there is nothing to compare."""
        if len(chains) < 2 or not chains[0]:
            return None
        worst = -1.0, "", 0
        stacks = {layer: torch.stack([chain[layer].double().cpu() for chain in chains]) for layer in chains[0]}
        for layer, rho in stacks.items():
            apart = rho.amax(0) - rho.amin(0)
            place = int(apart.argmax())
            worst = max(worst, (float(apart.flatten()[place]), layer, place))
        difference, layer, place = worst
        rho = stacks[layer]
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), rho.shape[1:]))
        there = tuple(rho.flatten(1)[:, place].tolist())
        averages = {name: tuple(found.flatten(1).mean(1).tolist()) for name, found in stacks.items()}
        return cls(difference, layer, index, there, averages, comparable)

    def warning(self) -> str | None:
        """Return what to say if the chains disagree by more than the tolerance."""
        if self.comparable:
            where = f"{self.layer}[{', '.join(map(str, self.index))}]"
            found = {f"whether {where} belongs in the model: its rho": self.rho}
        else:
            found = {f"how much of {name} belongs in the model: its average rho": v for name, v in self.layers.items()}
        limit = TOLERANCE if self.comparable else LAYER_TOLERANCE
        what, values = max(found.items(), key=lambda item: max(item[1]) - min(item[1]))
        if max(values) - min(values) <= limit:
            return None
        high, low = values.index(max(values)), values.index(min(values))
        return (
            f"the chains disagree about {what} is {max(values):.2f} in chain {high} and {min(values):.2f} in chain "
            f"{low}. {REMEDY}"
        )
