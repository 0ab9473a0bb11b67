"""Darcy flow: random permeability fields, a verified mixed finite element solver, error measures, data sets."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparse_langevin.problems.darcy.channels import Channels, ImageCrops, read_facies
from sparse_langevin.problems.darcy.datasets import DarcyData, generate
from sparse_langevin.problems.darcy.errors import e1, e2, energy, mass_residual, pressure_error
from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.kle import KLE
from sparse_langevin.problems.darcy.pictures import sample_figure
from sparse_langevin.problems.darcy.problem import DarcyProblem
from sparse_langevin.problems.darcy.recipes import Recipe
from sparse_langevin.problems.darcy.solver import Dirichlet, Neumann, Solution, Solver, solve
from sparse_langevin.problems.darcy.vtk import write_vti
from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.problems.darcy.codec import Normalisation
    from sparse_langevin.problems.darcy.network import DarcyEncoderDecoder, EncoderDecoder
    from sparse_langevin.problems.darcy.tensors import DarcyDataset

__all__ = [
    "KLE",
    "Channels",
    "DarcyData",
    "DarcyDataset",
    "DarcyEncoderDecoder",
    "DarcyProblem",
    "Dirichlet",
    "EncoderDecoder",
    "Flow",
    "Grid",
    "ImageCrops",
    "Neumann",
    "Normalisation",
    "Recipe",
    "Solution",
    "Solver",
    "e1",
    "e2",
    "energy",
    "generate",
    "mass_residual",
    "pressure_error",
    "read_facies",
    "sample_figure",
    "solve",
    "write_vti",
]


def open_data(folder: Path) -> DarcyData:
    """Open the data set in a folder."""
    return DarcyData(folder)


def from_json(body: Mapping[str, Any]) -> DarcyProblem:
    """The problem that `DarcyProblem.as_json` described."""
    return DarcyProblem(Grid(**body["grid"]), Flow.from_json(body))


__getattr__, __dir__ = lazily(
    __name__,
    {
        "codec": ("Normalisation",),
        "network": ("DarcyEncoderDecoder", "EncoderDecoder"),
        "tensors": ("DarcyDataset",),
    },
)
