r"""Rectangular grids, and the numbering that all of `darcy` shares.

A grid of nx by ny cells covers [0, lx] x [0, ly]. Arrays over cells have shape (ny, nx): ``kappa[j, i]`` belongs to the
cell at x_i, y_j. A velocity is one flat vector of edge-normal components: the x-edges (ny, nx + 1) row by row, then the
y-edges (ny + 1, nx); positive means in the direction of growing x or y.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """A grid of ``nx`` by ``ny`` cells on [0, lx] x [0, ly].

    Examples
    --------
    >>> Grid(50, 50).edges
    5100
    """

    nx: int
    ny: int
    lx: float = 1.0
    ly: float = 1.0

    def __post_init__(self) -> None:
        if self.nx < 1 or self.ny < 1 or int(self.nx) != self.nx or int(self.ny) != self.ny:
            raise ValueError(f"a grid needs at least one cell in each direction, got nx={self.nx!r}, ny={self.ny!r}")
        if not (0 < self.lx < np.inf and 0 < self.ly < np.inf):
            raise ValueError(f"the sides of a grid must be positive, got lx={self.lx!r}, ly={self.ly!r}")

    @property
    def hx(self) -> float:
        """Width of a cell."""
        return self.lx / self.nx

    @property
    def hy(self) -> float:
        """Height of a cell."""
        return self.ly / self.ny

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an array over cells."""
        return self.ny, self.nx

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.nx * self.ny

    @property
    def x_edges(self) -> int:
        """Number of edges whose normal points along x; they come first in a velocity."""
        return self.ny * (self.nx + 1)

    @property
    def edges(self) -> int:
        """Number of edges, which is the length of a velocity."""
        return self.x_edges + (self.ny + 1) * self.nx

    def centres(self) -> tuple[Array, Array]:
        """Coordinates x and y of the cells' centres, each of shape (ny, nx)."""
        x = (np.arange(self.nx) + 0.5) * self.hx
        y = (np.arange(self.ny) + 0.5) * self.hy
        grid_x, grid_y = np.meshgrid(x, y)
        return grid_x, grid_y

    def cell_edges(self) -> NDArray[np.int64]:
        """Left, right, bottom and top edge of each cell, shape (cells, 4)."""
        j, i = np.divmod(np.arange(self.cells), self.nx)
        left = j * (self.nx + 1) + i
        bottom = self.x_edges + j * self.nx + i
        return np.stack([left, left + 1, bottom, bottom + self.nx], axis=1)

    def split(self, velocity: Any) -> tuple[Any, Any]:
        """Split velocities (..., edges) into x-edges (..., ny, nx + 1) and y-edges (..., ny + 1, nx), without copying.

        Works on NumPy arrays and torch tensors.
        """
        if velocity.shape[-1] != self.edges:
            raise ValueError(
                f"a velocity on a {self.nx} by {self.ny} grid has {self.edges} edges, got shape {tuple(velocity.shape)}"
            )
        batch = velocity.shape[:-1]
        x = velocity[..., : self.x_edges].reshape(*batch, self.ny, self.nx + 1)
        y = velocity[..., self.x_edges :].reshape(*batch, self.ny + 1, self.nx)
        return x, y

    def centre_velocity(self, velocity: Any) -> tuple[Any, Any]:
        """Velocity components at the cells' centres, each of shape (..., ny, nx)."""
        x, y = self.split(velocity)
        return (x[..., :-1] + x[..., 1:]) / 2, (y[..., :-1, :] + y[..., 1:, :]) / 2

    def divergence(self, velocity: Any) -> Any:
        """Divergence in each cell, shape (..., ny, nx)."""
        x, y = self.split(velocity)
        return (x[..., 1:] - x[..., :-1]) / self.hx + (y[..., 1:, :] - y[..., :-1, :]) / self.hy
