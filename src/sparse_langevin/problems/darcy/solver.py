r"""Darcy flow by mixed finite elements: RT0-P0 on rectangles, hybridised.

    u/kappa + grad p = 0,   div u = f   in the domain,     p = p_D or u.n = g on each side.

Hybridisation breaks the velocity at the edges and adds a multiplier lambda, the pressure on each edge. On a cell with
aspect w_e = |e|/(distance to the opposite edge), eliminating the velocity leaves the outward flux through edge e

    F_e = kappa w_e (6 p - 4 lambda_e - 2 lambda_opposite),

and sum_e F_e = f |cell| gives p. What remains is F_e + F_e' = 0 across each edge: a symmetric positive definite system
for lambda whose sparsity does not depend on kappa, so that its symbolic factorisation is done once. The matrix is
linear in kappa, and its entries are one fixed sparse matrix times the vector of kappa.

In a cell of large kappa a flux is a large number times a small difference, and loses digits. The velocity is therefore
corrected by solving again with the remaining div u - f as the source, until that no longer helps.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import qdldl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sparse_langevin.problems.darcy.errors import mass_residual
from sparse_langevin.problems.darcy.factors import factored
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.vtk import write_vti
from sparse_langevin.runtime.memory import require_memory

Profile = float | ArrayLike | Callable[[Array], ArrayLike]
SIDES = ("left", "right", "bottom", "top")
REFINEMENTS = 4
CELL = 2000  # bytes for each cell, most of them in the factorisation
LOST = 1e-6  # of the mass that could be lost; up to contrasts of 1e12 it is 1e-12, at 1e15 of order one


@dataclass(frozen=True)
class Dirichlet:
    """Pressure on a side: a number, one value per edge (from low to high x or y), or a function of the coordinate."""

    pressure: Profile = 0.0


@dataclass(frozen=True)
class Neumann:
    """Outward normal velocity on a side: a number, one value per edge, or a function of the coordinate."""

    outflow: Profile = 0.0


Condition = Dirichlet | Neumann
PAPER_SIDES: Mapping[str, Condition] = {
    "left": Dirichlet(1.0),
    "right": Dirichlet(0.0),
    "bottom": Neumann(0.0),
    "top": Neumann(0.0),
}


@dataclass(frozen=True)
class Solution:
    """Velocity and pressure on a grid."""

    grid: Grid
    velocity: Array
    """Edge-normal components, shape (edges,); see `grid`."""
    pressure: Array
    """One value per cell, shape (ny, nx)."""
    mass_residual: float
    """Largest |div u - f| over the cells."""

    def centre_velocity(self) -> tuple[Array, Array]:
        """Velocity components at the cells' centres, each of shape (ny, nx)."""
        x, y = self.grid.centre_velocity(self.velocity)
        return x, y

    def write_vti(self, path: str | Path, kappa: ArrayLike | None = None, *, overwrite: bool = False) -> None:
        """Write pressure and velocity at the cells' centres, and kappa if it is given, for ParaView."""
        fields: dict[str, ArrayLike] = {"pressure": self.pressure, "velocity": np.stack(self.centre_velocity())}
        fields = fields if kappa is None else {"permeability": kappa, **fields}
        write_vti(path, self.grid, fields, overwrite=overwrite)


