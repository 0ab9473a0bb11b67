r"""Between arrays in physical units and numbers of order one.

Each component c of the inputs (a channel of a field, an entry of a vector), or its logarithm, has one mean and one
deviation. Outputs have a mean for each number and a deviation for each component,

    encoded_{cp} = (y_{cp} - low_{cp} - mean_{cp}) / std_c,

where ``low``, the answer of a cheaper simulator, is zero if there is none. So the squared error of encoded outputs is,
channel by channel, that of the outputs up to a factor.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sparse_langevin.surrogates.codec import Codec

if TYPE_CHECKING:
    from sparse_langevin.problems.arrays.problem import ArraysProblem

CONSTANT = 1e-12  # relative to the mean: a smaller deviation is rounding
TINY = 1e-6  # scale of an output that is constant, relative to it


class ArraysCodec(Codec):
    """The codec of an `ArraysProblem`: changes nothing until it is fitted, or filled from a file."""

    def __init__(self, problem: "ArraysProblem") -> None:
        super().__init__()
        self.problem = problem
        x, y = problem.input, problem.output
        shapes = {"input": (x.components, 1), "output": (y.components, y.points)}
        if problem.low:
            shapes["low"] = (y.components, 1)
        for name, shape in shapes.items():
            self.register_buffer(f"{name}_mean", torch.zeros(shape, dtype=torch.float64))
            self.register_buffer(f"{name}_scale", torch.ones((shape[0], 1), dtype=torch.float64))
        self.register_buffer("logs", torch.tensor(problem.logs)[:, None], persistent=False)

    def fit(self, inputs: Tensor, outputs: Tensor) -> None:
        """Take means and deviations from training data."""
        x, low = self._parts(inputs)
        for name, values in (("input", x), ("low", low)):
            if values is not None:
                mean, deviation = _moments(values, values.mean((0, 2))[:, None])
                self._set(name, mean, torch.where(deviation > 0, deviation, torch.ones_like(deviation)))
        y = outputs.reshape(-1, *self.get_buffer("output_mean").shape)
        wanted = y if low is None else y - low
        mean, deviation = _moments(wanted, wanted.mean(0))
        # A constant needs a scale, too: so small that noise does not hide it, yet positive.
        size = torch.where(mean.abs().amax(1, keepdim=True) > 0, mean.abs().amax(1, keepdim=True), deviation.max())
        spare = torch.where(size > 0, TINY * size, torch.ones_like(size))
        self._set("output", mean, torch.where(deviation > 0, deviation, spare))

    def encode(self, inputs: Tensor) -> Tensor:
        """What the network sees: see `layouts.seen_shape`."""
        problem = self.problem
        x, low = self._parts(inputs)
        shape = problem.seen_shape
        x = self._standard("input", x).reshape(-1, problem.input.components, *problem.input.grid)
        if low is None:
            return x
        low = self._standard("low", low).reshape(-1, problem.output.components, *problem.output.grid)
        if len(shape) == 1:
            return torch.cat([x.flatten(1), low.flatten(1)], 1)
        return torch.cat([_on_grid(x, shape[1:]), _on_grid(low, shape[1:])], 1)

    def encode_outputs(self, outputs: Tensor, inputs: Tensor) -> Tensor:
        """What the network should answer, flat."""
        low = self.offset(inputs)
        wanted = outputs if low is None else outputs - low
        return self._standard("output", wanted.reshape(-1, *self.get_buffer("output_mean").shape)).flatten(1)

    def decode(self, normalised: Tensor) -> Tensor:
        """The answer in physical units, up to the low fidelity's."""
        mean, scale = self.get_buffer("output_mean"), self.get_buffer("output_scale")
        return (normalised.reshape(-1, *mean.shape) * scale + mean).reshape(-1, *self.problem.output_shape)

    def offset(self, inputs: Tensor) -> Tensor | None:
        """The low fidelity's answer."""
        if not self.problem.low:
            return None
        return inputs[:, self.problem.input.size :].reshape(-1, *self.problem.output_shape)

    @property
    def noise_scale(self) -> Tensor:
        """The deviation of each output's component, in the output's shape."""
        mean, scale = self.get_buffer("output_mean"), self.get_buffer("output_scale")
        return scale.expand_as(mean).reshape(self.problem.output_shape)

    def remarks(self) -> dict[str, str]:
        """What is done to inputs and outputs beside standardising them."""
        problem = self.problem
        logs = [problem.input.name(i, "input") for i, log in enumerate(problem.logs) if log]
        found = {"logarithms": f"of {', '.join(logs)}"} if logs else {}
        return found | ({"low fidelity": "seen by the network, which learns the difference"} if problem.low else {})

    def _parts(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Inputs (n, components, points), with logarithms where they are taken, and the low fidelity."""
        x, problem = inputs, self.problem
        low = None
        if problem.low:
            x, low = inputs[:, : problem.input.size], inputs[:, problem.input.size :]
            low = low.reshape(-1, problem.output.components, problem.output.points)
        x = x.reshape(-1, problem.input.components, problem.input.points)
        if any(problem.logs):
            logs = self.get_buffer("logs")
            positive = torch.where(logs, x, torch.ones_like(x))  # no nan, nor in derivatives, where none is taken
            x = torch.where(logs, positive.log(), x)
        return x, low

    def _standard(self, name: str, values: Tensor) -> Tensor:
        return (values - self.get_buffer(f"{name}_mean")) / self.get_buffer(f"{name}_scale")

    def _set(self, name: str, mean: Tensor, scale: Tensor) -> None:
        self.get_buffer(f"{name}_mean").copy_(mean)
        self.get_buffer(f"{name}_scale").copy_(scale)


def _moments(values: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """A mean as it is, and the deviation from it of each component; 0 where there is nothing but rounding."""
    deviation = (values - mean).square().mean((0, 2))[:, None].sqrt()
    size = values.square().mean((0, 2))[:, None].sqrt()
    return mean, torch.where(deviation > CONSTANT * size, deviation, torch.zeros_like(deviation))


def _on_grid(values: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Channels on a grid: a vector's entries become constants, a field on another grid is interpolated."""
    if values.dim() == 2:
        return values.reshape(*values.shape, *(1 for _ in grid)).expand(-1, -1, *grid)
    if tuple(values.shape[2:]) == grid:
        return values
    for axis, (before, after) in enumerate(zip(values.shape[2:], grid, strict=True), 2):
        # By products: ONNX Runtime does not interpolate in double precision.
        weights = interpolate(torch.eye(before, dtype=values.dtype, device=values.device)[None], after, mode="linear")
        values = (values.transpose(axis, -1) @ weights[0]).transpose(axis, -1)
    return values
