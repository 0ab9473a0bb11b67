"""The interface between problems and everything that is done with their surrogates.

A problem knows the shapes of its inputs and outputs, how they become numbers of order one and back (`Codec`), how
errors are measured, what can be predicted without a network (baselines), how to draw a prediction, and which inputs are
valid. A data set belongs to a problem and is a folder. Nothing in `surrogates` depends on a particular problem: a
problem is a folder ``sparse_langevin.problems.NAME``, or a module that another package offers under the entry point
group ``sparse_langevin.problems``, with two functions:

    open_data(folder) -> DataSet              the data set in a folder whose manifest names the problem
    from_json(body)   -> Problem              the problem that ``Problem.as_json`` described

All arrays are NumPy's and have the examples in front: inputs (n, *input_shape), outputs (n, *output_shape).
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.storage.artefact import Artefact, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from sparse_langevin.surrogates.codec import Codec

Array = NDArray[np.float64]
Split = Literal["train", "test"]
Errors = dict[str, Array]
"""Errors by the name of the measure, one number per example."""
GROUP = "sparse_langevin.problems"
DATA_SET = Kind(
    *("data set", 2, "'generate' or 'import'"),
    "Delete the file, and run the same command again to remake it; or make the data set again in another folder",
    ("numpy",),
)


class Measure(NamedTuple):
    """A measure of error."""

    name: str
    """Name in files and on the command line, such as ``e1``."""
    label: str
    """Label in tables and on axes, with the unit, such as ``e1 %``."""
    text: str
    """Explanation, which completes a sentence that begins with "NAME is"."""
    factor: float = 1.0
    """Factor from the number to what is shown: 100 for percent."""


class Baseline(NamedTuple):
    """A rival that needs no network: its name, an explanation, and its mean error by measure."""

    name: str
    text: str
    errors: dict[str, float]


class Inputs(Protocol):
    """Inputs to predict for, (n, *input_shape): an array, or what reads rows of a file when it is sliced."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of all of them."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Array: ...


class Problem(Protocol):
    """What `surrogates` needs of a problem."""

    @property
    def name(self) -> str:
        """Name of the problem, such as ``darcy``, as runs and data sets record it."""

    @property
    def title(self) -> str:
        """Title in reports and messages, such as ``Darcy flow``."""

    @property
    def output_name(self) -> str:
        """Name of the outputs in the file of a prediction, such as ``velocity``."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Measures of error; the first one is the headline."""

    @property
    def networks(self) -> "Mapping[str, Callable[..., nn.Module]]":
        """The problem's own networks by name, to be made by `build`."""

    @property
    def default_network(self) -> str:
        """Name of the network that is used if none is named."""

    def as_json(self) -> dict[str, Any]:
        """Everything that `from_json` needs, with the problem's name under ``"problem"``."""

    def identity(self) -> dict[str, Any]:
        """What data sets of one network must have in common: shapes and physics, not scales or titles."""

    def build(self, network: "Callable[..., nn.Module]", options: Mapping[str, Any]) -> "nn.Module":
        """Call the class of a network, the problem's own or a user's, with what it needs to know and its options.

        A network maps the result of `Codec.encode` to one number for each output, in any shape.
        """

    def codec(self) -> "Codec":
        """A new codec for this problem, to be fitted or loaded from a file."""

    def check(self, inputs: Array) -> None:
        """Raise a ValueError that names the example and the value if these are not valid inputs."""

    def errors(self, predicted: Array, true: Array, inputs: Array) -> Errors:
        """Errors of predicted outputs, by measure."""

    @property
    def baselines_version(self) -> int:
        """Version of `baselines`: raise it with every change of their names, texts or errors.

        Rivals are kept in the folder of a data set, and those of another version are computed again.
        """

    def baselines(self, data: "DataSet", split: Split) -> list[Baseline]:
        """Rivals that know only the training part, with their errors on one part."""

    def figure(self, inputs: Array, true: Array | None, predicted: Array, std: Array | None) -> "Figure":
        """Draw one example: input, prediction, truth and error if known, standard deviation if there is one."""

    def note(self, data: "DataSet") -> str:
        """A sentence or two for a report about where the data come from; empty if there is nothing to say."""

    def read_inputs(self, path: Path) -> Inputs:
        """Read inputs to predict for from a user's file.

        They are sliced twice, some hundred at a time and from first to last. An array will do; of a file with more
        inputs than fit into memory, return something that reads and checks them as it is sliced, such as
        `storage.foreign.Sliced`.
        """

    def extras(self, inputs: Array, outputs: Array) -> dict[str, Array]:
        """Further arrays for the file of a prediction that follow from the predicted outputs, by name.

        Called with some of the inputs and their outputs at a time; all arrays have the examples in front.
        """

    def write_vti(self, path: Path, inputs: Array, outputs: Mapping[str, Array], *, overwrite: bool) -> None:
        """Write one example and its outputs by name as VTK image data; raise a ValueError if there is no grid."""


@runtime_checkable
class DataSet(Protocol):
    """Examples of a problem in a folder, in two parts."""

    @property
    def folder(self) -> Path:
        """Folder of the data set."""

    @property
    def problem(self) -> Problem:
        """Problem that the data set belongs to."""

    @property
    def fingerprint(self) -> str:
        """Digest of the examples, which identifies them."""

    def inputs(self, split: Split) -> Array:
        """Inputs of one part."""

    def outputs(self, split: Split) -> Array:
        """Outputs of one part."""

    def summary(self) -> dict[str, str]:
        """Names and values that the command ``info`` prints."""

    def verify(self) -> None:
        """Raise if a file is missing or was changed."""


def problem_module(name: str) -> ModuleType:
    """The module of a problem: one of this package, or one that another installed package offers."""
    spec = find_spec(f"{GROUP}.{name}") if name.isidentifier() else None
    if spec is not None and spec.submodule_search_locations is not None:  # a folder
        return import_module(f"{GROUP}.{name}")
    for entry in entry_points(group=GROUP, name=name):
        found: ModuleType = entry.load()
        return found
    raise ValueError(
        f"there is no problem {name!r} in this version of sparse-langevin: install the package that offers it"
    )


def open_data(folder: str | Path) -> DataSet:
    """Open the finished data set in a folder, whatever its problem."""
    folder = Path(folder)
    old = (folder / "recipe.json").exists()  # before data sets named their problem, all were Darcy's
    if old:
        module = problem_module("darcy")
    else:
        with (artefact := Artefact.open(folder, DATA_SET, finished=True)).understood():
            module = problem_module(artefact.body.get("problem", "darcy"))
    found: DataSet = module.open_data(folder)
    return found


def problem_from_json(body: Mapping[str, Any]) -> Problem:
    """The problem that `Problem.as_json` described."""
    found: Problem = problem_module(body["problem"]).from_json(body)
    return found
