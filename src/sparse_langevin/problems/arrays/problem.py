r"""Any simulator as a problem for surrogates: its inputs and outputs, errors, and pictures.

With s_c the root mean square of component c (a channel, or an entry of a vector) of the training outputs, d_c its
deviation from the training mean and P the number of points of a component, the errors of a prediction y of t are

    relative_l2 = sqrt(sum_c |y_c - t_c|^2 / s_c^2) / sqrt(sum_c |t_c|^2 / s_c^2),
    rmse        = sqrt(mean_c |y_c - t_c|^2 / (P d_c^2)).

For a field with one channel the first is |y - t| / |t|; with more components their units do not matter. If t is smaller
than 1 % of the training outputs' root mean square, the error is relative to that root mean square. The mean over
examples of rmse squared is 1 - R2, the share of the training outputs' variance that is not explained; it is 1 for the
training mean.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_langevin.problems.arrays.layouts import Variable, seen_shape
from sparse_langevin.problems.arrays.pictures import example_figure
from sparse_langevin.problems.arrays.sources import Source
from sparse_langevin.problems.vtk import write_fields
from sparse_langevin.storage.foreign import Sliced
from sparse_langevin.surrogates.problem import Array, Baseline, DataSet, Errors, Inputs, Measure, Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from sparse_langevin.problems.arrays.codec import ArraysCodec

FEW = 32  # a field with fewer points is treated as a vector
SMALL = 0.01  # size of a small output, relative to the training outputs' root mean square
RELATIVE = Measure(
    "relative_l2",
    "relative L2 error %",
    "the error of a prediction divided by the size of the true output, each component in units of its root mean square "
    "in the training part (a true output below 1 % of that counts as 1 in these units)",
    100.0,
)
RMSE = Measure(
    "rmse",
    "RMSE / std",
    "the root mean square error in units of each component's standard deviation in the training part; the mean of its "
    "square over the examples is 1 - R2",
)


class ArraysProblem:
    """The map from a simulator's inputs to its outputs.

    Parameters
    ----------
    input, output
        Shape and meaning of the inputs and outputs.
    low
        Whether the outputs of a cheaper simulator follow the inputs.
    logs
        For each component of the inputs, whether its logarithm is taken; for none unless given.
    rms, std
        Root mean square and deviation of each component of the training outputs; 1 unless given.
    title
        Title in reports and messages.
    """

    def __init__(
        self,
        input: Variable,
        output: Variable,
        *,
        low: bool = False,
        logs: tuple[bool, ...] = (),
        rms: tuple[float, ...] = (),
        std: tuple[float, ...] = (),
        title: str = "Surrogate of a simulator",
    ) -> None:
        self.name, self.output_name, self.title = "arrays", "outputs", title
        self.input, self.output, self.low = input, output, low
        self.logs = logs or (False,) * input.components
        self.rms, self.std = (values or (1.0,) * output.components for values in (rms, std))
        self.input_shape = (input.size + output.size,) if low else input.shape
        self.output_shape = output.shape
        self.seen_shape = seen_shape(input, output, low)
        self.measures = (RELATIVE, RMSE)
        self.baselines_version = 1

    @property
    def networks(self) -> "Mapping[str, Callable[..., nn.Module]]":
        """The networks in `networks`, by name."""
        from sparse_langevin.problems.arrays.networks import NETWORKS

        return NETWORKS

    @property
    def default_network(self) -> str:
        """The network for these shapes of inputs and outputs; curves from vectors need no convolutions."""
        seen, answered = self.seen_shape[1:], self.output.grid
        if not (seen or answered) or any(grid and math.prod(grid) < FEW for grid in (seen, answered)):
            return "mlp"
        if not seen:
            return "mlp" if len(answered) == 1 else "decoder"
        if not answered:
            return "encoder"
        return "unet" if len(seen) == len(answered) else "encoder-decoder"

    def build(self, network: "Callable[..., nn.Module]", options: Mapping[str, Any]) -> "nn.Module":
        """Call a network's class with the problem, which has ``seen_shape`` and ``output_shape``, and its options."""
        return network(self, **options)

    def identity(self) -> dict[str, Any]:
        """Shape and meaning of inputs and outputs, without the scales of one data set."""
        return {"problem": self.name, "input": self.input.as_json(), "output": self.output.as_json(), "low": self.low}

    def as_json(self) -> dict[str, Any]:
        """Everything that `from_json` needs."""
        described = {"input": self.input.as_json(), "output": self.output.as_json(), "low": self.low}
        scales = {"logs": list(self.logs), "rms": list(self.rms), "std": list(self.std)}
        return {"problem": self.name, "title": self.title} | described | scales

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "ArraysProblem":
        """The problem that `as_json` described."""
        x, y = (Variable.from_json(body[name]) for name in ("input", "output"))
        logs, rms, std = (tuple(body[name]) for name in ("logs", "rms", "std"))
        for name, found, components in (
            ("logs", logs, x.components),
            ("rms", rms, y.components),
            ("std", std, y.components),
        ):
            if len(found) != components:
                raise ValueError(f"{name} has {len(found)} entries for {components} components")
        return cls(x, y, low=body["low"], logs=logs, rms=rms, std=std, title=body["title"])

    def codec(self) -> "ArraysCodec":
        """A new codec, to be fitted or loaded from a file."""
        from sparse_langevin.problems.arrays.codec import ArraysCodec

        return ArraysCodec(self)

    def check(self, inputs: Array, first: int = 0) -> None:
        """Raise if inputs have another shape, are not finite, or not positive where logarithms are taken.

        They are counted from ``first`` on.
        """
        if inputs.shape[1:] != self.input_shape:
            hint = f", {self.input.size} inputs followed by {self.output.size} low-fidelity outputs"
            raise ValueError(
                f"inputs must have shape (n, {', '.join(map(str, self.input_shape))}){hint * self.low}, got "
                f"{inputs.shape}"
            )
        flat = inputs.reshape(len(inputs), -1)
        bad = ~np.isfinite(flat)
        if any(self.logs):
            positive = np.repeat(self.logs, self.input.points)
            bad[:, : self.input.size] |= positive & (flat[:, : self.input.size] <= 0)
        if bad.any():
            example, place = (int(i) for i in np.argwhere(bad)[0])
            index = tuple(int(i) for i in np.unravel_index(place, self.input_shape))
            value = flat[example, place]
            wanted = "positive, because its logarithm is taken" if np.isfinite(value) else "finite"
            raise ValueError(
                f"example {first + example}: the input at index {index} is {value:g}, but must be {wanted}"
            )

    def errors(self, predicted: Array, true: Array, inputs: Array) -> Errors:
        """Errors of predicted outputs, by measure."""
        y, t = self.output.parts(predicted), self.output.parts(true)
        rms, std = np.array(self.rms), np.array(self.std)
        rms = np.where(rms > 0, rms, rms.max() or 1.0)
        std = np.where(std > 1e-12 * rms, std, rms)  # a constant component is measured by its size
        apart, size = np.square(y - t).sum(2), np.sqrt((np.square(t).sum(2) / rms**2).sum(1))
        usual = np.sqrt(self.output.size)
        relative = np.sqrt((apart / rms**2).sum(1)) / np.where(size > SMALL * usual, size, usual)
        return {"relative_l2": relative, "rmse": np.sqrt((apart / (self.output.points * std**2)).mean(1))}

    def r2(self, predicted: Array, true: Array) -> dict[str, float]:
        """Share of the variance over examples that is explained, for each component of the outputs.

        The variance is around the mean of ``true``, point by point; a component that does not vary is left out.
        """
        y, t = self.output.parts(predicted), self.output.parts(true)
        apart, spread = np.square(y - t).sum((0, 2)), np.square(t - t.mean(0)).sum((0, 2))
        varies = spread > 1e-24 * np.square(t).sum((0, 2))
        names = [self.output.name(i, "output") for i in range(self.output.components)]
        return {names[i]: float(1 - apart[i] / spread[i]) for i in np.flatnonzero(varies)}

    def baselines(self, data: DataSet, split: Split) -> list[Baseline]:
        """The training mean, two ridge regressions, and the low fidelity if there is one."""
        from sparse_langevin.problems.arrays.baselines import rivals

        return rivals(self, data, split)

    def figure(self, inputs: Array, true: Array | None, predicted: Array, std: Array | None) -> "Figure":
        """Draw maps, curves or points of one example, depending on the layout of the outputs."""
        return example_figure(self, inputs, true, predicted, std)

    def note(self, data: DataSet) -> str:
        """Numbers of examples, and shapes of inputs and outputs."""
        trained, tested = (len(data.inputs(part)) for part in ("train", "test"))
        low = " The network sees the outputs of a cheaper simulator, and learns the difference." * self.low
        return f"{trained} examples to train and {tested} to test; inputs: {self.input}; outputs: {self.output}.{low}"

    def read_inputs(self, path: Path) -> Inputs:
        """Read inputs to predict for from .npy, .npz or HDF5, as they are used.

        A low fidelity is read from the same file.
        """
        parts = [self._opened("inputs", self.input, path)]
        if self.low and parts[0].shape[1:] != self.input_shape:
            parts.append(self._opened("low", self.output, path))
            if len(parts[1]) != len(parts[0]):
                raise ValueError(f"{path} has {len(parts[0])} inputs and {len(parts[1])} low-fidelity outputs")

        def read(start: int, stop: int) -> Array:
            pieces = [part[start:stop] for part in parts]
            if len(pieces) > 1:
                pieces = [piece.reshape(len(piece), math.prod(piece.shape[1:])) for piece in pieces]
            found = np.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]
            self.check(found, start)
            return found

        return Sliced((len(parts[0]), *(self.input_shape if len(parts) > 1 else parts[0].shape[1:])), read)

    def extras(self, inputs: Array, outputs: Array) -> dict[str, Array]:
        """No further arrays, as nothing is known about the simulator."""
        return {}

    def write_vti(self, path: Path, inputs: Array, outputs: Mapping[str, Array], *, overwrite: bool) -> None:
        """Write fields over a rectangle or a box as VTK image data, with the inputs if they have the same grid."""
        if len(self.output.grid) < 2:
            raise ValueError(
                f"VTK image data need fields in two or three directions, but the outputs are {self.output}"
            )
        given = {name: (self.output, values) for name, values in outputs.items()}
        if self.input.grid == self.output.grid:
            given |= {"input": (self.input, np.ravel(inputs)[: self.input.size])}
        fields = {
            f"{name} {variable.name(i, '').strip()}".strip(): channel
            for name, (variable, values) in given.items()
            for i, channel in enumerate(variable.channels(values))
        }
        write_fields(path, self.output.grid, fields, overwrite=overwrite)

    def _opened(self, label: str, variable: Variable, path: Path) -> Inputs:
        """An array of a user's file with the examples in front, read as it is sliced if that is possible."""
        source = Source.of(path, label)
        shape, _ = source.shape()
        like = self._examples(np.broadcast_to(0.0, shape), variable, path)
        if not source.sliceable or len(like) != shape[0]:
            return self._examples(source.read(), variable, path)
        return Sliced(like.shape, lambda start, stop: self._examples(source.rows(start, stop), variable, path))

    def _examples(self, array: Array, variable: Variable, path: Path) -> Array:
        """An array with the examples in front, also if it is a single example."""
        if array.shape == variable.shape and array.shape[1:] != variable.shape:
            return array[None]
        if variable.shape == (1,) and array.ndim == 1:
            return array[:, None]
        flat = self.low and array.shape[1:] == self.input_shape
        if array.shape[1:] != variable.shape and not flat:
            wanted = ", ".join(map(str, variable.shape))
            raise ValueError(f"{path} must hold an array of shape (n, {wanted}), got {array.shape}")
        return array


from_json = ArraysProblem.from_json
