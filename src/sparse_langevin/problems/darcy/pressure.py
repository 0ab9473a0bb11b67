r"""The pressure that belongs to a velocity, by least squares in Darcy's law.

Tested with the RT0 function of each edge that is not closed, Darcy's law u/kappa + grad p = 0 reads

    (M u)_e - (G^T p)_e + (boundary pressure through e) = 0,

with M the mass matrix weighted by 1/kappa and (G^T p)_e = |e| (p_before - p_behind): one equation for each open edge,
one unknown for each cell. A velocity of the mixed method satisfies all of them, and gives back its own pressure.
"""

import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import factorized

from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.solver import Dirichlet, side_edges


@functools.lru_cache(maxsize=4)
def pressure_solver(grid: Grid, flow: Flow) -> Callable[[Array, Array], Array]:
    """The function that gives the pressure for (kappa, velocity); exact for an exact velocity.

    If no side has a given pressure, one more equation says that the mean pressure is zero.
    """
    cells = grid.cell_edges()
    length = np.concatenate([np.full(grid.x_edges, grid.hy), np.full(grid.edges - grid.x_edges, grid.hx)])
    signs = np.tile([-1.0, 1.0, -1.0, 1.0], (grid.cells, 1))
    rows = np.repeat(np.arange(grid.cells), 4)
    divergence = sparse.csr_matrix((signs.ravel(), (rows, cells.ravel())), (grid.cells, grid.edges)).multiply(length)
    known, is_open = np.zeros(grid.edges), np.ones(grid.edges, dtype=bool)
    conditions = flow.conditions()
    for side, condition in conditions.items():
        edges, _, width, outward = side_edges(grid, side)
        if isinstance(condition, Dirichlet):
            known[edges] = outward * width * float(condition.pressure)  # type: ignore[arg-type]
        else:
            is_open[edges] = False
    matrix = sparse.csr_matrix(divergence)[:, np.flatnonzero(is_open)]
    pure = not any(isinstance(c, Dirichlet) for c in conditions.values())
    if pure:
        matrix = sparse.csr_matrix(sparse.hstack([matrix, np.ones((grid.cells, 1))]))
    solve = factorized((matrix @ matrix.T).tocsc())

    def pressure(kappa: Array, velocity: Array) -> Array:
        right_side = (_weighted_mass(grid, cells, kappa, velocity) + known)[is_open]
        if pure:
            right_side = np.append(right_side, 0.0)
        found: Array = solve(matrix @ right_side).reshape(grid.shape)
        return found

    return pressure


def _weighted_mass(grid: Grid, cells: NDArray[np.int64], kappa: Array, velocity: Array) -> Array:
    """M u: on a cell, |cell|/(6 kappa) (2 u_e + u_opposite)."""
    around = velocity[cells]
    opposite = around[:, [1, 0, 3, 2]]
    parts = grid.hx * grid.hy / 6 / kappa.reshape(-1, 1) * (2 * around + opposite)
    total: Array = np.bincount(cells.ravel(), parts.ravel(), minlength=grid.edges).astype(float)
    return total
