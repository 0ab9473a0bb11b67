"""Darcy flow: random permeability fields, a verified mixed finite element solver, error measures."""

from sparse_langevin.darcy.channels import Channels, ImageCrops, read_facies
from sparse_langevin.darcy.datasets import DarcyData, Recipe, generate
from sparse_langevin.darcy.errors import e1, e2, energy, mass_residual, pressure_error
from sparse_langevin.darcy.grid import Grid
from sparse_langevin.darcy.kle import KLE
from sparse_langevin.darcy.solver import Dirichlet, Neumann, Solution, Solver, solve

__all__ = [
    "KLE",
    "Channels",
    "DarcyData",
    "Dirichlet",
    "Grid",
    "ImageCrops",
    "Neumann",
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
    "solve",
]
