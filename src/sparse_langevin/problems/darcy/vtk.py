"""Fields on a grid as VTK image data (.vti), for ParaView and its kin."""

import base64
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.storage.files import write_new


def write_vti(path: str | Path, grid: Grid, cells: Mapping[str, ArrayLike], *, overwrite: bool = False) -> None:
    """Write fields over cells: scalars of shape (ny, nx), or vectors of shape (2, ny, nx).

    Parameters
    ----------
    path
        A name that ends in .vti.
    grid
        Where the fields live.
    cells
        The fields by name.
    overwrite
        Replace a file that exists.
    """
    path = Path(path)
    if path.suffix != ".vti":
        raise ValueError(f"VTK image data go to a file that ends in .vti, got {path}")
    extent = f"0 {grid.nx} 0 {grid.ny} 0 0"
    lines = [
        '<?xml version="1.0"?>',
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
        f'<ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="{grid.hx!r} {grid.hy!r} 1">',
        f'<Piece Extent="{extent}"><CellData>',
        *(_data_array(grid, name, np.asarray(field, dtype="<f8")) for name, field in cells.items()),
        "</CellData></Piece></ImageData></VTKFile>",
    ]
    write_new(path, "\n".join(lines).encode(), overwrite=overwrite)


def _data_array(grid: Grid, name: str, field: np.ndarray) -> str:
    if field.shape not in (grid.shape, (2, *grid.shape)):
        raise ValueError(f"{name} must have shape {grid.shape} or {(2, *grid.shape)}, got {field.shape}")
    components = 1
    if field.ndim == 3:  # VTK's vectors have three components, together for each cell
        components = 3
        field = np.stack([*field, np.zeros(grid.shape)], axis=-1)
    data = field.astype("<f8").tobytes()
    text = base64.b64encode(np.uint64(len(data)).astype("<u8").tobytes() + data).decode()
    return (
        f'<DataArray type="Float64" Name="{name}" NumberOfComponents="{components}" format="binary">{text}</DataArray>'
    )
