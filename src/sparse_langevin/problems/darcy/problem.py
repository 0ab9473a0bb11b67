"""Darcy flow as a problem for surrogates: from the permeability of the cells to the velocity on the edges."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparse_langevin.problems.darcy.errors import e1, e2, mass_residual
from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.imported import open_kappa
from sparse_langevin.problems.darcy.solver import check_permeabilities
from sparse_langevin.problems.darcy.vtk import write_vti
from sparse_langevin.storage.foreign import Sliced
from sparse_langevin.surrogates.problem import Baseline, DataSet, Errors, Inputs, Measure, Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

    from sparse_langevin.problems.darcy.codec import Normalisation

MEAN = "the mean velocity of the training data, whatever the permeability"
FIRST = "the flow problem to first order around the training mean, which needs no network"


@dataclass(frozen=True)
class DarcyProblem:
    """Flow through random permeability fields.

    Parameters
    ----------
    grid
        Grid of the fields.
    flow
        Source and boundary conditions; the paper's unless given.
    """

    grid: Grid
    flow: Flow = field(default_factory=Flow)

    name: ClassVar[str] = "darcy"
    title: ClassVar[str] = "Darcy flow"
    output_name: ClassVar[str] = "velocity"
    default_network: ClassVar[str] = "encoder-decoder"
    baselines_version: ClassVar[int] = 1
    measures: ClassVar = (
        Measure("e1", "e1 %", "the relative L2 error of the velocity", 100.0),
        Measure("e2", "e2 %", "the same, weighted by 1/kappa", 100.0),
        Measure("mass_residual", "mass residual", "the largest |div u - f| over the cells"),
    )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Number of cells in y and in x."""
        return self.grid.shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Number of edges."""
        return (self.grid.edges,)

    @property
    def networks(self) -> "Mapping[str, Callable[..., nn.Module]]":
        """The paper's network, and one with the physics built in."""
        from sparse_langevin.problems.darcy.network import DarcyEncoderDecoder, EncoderDecoder

        conserving = functools.partial(DarcyEncoderDecoder, closed=self.flow.closed)
        return {"encoder-decoder": EncoderDecoder, "darcy-encoder-decoder": conserving}

    def build(self, network: "Callable[..., nn.Module]", options: Mapping[str, Any]) -> "nn.Module":
        """Call a network's class with the grid and its options."""
        return network(self.grid, **options)

    def as_json(self) -> dict[str, Any]:
        """Grid and flow as JSON."""
        return {"problem": self.name, "grid": vars(self.grid)} | self.flow.as_json()

    def identity(self) -> dict[str, Any]:
        """Grid and flow, which data sets of one network must share."""
        return self.as_json()

    def codec(self) -> "Normalisation":
        """The normalisation of permeability and velocity."""
        from sparse_langevin.problems.darcy.codec import Normalisation

        return Normalisation(self.grid.edges)

    def check(self, inputs: Array, first: int = 0) -> None:
        """Raise unless these are positive, finite fields on the grid that single precision can hold.

        They are counted from ``first`` on.
        """
        if inputs.ndim != 3:
            raise ValueError(f"kappa must have shape (fields, ny, nx), got {inputs.shape}")
        check_permeabilities(inputs, self.grid, first)
        if inputs.size and inputs.max() > np.finfo(np.float32).max:
            raise ValueError(f"kappa reaches {inputs.max():g}, more than single precision can hold: choose other units")

    def errors(self, predicted: Array, true: Array, inputs: Array) -> Errors:
        """Errors of each field, by measure."""
        return {
            "e1": e1(self.grid, predicted, true),
            "e2": e2(self.grid, predicted, true, inputs),
            "mass_residual": mass_residual(self.grid, predicted, self.flow.source),
        }

    def baselines(self, data: DataSet, split: Split) -> list[Baseline]:
        """The mean of the training velocities, and the solution to first order."""
        import torch

        from sparse_langevin.problems.darcy.conservation import first_order

        kappa, true = data.inputs(split), data.outputs(split)
        usual_kappa, usual = data.inputs("train").mean(), data.outputs("train").mean(0)
        fields, mean, usual_velocity = (torch.from_numpy(np.asarray(a)) for a in (kappa, usual_kappa, usual))
        linear = first_order(self.grid, fields, mean, usual_velocity, self.flow.closed)
        rivals = (("training mean", MEAN, np.broadcast_to(usual, true.shape)), ("first order", FIRST, linear.numpy()))
        return [
            Baseline(name, text, {m: float(np.mean(e)) for m, e in self.errors(predicted, true, kappa).items()})
            for name, text, predicted in rivals
        ]

    def figure(self, inputs: Array, true: Array | None, predicted: Array, std: Array | None) -> "Figure":
        """Truth, prediction, error and, if there is one, standard deviation, for both components of a velocity."""
        from sparse_langevin.problems.darcy.pictures import prediction_figure

        return prediction_figure(self.grid, inputs, true, predicted, std)

    def note(self, data: DataSet) -> str:
        """A warning if test fields overlap training fields, which makes errors look too small."""
        recipe = getattr(data, "recipe", {})
        overlap = recipe.get("kind") == "image" and recipe["settings"].get("split", "random") == "random"
        return "Test fields are cut at random from the same image as the training fields: they overlap." * overlap

    def read_inputs(self, path: Path) -> Inputs:
        """Read permeabilities from .npy, .npz or HDF5, as they are used."""
        kappa = open_kappa(path)

        def read(start: int, stop: int) -> Array:
            fields = kappa[start:stop]
            self.check(fields, start)
            return fields

        return Sliced(kappa.shape, read)

    def extras(self, inputs: Array, outputs: Array) -> dict[str, Array]:
        """Pressures that belong to predicted velocities."""
        from sparse_langevin.problems.darcy.pressure import pressure_solver

        pressure = pressure_solver(self.grid, self.flow)
        return {"pressure": np.stack([pressure(k, u) for k, u in zip(inputs, outputs, strict=True)])}

    def write_vti(self, path: Path, inputs: Array, outputs: Mapping[str, Array], *, overwrite: bool) -> None:
        """Write permeability, and velocities at the cells' centres, for ParaView."""
        cells: dict[str, Any] = {"permeability": inputs}
        for name, values in outputs.items():
            on_edges = values.shape == self.output_shape
            cells[name] = np.stack(self.grid.centre_velocity(values)) if on_edges else values
        write_vti(path, self.grid, cells, overwrite=overwrite)
