"""Darcy flow: random permeability fields, a verified mixed finite element solver, error measures, data sets."""

from typing import TYPE_CHECKING

from sparse_langevin.problems.darcy.channels import Channels, ImageCrops, read_facies
from sparse_langevin.problems.darcy.datasets import DarcyData, generate
from sparse_langevin.problems.darcy.errors import e1, e2, energy, mass_residual, pressure_error
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.kle import KLE
from sparse_langevin.problems.darcy.pictures import sample_figure
from sparse_langevin.problems.darcy.recipes import Recipe
from sparse_langevin.problems.darcy.solver import Dirichlet, Neumann, Solution, Solver, solve
from sparse_langevin.problems.darcy.vtk import write_vti
from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.problems.darcy.network import DarcyEncoderDecoder, EncoderDecoder, Surrogate
    from sparse_langevin.problems.darcy.tensors import DarcyDataset, Normalisation

__all__ = [
    "KLE",
    "Channels",
    "DarcyData",
    "DarcyDataset",
    "DarcyEncoderDecoder",
    "Dirichlet",
    "EncoderDecoder",
    "Grid",
    "ImageCrops",
    "Neumann",
    "Normalisation",
    "Recipe",
    "Solution",
    "Solver",
    "Surrogate",
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

__getattr__, __dir__ = lazily(
    __name__,
    {
        "network": ("DarcyEncoderDecoder", "EncoderDecoder", "Surrogate"),
        "tensors": ("DarcyDataset", "Normalisation"),
    },
)
