r"""The codec of arrays: physical units to numbers of order one, and back.

Each component c of the inputs (a channel of a field, an entry of a vector), or its logarithm, has one mean and one
deviation. Outputs have a mean for each number and a deviation for each component,

    encoded_{cp} = (y_{cp} - low_{cp} - mean_{cp}) / std_c,

where ``low``, the output of a cheaper simulator, is zero if there is none. The squared error of encoded outputs is that
of the outputs, up to a factor for each component.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from sparse_langevin.surrogates.codec import Codec

if TYPE_CHECKING:
    from sparse_langevin.problems.arrays.problem import ArraysProblem

CONSTANT = 1e-12  # a deviation that is smaller, relative to the size of the values, is rounding
TINY = 1e-6  # scale of a constant output, relative to its value


class ArraysCodec(Codec):
    """The codec of an `ArraysProblem`, which changes nothing until it is fitted or loaded from a file."""

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
        # A constant needs a scale, too: positive, and so small that noise does not hide the constant.
        size = torch.where(mean.abs().amax(1, keepdim=True) > 0, mean.abs().amax(1, keepdim=True), deviation.max())
        spare = torch.where(size > 0, TINY * size, torch.ones_like(size))
        self._set("output", mean, torch.where(deviation > 0, deviation, spare))

    def encode(self, inputs: Tensor) -> Tensor:
        """Input of the network, in the shape `layouts.seen_shape`."""
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
        """Target of the network, flat."""
        low = self.offset(inputs)
        wanted = outputs if low is None else outputs - low
        return self._standard("output", wanted.reshape(-1, *self.get_buffer("output_mean").shape)).flatten(1)

    def decode(self, normalised: Tensor) -> Tensor:
        """Outputs in physical units, without those of the low fidelity."""
        mean, scale = self.get_buffer("output_mean"), self.get_buffer("output_scale")
        return (normalised.reshape(-1, *mean.shape) * scale + mean).reshape(-1, *self.problem.output_shape)

    def offset(self, inputs: Tensor) -> Tensor | None:
        """Outputs of the low fidelity; None if there is none."""
        if not self.problem.low:
            return None
        return inputs[:, self.problem.input.size :].reshape(-1, *self.problem.output_shape)

    @property
    def noise_scale(self) -> Tensor:
        """Standard deviation of each component of the outputs, in the shape of an output."""
        mean, scale = self.get_buffer("output_mean"), self.get_buffer("output_scale")
        return scale.expand_as(mean).reshape(self.problem.output_shape)

    def remarks(self) -> dict[str, str]:
        """What is done to inputs and outputs besides standardising them."""
        problem = self.problem
        logs = [problem.input.name(i, "input") for i, log in enumerate(problem.logs) if log]
        found = {"logarithms": f"of {', '.join(logs)}"} if logs else {}
        return found | ({"low fidelity": "seen by the network, which learns the difference"} if problem.low else {})

    def _parts(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Inputs (n, components, points), with their logarithms taken, and the low fidelity."""
        x, problem = inputs, self.problem
        low = None
        if problem.low:
            x, low = inputs[:, : problem.input.size], inputs[:, problem.input.size :]
            low = low.reshape(-1, problem.output.components, problem.output.points)
        x = x.reshape(-1, problem.input.components, problem.input.points)
        if any(problem.logs):
            logs = self.get_buffer("logs")
            positive = torch.where(logs, x, torch.ones_like(x))  # avoids nan, also in derivatives, where none is taken
            x = torch.where(logs, positive.log(), x)
        return x, low

    def _standard(self, name: str, values: Tensor) -> Tensor:
        return (values - self.get_buffer(f"{name}_mean")) / self.get_buffer(f"{name}_scale")

    def _set(self, name: str, mean: Tensor, scale: Tensor) -> None:
        self.get_buffer(f"{name}_mean").copy_(mean)
        self.get_buffer(f"{name}_scale").copy_(scale)


def _moments(values: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """The mean, and the deviation of each component from it; 0 if that is only rounding."""
    deviation = (values - mean).square().mean((0, 2))[:, None].sqrt()
    size = values.square().mean((0, 2))[:, None].sqrt()
    return mean, torch.where(deviation > CONSTANT * size, deviation, torch.zeros_like(deviation))


def _on_grid(values: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Bring channels to a grid: entries of a vector become constants, a field on another grid is interpolated."""
    if values.dim() == 2:
        return values.reshape(*values.shape, *(1 for _ in grid)).expand(-1, -1, *grid)
    if tuple(values.shape[2:]) == grid:
        return values
    for axis, (before, after) in enumerate(zip(values.shape[2:], grid, strict=True), 2):
        # By matrix products, because ONNX Runtime does not interpolate in double precision.
        weights = interpolate(torch.eye(before, dtype=values.dtype, device=values.device)[None], after, mode="linear")
        values = (values.transpose(axis, -1) @ weights[0]).transpose(axis, -1)
    return values