class Solver:
    """Solves the flow for many permeability fields on one grid, with one source and one set of boundary conditions.

    Parameters
    ----------
    grid
        A `Grid`, or (nx, ny) for the unit square.
    source
        The source f: a number, or one value per cell with shape (ny, nx).
    left
        Boundary condition, `Dirichlet` or `Neumann`. The defaults are the paper's: p = 1 on the left, p = 0 on the
        right, no flow through bottom and top. If all sides are `Neumann`, the source must flow out through them, and
        the mean pressure is 0.
    right
        The same for the right side.
    bottom, top
        The same for these sides.

    Examples
    --------
    >>> solver = Solver((8, 8), source=0.0)
    >>> bool(abs(solver.solve(np.ones((8, 8))).velocity[:72] - 1).max() < 1e-12)
    True
    """

    def __init__(
        self,
        grid: Grid | tuple[int, int],
        *,
        source: float | ArrayLike = 1.0,
        left: Condition = PAPER_SIDES["left"],
        right: Condition = PAPER_SIDES["right"],
        bottom: Condition = PAPER_SIDES["bottom"],
        top: Condition = PAPER_SIDES["top"],
    ) -> None:
        self.grid = grid if isinstance(grid, Grid) else Grid(*grid)
        require_memory(CELL * self.grid.cells, f"a grid of {self.grid.nx} by {self.grid.ny} cells", "use fewer cells")
        self.source = _field(source, self.grid, "source")
        self._edges = self.grid.cell_edges()
        # From the flux out of a cell to its share in the edge's velocity: the sign, divided by the edge's length and by
        # the number of cells at the edge.
        length = np.array([self.grid.hy, self.grid.hy, self.grid.hx, self.grid.hx])
        self._to_velocity = np.array([-1.0, 1.0, -1.0, 1.0]) / (length * np.bincount(self._edges.ravel())[self._edges])
        self._fixed = np.zeros(self.grid.edges, dtype=bool)  # where lambda is known
        self._lambda = np.zeros(self.grid.edges)
        self._outflow = np.zeros(self.grid.edges)
        self._neumann = np.zeros(self.grid.edges, dtype=bool)
        self._orientation, self._length = np.zeros(self.grid.edges), np.ones(self.grid.edges)
        for side, condition in zip(SIDES, (left, right, bottom, top), strict=True):
            self._apply(side, condition)
        self._pure_neumann = not self._fixed.any()
        if self._pure_neumann:
            self._require_compatible()
            self._fixed[0] = True  # pressure is known up to a constant: one multiplier is fixed, the mean removed later
        self._aspect, self._stiffness, self._condensed = _reference_cell(self.grid)
        self._free = np.flatnonzero(~self._fixed)
        self._matrix, self._assembly = self._symbolic()
        self._factor: qdldl.Solver | None = None

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what comes out is checked
    def solve(self, kappa: ArrayLike) -> Solution:
        """Solve for one permeability field of shape (ny, nx); raise if double precision is not enough."""
        field = check_permeability(kappa, self.grid)
        k = field.reshape(-1, 1)
        if len(self._free):
            self._matrix.data = self._assembly @ k[:, 0]
            self._factor = factored(self._factor, self._matrix)
        cell = self.grid.hx * self.grid.hy
        velocity, pressure = self._velocity(k, self.source.reshape(-1, 1) * cell, self._lambda, self._outflow, 2)
        residual = self.source - self.grid.divergence(velocity)
        worst = float(np.abs(residual).max())
        rounding = 4 * np.finfo(float).eps * float(np.abs(velocity).max()) / min(self.grid.hx, self.grid.hy)
        for _ in range(REFINEMENTS):
            if worst <= rounding:  # div u cannot be computed more precisely
                break
            zero = np.zeros(self.grid.edges)
            change, _ = self._velocity(k, residual.reshape(-1, 1) * cell, zero, zero, 1)
            better = self.source - self.grid.divergence(velocity + change)
            if not np.abs(better).max() < worst / 2:
                break
            velocity, residual, worst = velocity + change, better, float(np.abs(better).max())
        if self._pure_neumann:
            pressure -= pressure.mean()
        solution = Solution(self.grid, velocity, pressure, float(mass_residual(self.grid, velocity, self.source)))
        self._require_solved(field, solution)
        return solution

    def _require_solved(self, kappa: Array, found: Solution) -> None:
        """Raise if double precision was not enough: numbers overflowed, or mass was lost."""
        scale = np.abs(found.velocity).max() / min(self.grid.hx, self.grid.hy) + np.abs(self.source).max()
        if np.isfinite(found.pressure).all() and found.mass_residual <= LOST * scale:  # false if anything is nan
            return
        raise ValueError(
            f"the flow cannot be solved in double precision: |div u - f| is up to {found.mass_residual:.3g}, and kappa "
            f"goes from {kappa.min():.3g} to {kappa.max():.3g}. Use a contrast of at most about 1e12, and other units"
        )

    def solve_many(self, kappas: Iterable[ArrayLike]) -> Iterator[Solution]:
        """Solve for one field after the other; an error names the field."""
        for index, kappa in enumerate(kappas):
            try:
                yield self.solve(kappa)
            except ValueError as error:
                raise ValueError(f"sample {index}: {error}") from error

    def _velocity(self, k: Array, source: Array, known: Array, outflow: Array, solves: int) -> tuple[Array, Array]:
        """Velocity and pressure for source integrals per cell, known multipliers and outward boundary fluxes.

        Every solve after the first is a step of iterative refinement.
        """
        aspect, total = self._aspect, 12 * self._aspect[::2].sum()
        multiplier = known.copy()
        for _ in range(solves if len(self._free) else 0):
            # Outward fluxes at the present multipliers, with p eliminated; a change of the free ones balances them.
            flux = 6 * aspect * source / total - k * (multiplier[self._edges] @ self._condensed)
            balance = np.bincount(self._edges.ravel(), flux.ravel(), minlength=self.grid.edges) - outflow
            if self._pure_neumann:  # rounding errors are spread over all edges, instead of falling on the fixed one
                balance -= balance.mean()
            assert self._factor is not None
            multiplier[self._free] += self._factor.solve(balance[self._free])
        around = multiplier[self._edges]
        pressure = (source / k + 6 * (around @ aspect)[:, None]) / total
        flux = k * (6 * aspect * pressure - around @ self._stiffness)
        return self._single_valued(flux, outflow), pressure.reshape(self.grid.shape)

    def _single_valued(self, flux: Array, outflow: Array) -> Array:
        """Mean of the two fluxes at each edge, as a velocity; exactly the given one on Neumann sides."""
        shares = (flux * self._to_velocity).ravel()
        velocity = np.asarray(np.bincount(self._edges.ravel(), shares, minlength=self.grid.edges), dtype=float)
        given = self._neumann
        velocity[given] = self._orientation[given] * outflow[given] / self._length[given]
        return velocity

    def _apply(self, side: str, condition: Condition) -> None:
        """Set the boundary condition of one side."""
        edges, coordinate, width, orientation = side_edges(self.grid, side)
        if isinstance(condition, Dirichlet):
            self._fixed[edges] = True
            self._lambda[edges] = _profile(condition.pressure, coordinate, width, side)
        elif isinstance(condition, Neumann):
            self._neumann[edges] = True
            self._orientation[edges], self._length[edges] = orientation, width
            self._outflow[edges] = _profile(condition.outflow, coordinate, width, side) * width
        else:
            raise TypeError(f"side {side!r} must be Dirichlet(...) or Neumann(...), got {condition!r}")

    def _require_compatible(self) -> None:
        """Raise if, without any Dirichlet side, the source does not flow out through the sides."""
        made = float(self.source.sum()) * self.grid.hx * self.grid.hy
        leaves = float(self._outflow.sum())
        size = float(np.abs(self.source).sum()) * self.grid.hx * self.grid.hy + float(np.abs(self._outflow).sum())
        if abs(made - leaves) > 1e-10 * max(size, 1e-300):
            raise ValueError(
                f"all sides are Neumann, but the source is {made:g} in total and the outflow {leaves:g}: the two must "
                "be equal, or one side must be Dirichlet"
            )

    def _symbolic(self) -> tuple[sparse.csc_matrix, sparse.csr_matrix]:
        """Pattern of the matrix (upper triangle), and the sparse map from kappa to its entries."""
        number = np.full(self.grid.edges, -1)
        number[self._free] = np.arange(len(self._free))
        rows = number[np.repeat(self._edges, 4, axis=1).ravel()]
        columns = number[np.tile(self._edges, (1, 4)).ravel()]
        values = np.tile(self._condensed.ravel(), self.grid.cells)
        cells = np.repeat(np.arange(self.grid.cells), 16)
        keep = (rows >= 0) & (columns >= 0) & (rows <= columns)
        rows, columns, values, cells = rows[keep], columns[keep], values[keep], cells[keep]
        size = len(self._free)
        keys, entry = np.unique(columns.astype(np.int64) * max(size, 1) + rows, return_inverse=True)
        pointers = np.searchsorted(keys, np.arange(size + 1) * max(size, 1))
        pattern = sparse.csc_matrix((np.ones(len(keys)), keys % max(size, 1), pointers), shape=(size, size))
        return pattern, sparse.csr_matrix((values, (entry, cells)), shape=(len(keys), self.grid.cells))


