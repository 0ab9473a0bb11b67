"""Archives of arrays (.npz) that are written piece by piece, so that memory does not grow with their length."""

import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparse_langevin.storage.files import make_way, replacing, synced

Arrays = Mapping[str, NDArray[Any]]


def write_npz(
    path: Path,
    pieces: Iterable[Arrays],
    *,
    whole: Arrays | None = None,
    second: Collection[str] = (),
    overwrite: bool = False,
) -> None:
    """Write a compressed .npz file; it appears only when it is complete.

    The members of an archive are written one after the other, and the pieces bring a part of each: they wait in files
    without a name beside ``path``, which are gone with the process.

    Parameters
    ----------
    path
        File to write.
    pieces
        Arrays by name, the same names and types in each piece; they are joined along the first dimension.
    whole
        Further arrays, which are complete.
    second
        Names of the arrays that are joined along the second dimension.
    overwrite
        Whether an existing file may be replaced.
    """
    make_way(path, overwrite=overwrite)
    with ExitStack() as stack:
        waiting: dict[str, _Waiting] = {}
        for piece in pieces:
            if not waiting:
                waiting = {name: _Waiting(stack, path, array, second=name in second) for name, array in piece.items()}
            for name, one in waiting.items():
                one.add(piece[name])
            del piece  # before the next one is made
        with (
            replacing(path) as temporary,
            synced(temporary) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for name, array in (whole or {}).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, np.asanyarray(array), allow_pickle=False)
            for name, one in waiting.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    one.write(member)


class _Waiting:
    """An array whose pieces wait in files: one or, if it is joined along the second dimension, one for each row."""

    def __init__(self, stack: ExitStack, path: Path, first: NDArray[Any], *, second: bool) -> None:
        self.path, self.dtype, self.shape, self.axis, self.length = path, first.dtype, first.shape, int(second), 0
        self.files = [stack.enter_context(_nameless(path.parent)) for _ in range(len(first) if second else 1)]

    def add(self, piece: NDArray[Any]) -> None:
        """Add a piece."""
        self.length += piece.shape[self.axis]
        try:
            for file, rows in zip(self.files, piece if self.axis else [piece], strict=True):
                file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        except OSError as error:  # a full disk
            raise OSError(error.errno, os.strerror(error.errno or 0), str(self.path)) from error

    def write(self, member: IO[bytes]) -> None:
        """Write the whole array in the format of .npy files."""
        shape = (*self.shape[: self.axis], self.length, *self.shape[self.axis + 1 :])
        head = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(member, head)
        for file in self.files:
            file.seek(0)
            shutil.copyfileobj(file, member, 1 << 20)


@contextmanager
def _nameless(folder: Path) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile(dir=folder) as file:
        yield file
