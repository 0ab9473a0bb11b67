"""Fields on a grid as VTK image data, for ParaView and similar programs."""

from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.vtk import write_fields


def write_vti(path: str | Path, grid: Grid, cells: Mapping[str, ArrayLike], *, overwrite: bool = False) -> None:
    """Write fields over cells: scalars of shape (ny, nx), or vectors of shape (2, ny, nx).

    Parameters
    ----------
    path
        A name that ends in .vti.
    grid
        Grid of the fields.
    cells
        The fields by name.
    overwrite
        Whether an existing file may be replaced.
    """
    write_fields(path, grid.shape, cells, spacing=(grid.hx, grid.hy, 1), overwrite=overwrite)