def solve(kappa: ArrayLike, *, lengths: tuple[float, float] = (1.0, 1.0), **problem: Any) -> Solution:
    """Solve for one field (ny, nx) on a grid with sides of these lengths.

    ``problem`` are keywords of `Solver`: the source and the boundary conditions, the paper's unless given.

    Examples
    --------
    >>> solution = solve(np.ones((10, 20)))
    >>> solution.mass_residual < 1e-12
    True
    """
    shape = np.shape(kappa)
    if len(shape) != 2:
        raise ValueError(f"kappa must have shape (ny, nx), got {shape}")
    return Solver(Grid(shape[1], shape[0], *lengths), **problem).solve(kappa)


def _reference_cell(grid: Grid) -> tuple[Array, Array, Array]:
    """Aspects w, the matrix from multipliers to fluxes, and the same with the pressure eliminated."""
    a, b = grid.hy / grid.hx, grid.hx / grid.hy
    aspect = np.array([a, a, b, b])
    stiffness = np.diag(4 * aspect)
    stiffness[0, 1] = stiffness[1, 0] = 2 * a
    stiffness[2, 3] = stiffness[3, 2] = 2 * b
    return aspect, stiffness, stiffness - 36 * np.outer(aspect, aspect) / (12 * (a + b))


def side_edges(grid: Grid, side: str) -> tuple[NDArray[np.integer[Any]], Array, float, float]:
    """Edges of a side, the coordinate of their midpoints, their length and the sign of their outward normal."""
    rows, columns = np.arange(grid.ny), np.arange(grid.nx)
    edges = {
        "left": rows * (grid.nx + 1),
        "right": rows * (grid.nx + 1) + grid.nx,
        "bottom": grid.x_edges + columns,
        "top": grid.x_edges + grid.ny * grid.nx + columns,
    }[side]
    width = grid.hy if side in ("left", "right") else grid.hx
    midpoints: Array = (np.arange(len(edges), dtype=float) + 0.5) * width
    return edges, midpoints, width, 1.0 if side in ("right", "top") else -1.0


