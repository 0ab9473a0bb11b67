"""Networks for arrays, by the shapes of their inputs and outputs.

    mlp               anything to anything, flattened; for vectors, and for small fields
    unet              field to field: down to a few points and up again, with a skip connection on each level
    encoder           field to vector
    decoder           vector to field
    encoder-decoder   field to field where the two differ in their number of directions

All are called with the problem and map what its codec gives, (n, channels, *grid) or (n, features), to (n, outputs).
Grids may have any size, in one to three directions. Activations are smooth. Groups of channels are normalised only
inside residual blocks, so that the scale of an input is not lost.
"""

from itertools import pairwise
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from sparse_langevin.sampling.checks import as_count

if TYPE_CHECKING:
    from sparse_langevin.problems.arrays.problem import ArraysProblem

CONVOLUTIONS: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
DEEPEST = 2**10  # hidden layers of an MLP are fewer
COARSEST = 4  # a direction with so many points or fewer is not halved any more
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


class MLP(nn.Module):
    """Dense layers.

    Parameters
    ----------
    problem
        The problem that it is for.
    width
        Width of the hidden layers.
    depth
        Number of hidden layers.
    """

    def __init__(self, problem: "ArraysProblem", *, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        width, depth = as_count(width, "width", low=1), as_count(depth, "depth", low=1, high=DEEPEST)
        layers: list[nn.Module] = [nn.Flatten()]
        for index in range(depth):
            layers += [nn.Linear(width if index else prod(problem.seen_shape), width), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, problem.output.size))

    def forward(self, seen: Tensor) -> Tensor:
        """(n, ...) to (n, outputs)."""
        answer: Tensor = self.layers(seen)
        return answer


