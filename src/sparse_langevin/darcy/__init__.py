"""Darcy flow: a verified mixed finite element solver and its error measures."""

from sparse_langevin.darcy.errors import e1, e2, energy, mass_residual, pressure_error
from sparse_langevin.darcy.grid import Grid
from sparse_langevin.darcy.solver import Dirichlet, Neumann, Solution, Solver, solve

__all__ = [
    "Dirichlet",
    "Grid",
    "Neumann",
    "Solution",
    "Solver",
    "e1",
    "e2",
    "energy",
    "mass_residual",
    "pressure_error",
    "solve",
]