def _profile(value: Profile, coordinate: Array, width: float, side: str) -> Array:
    """Mean over each edge of what was given for a side."""
    if callable(value):
        nodes, weights = np.polynomial.legendre.leggauss(3)
        points = coordinate[:, None] + 0.5 * width * nodes
        data = np.broadcast_to(np.asarray(value(points), dtype=float), points.shape) @ weights / 2
    else:
        data = np.asarray(value, dtype=float)
    if data.shape not in ((), coordinate.shape):
        raise ValueError(
            f"side {side!r} needs one number, or {len(coordinate)} values, one per edge; got shape {data.shape}"
        )
    if not np.isfinite(data).all():
        raise ValueError(f"the values on side {side!r} are not finite")
    return np.broadcast_to(data, coordinate.shape).copy()


def _field(value: float | ArrayLike, grid: Grid, name: str) -> Array:
    data = np.asarray(value, dtype=float)
    if data.shape not in ((), grid.shape):
        raise ValueError(f"{name} must be a number or have shape {grid.shape}, got {data.shape}")
    if not np.isfinite(data).all():
        raise ValueError(f"{name} is not finite")
    return np.broadcast_to(data, grid.shape).copy()


def check_permeabilities(kappa: Iterable[ArrayLike], grid: Grid, first: int = 0) -> None:
    """Raise if a field does not fit the grid or is not positive; the error counts them from ``first`` on."""
    for index, field in enumerate(kappa, first):
        try:
            check_permeability(field, grid)
        except ValueError as error:
            raise ValueError(f"sample {index}: {error}") from error


def check_permeability(kappa: ArrayLike, grid: Grid) -> Array:
    """Return one permeability field as an array, or raise if it does not fit the grid or is not positive."""
    field = np.asarray(kappa, dtype=float)
    if field.shape != grid.shape:
        raise ValueError(f"kappa must have shape (ny, nx) = {grid.shape}, got {field.shape}")
    bad = ~(np.isfinite(field) & (field > 0))
    if bad.any():
        j, i = np.argwhere(bad)[0]
        raise ValueError(
            f"kappa must be positive and finite, but kappa[{j}, {i}] = {field[j, i]:g} (invalid cells: "
            f"{int(bad.sum())} of {field.size})"
        )
    return field