class UNet(nn.Module):
    """A U-Net: convolutions on coarser and coarser grids and back; it also sees the coordinates of the points.

    Parameters
    ----------
    problem
        The problem that it is for. If the outputs have another grid, the result is interpolated before the last block.
    width
        Number of channels on the finest level, by default 16, or 8 in three directions. Each coarser level has twice
        as many as the one before, up to four times ``width``.
    depth
        Number of times that the grid is halved; by default until no direction has more than 4 points.
    """

    def __init__(self, problem: "ArraysProblem", *, width: int | None = None, depth: int | None = None) -> None:
        super().__init__()
        (channels, *grid), self.out_grid = problem.seen_shape, problem.output.grid
        if not grid or len(grid) != len(self.out_grid):
            raise _misfit("unet", "fields with the same number of directions as inputs and outputs", problem)
        dims, pyramid = len(grid), _Pyramid(grid, width, depth)
        places = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in grid), indexing="ij")
        self.register_buffer("places", torch.stack(places)[None], persistent=False)
        self.enter = _Block(dims, channels + dims, pyramid.widths[0])
        self.down = pyramid.down()
        pairs = pairwise(pyramid.widths)
        self.up = nn.ModuleList(_Block(dims, fine + coarse, fine) for fine, coarse in pairs)
        last = pyramid.widths[0]
        self.moved = None if tuple(grid) == self.out_grid else _Block(dims, last, last)
        self.leave = CONVOLUTIONS[dims](last, problem.output.components, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """(n, channels, *grid) to (n, outputs)."""
        places = self.get_buffer("places").to(seen.dtype).expand(seen.shape[0], *(-1 for _ in seen.shape[1:]))
        levels = [self.enter(torch.cat([seen, places], 1))]
        for block in self.down:
            levels.append(block(levels[-1]))
        values = levels.pop()
        for block in reversed(self.up):
            fine = levels.pop()
            values = block(torch.cat([_resized(values, fine.shape[2:]), fine], 1))
        if self.moved is not None:
            values = self.moved(_resized(values, self.out_grid))
        answer: Tensor = self.leave(values).flatten(1)
        return answer


class Encoder(nn.Module):
    """Convolutions on coarser and coarser grids, then dense layers.

    Parameters
    ----------
    problem
        The problem that it is for.
    width, depth
        As in `UNet`.
    hidden
        Width of the dense layer.
    """

    def __init__(
        self, problem: "ArraysProblem", *, width: int | None = None, depth: int | None = None, hidden: int = 128
    ) -> None:
        super().__init__()
        if len(problem.seen_shape) < 2:
            raise _misfit("encoder", "fields as inputs", problem)
        self.layers = _encoder(problem.seen_shape, problem.output.size, width, depth, as_count(hidden, "hidden", low=1))

    def forward(self, seen: Tensor) -> Tensor:
        """(n, channels, *grid) to (n, outputs)."""
        answer: Tensor = self.layers(seen)
        return answer


class Decoder(nn.Module):
    """Dense layers to a few points, then convolutions on finer and finer grids.

    Parameters
    ----------
    problem
        What the network is for.
    width, depth
        As in `Encoder`.
    hidden
        As in `Encoder`.
    """

    def __init__(
        self, problem: "ArraysProblem", *, width: int | None = None, depth: int | None = None, hidden: int = 128
    ) -> None:
        super().__init__()
        if len(problem.seen_shape) > 1 or not problem.output.grid:
            raise _misfit("decoder", "vectors as inputs and fields as outputs", problem)
        self.layers = _Up(problem, problem.seen_shape[0], width, depth, as_count(hidden, "hidden", low=1))

    def forward(self, seen: Tensor) -> Tensor:
        """(n, features) to (n, outputs)."""
        answer: Tensor = self.layers(seen)
        return answer


class EncoderDecoder(nn.Module):
    """An encoder to a short code, and a decoder from there.

    Parameters
    ----------
    problem
        What the network is for.
    width, depth
        As in `Encoder`.
    hidden
        As in `Encoder`.
    code
        Length of the code.
    """

    def __init__(
        self,
        problem: "ArraysProblem",
        *,
        width: int | None = None,
        depth: int | None = None,
        hidden: int = 128,
        code: int = 64,
    ) -> None:
        super().__init__()
        if len(problem.seen_shape) < 2 or not problem.output.grid:
            raise _misfit("encoder-decoder", "fields as inputs and outputs", problem)
        code, hidden = as_count(code, "code", low=1), as_count(hidden, "hidden", low=1)
        self.encode = _encoder(problem.seen_shape, code, width, depth, hidden)
        self.decode = _Up(problem, code, width, depth, hidden)

    def forward(self, seen: Tensor) -> Tensor:
        """(n, channels, *grid) to (n, outputs)."""
        answer: Tensor = self.decode(self.encode(seen))
        return answer


NETWORKS: dict[str, type[nn.Module]] = {
    "mlp": MLP,
    "unet": UNet,
    "encoder": Encoder,
    "decoder": Decoder,
    "encoder-decoder": EncoderDecoder,
}


class _Pyramid:
    """Sizes and widths of the levels, the finest first."""

    def __init__(self, grid: tuple[int, ...] | list[int], width: int | None, depth: int | None) -> None:
        base = as_count({1: 16, 2: 16, 3: 8}[len(grid)] if width is None else width, "width", low=1)
        most = 64 if depth is None else as_count(depth, "depth")
        self.grids = [tuple(grid)]
        self.strides: list[tuple[int, ...]] = []
        while len(self.strides) < most and max(self.grids[-1]) > COARSEST:
            self.strides.append(tuple(2 if n > COARSEST else 1 for n in self.grids[-1]))
            self.grids.append(tuple(-(-n // s) for n, s in zip(self.grids[-1], self.strides[-1], strict=True)))
        self.widths = [base * min(2**level, 4) for level in range(len(self.grids))]

    def down(self) -> nn.ModuleList:
        """Blocks from each level to the next coarser one."""
        steps = zip(self.widths, self.widths[1:], self.strides, strict=False)
        return nn.ModuleList(_Block(len(self.grids[0]), fine, coarse, stride) for fine, coarse, stride in steps)


class _Block(nn.Module):
    """Two convolutions, with a skip connection around the second, whose input is normalised."""

    def __init__(self, dims: int, before: int, after: int, stride: int | tuple[int, ...] = 1) -> None:
        super().__init__()
        self.first = CONVOLUTIONS[dims](before, after, 3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(gcd(after, 4) if after >= 8 else 1, after)
        self.second = CONVOLUTIONS[dims](after, after, 3, padding=1)
        self.act = nn.SiLU()

    def forward(self, values: Tensor) -> Tensor:
        values = self.act(self.first(values))
        answer: Tensor = values + self.act(self.second(self.norm(values)))
        return answer


class _Up(nn.Module):
    """From a vector to the coarsest level, and up to the outputs' grid."""

    def __init__(
        self, problem: "ArraysProblem", features: int, width: int | None, depth: int | None, hidden: int
    ) -> None:
        super().__init__()
        grid = problem.output.grid
        pyramid = _Pyramid(grid, width, depth)
        self.grids, last = pyramid.grids, pyramid.widths[-1]
        self.start = nn.Sequential(
            nn.Linear(features, hidden),
            nn.SiLU(),
            nn.Linear(hidden, last * prod(self.grids[-1])),
            nn.SiLU(),
            nn.Unflatten(1, (last, *self.grids[-1])),
        )
        pairs = pairwise(pyramid.widths)
        self.blocks = nn.ModuleList(_Block(len(grid), coarse, fine) for fine, coarse in pairs)
        self.leave = CONVOLUTIONS[len(grid)](pyramid.widths[0], problem.output.components, 1)

    def forward(self, code: Tensor) -> Tensor:
        values = self.start(code)
        for level in reversed(range(len(self.blocks))):
            values = self.blocks[level](_resized(values, self.grids[level]))
        answer: Tensor = self.leave(values).flatten(1)
        return answer


def _encoder(seen: tuple[int, ...], answers: int, width: int | None, depth: int | None, hidden: int) -> nn.Sequential:
    channels, *grid = seen
    pyramid = _Pyramid(grid, width, depth)
    coarse = pyramid.widths[-1] * prod(pyramid.grids[-1])
    return nn.Sequential(
        _Block(len(grid), channels, pyramid.widths[0]),
        *pyramid.down(),
        nn.Flatten(),
        nn.Linear(coarse, hidden),
        nn.SiLU(),
        nn.Linear(hidden, answers),
    )


def _resized(values: Tensor, grid: tuple[int, ...]) -> Tensor:
    return interpolate(values, size=tuple(grid), mode=LINEAR[len(grid)])


def _misfit(name: str, needs: str, problem: "ArraysProblem") -> ValueError:
    return ValueError(
        f"the network {name} needs {needs}, but here inputs have shape {problem.seen_shape} and outputs "
        f"{problem.output_shape}: leave the network out to use {problem.default_network}"
    )
