"""Fields over a rectangle or a box as VTK image data (.vti), for ParaView and similar programs."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparse_langevin.storage.files import write_new


def write_fields(
    path: str | Path,
    grid: tuple[int, ...],
    cells: Mapping[str, ArrayLike],
    *,
    spacing: tuple[float, float, float] = (1, 1, 1),
    overwrite: bool = False,
) -> None:
    """Write fields over cells, by name: scalars of the grid's shape, (ny, nx) or (nz, ny, nx), or vectors (2, ny, nx).

    ``spacing`` is the size of a cell in x, y and z; ``overwrite`` says whether an existing file may be replaced.
    """
    path = Path(path)
    if path.suffix != ".vti":
        raise ValueError(f"VTK image data go to a file that ends in .vti, got {path}")
    nx, ny, nz = (*reversed(grid), 0)[:3]  # a rectangle has no cells in z
    extent = f"0 {nx} 0 {ny} 0 {nz}"
    lines = [
        '<?xml version="1.0"?>',
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
        f'<ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="{" ".join(map(str, spacing))}">',
        f'<Piece Extent="{extent}"><CellData>',
        *(_data_array(grid, name, np.asarray(field, dtype="<f8")) for name, field in cells.items()),
        "</CellData></Piece></ImageData></VTKFile>",
    ]
    write_new(path, "\n".join(lines).encode(), overwrite=overwrite)


def _data_array(grid: tuple[int, ...], name: str, field: NDArray[Any]) -> str:
    if field.shape not in (grid, (2, *grid)):
        raise ValueError(f"{name} must have shape {grid} or {(2, *grid)}, got {field.shape}")
    components = 1
    if field.shape != grid:  # a vector in VTK has three components, stored together for each cell
        components = 3
        field = np.stack([*field, np.zeros(grid)], axis=-1)
    data = field.tobytes()
    text = base64.b64encode(np.uint64(len(data)).astype("<u8").tobytes() + data).decode()
    head = f'type="Float64" Name={quoteattr(name)} NumberOfComponents="{components}" format="binary"'
    return f"<DataArray {head}>{text}</DataArray>"
