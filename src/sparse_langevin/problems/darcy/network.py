"""The paper's encoder-decoder from permeability to the velocity on all edges, and one with the physics built in."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sparse_langevin.problems.darcy.conservation import CLOSED, DivergenceFree, beside_edges
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.layers import HalvingPool, InputConv2d


class EncoderDecoder(nn.Module):
    """Two convolutions, a pool and a dense layer down to a small code; two convolutions and two dense layers up again.

    At 50 by 50 cells it has 8,269,179 parameters. The text of the paper leaves the width of the last convolution open;
    27 comes nearest to the 8,252,320 that it prints. The wide layers, `SPARSE`, hold 6,102,320 weights. Nor does the
    paper name an activation: a smooth one is about twice as accurate here as ``nn.ReLU``.

    Parameters
    ----------
    grid
        The grid of the fields.
    channels
        Numbers of channels of the four convolutions.
    code
        Width of the code, which is an image of ``code`` by ``code``.
    hidden
        Width of the dense layer before the output.
    activation
        Class of the activation functions.
    """

    SPARSE = ("encode.2.weight", "encode.6.weight", "decode.3.weight", "decode.8.weight")

    def __init__(
        self,
        grid: Grid,
        *,
        channels: tuple[int, int, int, int] = (64, 32, 16, 27),
        code: int = 10,
        hidden: int = 800,
        activation: type[nn.Module] = nn.SiLU,
    ) -> None:
        super().__init__()
        first, second, third, fourth = channels
        pooled = -(-grid.nx // 2) * -(-grid.ny // 2)
        self.encode = nn.Sequential(
            InputConv2d(first),
            activation(),
            nn.Conv2d(first, second, 3, padding=1),
            activation(),
            HalvingPool(),
            nn.Flatten(),
            nn.Linear(second * pooled, code**2),
            activation(),
        )
        self.decode = nn.Sequential(
            nn.Unflatten(1, (1, code, code)),
            nn.Conv2d(1, third, 3, padding=1),
            activation(),
            nn.Conv2d(third, fourth, 3, padding=1),
            activation(),
            nn.Flatten(),
            nn.Linear(fourth * code**2, hidden),
            activation(),
            nn.Linear(hidden, grid.edges),
        )

    def forward(self, kappa: Tensor) -> Tensor:
        """Normalised permeability (batch, 1, ny, nx) to normalised velocity (batch, edges)."""
        output: Tensor = self.decode(self.encode(kappa))
        return output


class DarcyEncoderDecoder(EncoderDecoder):
    """The encoder-decoder with Darcy's law, velocity = -permeability * gradient, and conservation of mass built in.

    The output of the encoder-decoder is multiplied by a linear function of the permeability beside each edge (of its
    logarithm, if that is the input), so that jumps need not pass through the small code. Then it is replaced by the
    nearest velocity that has the divergence of the mean of the training data, and its flow through closed sides: all
    training data must share them. There is one more parameter, and one for each edge.

    Parameters
    ----------
    grid
        The grid of the fields.
    closed
        Sides whose flow is given; the paper's by default.
    options
        Options of `EncoderDecoder`.
    """

    def __init__(self, grid: Grid, *, closed: Sequence[str] = CLOSED, **options: Any) -> None:
        super().__init__(grid, **options)
        # For normalised values: the permeability's deviation relative to its mean, and its effect on the mean velocity.
        self.scale = nn.Parameter(torch.zeros(()))
        self.direct = nn.Parameter(torch.zeros(grid.edges))
        self.conserve = DivergenceFree(grid, closed)

    def forward(self, kappa: Tensor) -> Tensor:
        """Normalised permeability (batch, 1, ny, nx) to normalised velocity (batch, edges)."""
        beside = beside_edges(kappa)
        velocity: Tensor = self.conserve(super().forward(kappa) * (1 + self.scale * beside) + self.direct * beside)
        return velocity

    def check_targets(self, velocity: Tensor) -> None:
        """Raise if the network cannot produce these normalised velocities (samples, edges)."""
        apart = float((self.conserve(velocity) - velocity).square().mean() / velocity.square().mean())
        if apart > 1e-6:
            raise ValueError(
                f"the velocities differ in their sources or in the flow through closed sides: {apart:.1%} of their "
                "variance is out of reach of this network; use another one, or set the closed sides in a subclass"
            )
