r"""Error measures of velocities and pressures, through the RT0 mass matrix.

    e1 = |u - v|_L2 / |v|_L2,      |u|_L2^2     = int |u|^2
    e2 = |u - v|_k / |v|_k,        |u|_k^2      = int |u|^2 / kappa

An RT0 velocity is linear in x between the two x-edges of a cell, and in y between its y-edges, so the integral over a
cell is |cell| (l^2 + l r + r^2 + b^2 + b t + t^2)/3. All functions take NumPy arrays or torch tensors, with any number
of leading batch dimensions.
"""

from typing import Any

from sparse_langevin.problems.darcy.grid import Grid


def energy(grid: Grid, velocity: Any, kappa: Any = None) -> Any:
    """Squared L2 norm of velocities (..., edges); weighted by 1/kappa (..., ny, nx) if it is given."""
    x, y = grid.split(velocity)
    left, right, bottom, top = x[..., :-1], x[..., 1:], y[..., :-1, :], y[..., 1:, :]
    density = left * left + left * right + right * right + bottom * bottom + bottom * top + top * top
    if kappa is not None:
        if tuple(kappa.shape[-2:]) != grid.shape:
            raise ValueError(f"kappa must have shape (..., {grid.ny}, {grid.nx}), got {tuple(kappa.shape)}")
        density = density / kappa
    return density.sum((-2, -1)) * (grid.hx * grid.hy / 3)


def e1(grid: Grid, predicted: Any, true: Any) -> Any:
    """Relative L2 error of velocities, one number per sample."""
    return (energy(grid, predicted - true) / energy(grid, true)) ** 0.5


def e2(grid: Grid, predicted: Any, true: Any, kappa: Any) -> Any:
    """Relative error of velocities in the norm weighted by 1/kappa, one number per sample."""
    return (energy(grid, predicted - true, kappa) / energy(grid, true, kappa)) ** 0.5


def pressure_error(predicted: Any, true: Any) -> Any:
    """Relative L2 error of pressures (..., ny, nx), one number per sample."""
    difference = predicted - true
    return ((difference * difference).sum((-2, -1)) / (true * true).sum((-2, -1))) ** 0.5


def mass_residual(grid: Grid, velocity: Any, source: Any = 1.0) -> Any:
    """Largest |div u - f| over the cells, one number per sample; zero for an exact discrete velocity."""
    residual = abs(grid.divergence(velocity) - source)
    largest = residual.amax if hasattr(residual, "amax") else residual.max  # torch's, NumPy's
    return largest((-2, -1))
