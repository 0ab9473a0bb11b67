r"""Conservation of mass: the nearest velocity, in L2, with no divergence and no flow through closed sides.

    minimise |v - u|_L2   subject to   div v = 0,   after u.n has been set to 0 on closed sides.

With M the RT0 mass matrix and G the divergence, v = u - M^-1 G^T (G M^-1 G^T)^-1 G u. On a grid of rectangles M and G
are sums of Kronecker products of matrices along x and along y, so that the eigenvectors of two small matrices solve the
system: a few products with matrices of the size of a side, on any device.

The map is linear. Applied to the difference between a velocity and the mean of the training data, it gives the nearest
velocity with the divergence of that mean; if the true velocity has this divergence, too, the L2 error can only fall.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.solver import SIDES

CLOSED = ("bottom", "top")  # sides of the paper's flow problem


class DivergenceFree(nn.Module):
    """The nearest velocity without divergence.

    Parameters
    ----------
    grid
        The grid of the velocities.
    closed
        Sides without flow, among ``"left"``, ``"right"``, ``"bottom"`` and ``"top"``.
    dtype
        Precision of the matrices, torch's default unless given. A later call of `to` cannot undo their rounding.

    Examples
    --------
    >>> grid = Grid(6, 4)
    >>> velocity = DivergenceFree(grid)(torch.randn(3, grid.edges))
    >>> bool(grid.divergence(velocity).abs().max() < 1e-4)
    True
    """

    def __init__(self, grid: Grid, closed: Sequence[str] = CLOSED, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if unknown := set(closed) - set(SIDES):
            raise ValueError(f"there is no side {sorted(unknown)[0]!r}: choose among {', '.join(SIDES)}")
        self.grid, self._dtype = grid, dtype or torch.get_default_dtype()
        along_x = _axis(grid.nx, grid.hx, grid.hy, "left" in closed, "right" in closed)
        along_y = _axis(grid.ny, grid.hy, grid.hx, "bottom" in closed, "top" in closed)
        self.open_x, self.divergence_x, self.over_mass_x, self.flow_x, self.vectors_x = map(self._fixed, along_x[:-1])
        self.open_y, self.divergence_y, self.over_mass_y, self.flow_y, self.vectors_y = map(self._fixed, along_y[:-1])
        values = along_y[-1][:, None] + along_x[-1]
        values[values <= 1e-10 * values.max()] = np.inf  # the constant pressure, if all sides are closed
        self.inverse = self._fixed(1 / values)

    def _fixed(self, matrix: Array) -> nn.Buffer:
        """A buffer that moves with the module and is not saved, as the grid determines it."""
        return nn.Buffer(torch.from_numpy(matrix).to(self._dtype), persistent=False)

    def forward(self, velocity: Tensor) -> Tensor:
        """Project velocities (..., edges)."""
        x, y = self.grid.split(velocity)
        x, y = x * self.open_x, y * self.open_y[:, None]
        excess = x @ self.divergence_x.T + self.divergence_y @ y
        pressure = self.vectors_y @ ((self.vectors_y.T @ excess @ self.vectors_x) * self.inverse) @ self.vectors_x.T
        x, y = x - pressure @ self.flow_x.T, y - self.flow_y @ pressure
        return torch.cat([x.flatten(-2), y.flatten(-2)], -1)


def first_order(
    grid: Grid, kappa: Tensor, usual_kappa: Tensor, usual_velocity: Tensor, closed: Sequence[str] = CLOSED
) -> Tensor:
    """Velocity (samples, edges) of fields (samples, ny, nx), linearised around a usual permeability and velocity.

    This is the mixed finite element solution to first order in the difference from a constant permeability: the
    permeability times the usual gradient, made to conserve mass again. It needs no training; the mean of a data set
    serves as the usual velocity. ``closed`` are the sides whose flow is given.
    """
    project = DivergenceFree(grid, closed, dtype=kappa.dtype).to(kappa.device)
    excess = (kappa / usual_kappa - 1) * (grid.hx * grid.hy)
    x, y = grid.split(usual_velocity)
    x = _weighted(excess, x) @ project.over_mass_x
    y = (_weighted(excess.mT, y.mT) @ project.over_mass_y).mT
    change: Tensor = project(torch.cat([x.flatten(-2), y.flatten(-2)], -1))
    return usual_velocity + change


def _weighted(cells: Tensor, edges: Tensor) -> Tensor:
    """The mass matrix along the last dimension, with a weight for each cell, times values on the edges."""
    low, high = edges[..., :-1], edges[..., 1:]
    lower, upper = cells * (2 * low + high) / 6, cells * (low + 2 * high) / 6
    return functional.pad(lower, (0, 1)) + functional.pad(upper, (1, 0))


def beside_edges(kappa: Tensor) -> Tensor:
    """Mean over the one or two cells at each edge: (batch, 1, ny, nx) to (batch, edges)."""
    x = functional.pad(kappa, (1, 1, 0, 0), mode="replicate")
    y = functional.pad(kappa, (0, 0, 1, 1), mode="replicate")
    x, y = x[..., :-1] + x[..., 1:], y[..., :-1, :] + y[..., 1:, :]
    return torch.cat([x.flatten(1), y.flatten(1)], 1) / 2


def _axis(cells: int, step: float, across: float, low: bool, high: bool) -> tuple[Array, ...]:
    """Matrices of one direction, whose two ends may be closed.

    These are a mask of the open edges, the divergence G, the inverse of the mass matrix M, the flow M^-1 G^T that a
    pressure drives, and the eigenvectors and eigenvalues of G M^-1 G^T.
    """
    edges = np.ones(cells + 1)
    edges[0], edges[-1] = not low, not high
    divergence = (np.eye(cells, cells + 1, 1) - np.eye(cells, cells + 1)) / step * edges
    shared = np.abs(np.diff(np.eye(cells + 1), axis=0))  # (cells, edges): 1 at the two edges of a cell
    mass = step * across / 6 * (shared.T @ shared + np.diag(shared.sum(0)))
    free = np.ix_(edges > 0, edges > 0)
    over_mass = np.zeros_like(mass)
    over_mass[free] = np.linalg.inv(mass[free])
    flow = over_mass @ divergence.T
    values, vectors = np.linalg.eigh(divergence @ flow)
    return edges, divergence, over_mass, flow, vectors, values
