r"""Control variates: gradients of minibatches with less noise.

With an anchor beta_0 near the weights, at which the gradient g of the whole data set is known,

    g_batch(beta) - g_batch(beta_0) + g(beta_0)

has the same mean as g_batch(beta), and noise that vanishes as beta approaches beta_0 (Johnson and Zhang, 2013; Dubey et
al., 2016, for Langevin dynamics). A step costs two gradients, and a move of the anchor one pass over the data.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from sparse_langevin.sampling.flat import FlatParameters


class Anchor:
    """The point beta_0, the gradient there, and the noise level at which it was taken; none until `move` is called.

    Parameters
    ----------
    flat
        The weights.
    differentiate
        A function (batch, sigma) that writes the gradient at the current weights, scaled to the whole data set, to
        ``flat.grad`` and returns the number of examples.
    """

    def __init__(self, flat: FlatParameters, differentiate: Callable[[Any, float], int]) -> None:
        self._flat, self._differentiate = flat, differentiate
        self.tensors = {
            "anchor": torch.zeros_like(flat.vector),
            "anchor_gradient": torch.zeros_like(flat.vector),
            "anchor_sigma": torch.zeros((), dtype=torch.float64),
        }
        """The state, by name; a sigma of 0 means that there is no anchor yet."""

    @property
    def known(self) -> bool:
        """Whether there is an anchor."""
        return bool(self.tensors["anchor_sigma"])

    def move(self, batches: Iterable[Any], sigma: float) -> None:
        """Set the anchor to the current weights, with one pass over the data."""
        gradient, examples = torch.zeros_like(self._flat.vector), 0
        for batch in batches:
            count = self._differentiate(batch, sigma)
            gradient.add_(self._flat.grad, alpha=float(count))
            examples += count
        with torch.no_grad():
            self.tensors["anchor"].copy_(self._flat.vector)
            self.tensors["anchor_gradient"].copy_(gradient / examples)
            self.tensors["anchor_sigma"].fill_(sigma)

    def difference(self, batch: Any) -> Tensor | None:
        """Return g(beta_0) - g_batch(beta_0), or None if there is no anchor yet."""
        if not self.known:
            return None
        sigma = float(self.tensors["anchor_sigma"])
        vector = self._flat.vector
        here = vector.clone()
        devices = [vector.device] if vector.is_cuda else []
        try:
            with torch.random.fork_rng(devices):  # the same dropout as in the gradient at the weights
                vector.copy_(self.tensors["anchor"])
                self._differentiate(batch, sigma)
        finally:
            vector.copy_(here)
        return self.tensors["anchor_gradient"] - self._flat.grad
