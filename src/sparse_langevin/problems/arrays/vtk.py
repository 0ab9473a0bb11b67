"""Fields over a rectangle or a box as VTK image data (.vti), for ParaView and its kin."""

import base64
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from sparse_langevin.storage.files import write_new
from sparse_langevin.surrogates.problem import Array


def write_vti(path: str | Path, grid: tuple[int, ...], cells: Mapping[str, Array], *, overwrite: bool = False) -> None:
    """Write scalar fields, each of the grid's shape (ny, nx) or (nz, ny, nx), over cells of size one.

    Parameters
    ----------
    path
        A name that ends in .vti.
    grid
        Cells in each direction, the slowest first.
    cells
        The fields by name.
    overwrite
        Replace a file that exists.
    """
    path = Path(path)
    if path.suffix != ".vti":
        raise ValueError(f"VTK image data go to a file that ends in .vti, got {path}")
    nx, ny, nz = (*reversed(grid), 0)[:3]  # a rectangle has no cells in z
    extent = f"0 {nx} 0 {ny} 0 {nz}"
    lines = [
        '<?xml version="1.0"?>',
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian" header_type="UInt64">',
        f'<ImageData WholeExtent="{extent}" Origin="0 0 0" Spacing="1 1 1">',
        f'<Piece Extent="{extent}"><CellData>',
        *(_data_array(name, np.asarray(field).reshape(grid)) for name, field in cells.items()),
        "</CellData></Piece></ImageData></VTKFile>",
    ]
    write_new(path, "\n".join(lines).encode(), overwrite=overwrite)


def _data_array(name: str, field: Array) -> str:
    data = field.astype("<f8").tobytes()
    text = base64.b64encode(np.uint64(len(data)).astype("<u8").tobytes() + data).decode()
    return f'<DataArray type="Float64" Name={quoteattr(name)} NumberOfComponents="1" format="binary">{text}</DataArray>'
