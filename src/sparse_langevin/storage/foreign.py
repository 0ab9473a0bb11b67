"""Arrays in files that others have made: .npy, .npz and HDF5, opened without trusting them.

Nothing is unpickled. A file that expands far beyond its own size, or declares more than it holds, is refused before any
memory is taken for it. Of an HDF5 file only its own contents are read: links to other files, storage in other files and
virtual data sets would bring bytes that the user did not name.
"""

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparse_langevin.runtime.memory import require_memory

SUFFIXES = (".npy", ".npz", ".h5", ".hdf5")
HARMLESS = 2**28  # bytes that a file may expand to, however small it is
EXPANSION = 200  # times its size that a larger one may expand to; compressed simulations stay far below
DEEPEST = 50  # groups in groups of an HDF5 file
# What readers raise for files that are not what they seem.
_BROKEN = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError, RecursionError, OverflowError, RuntimeError),
    *(MemoryError, zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, tokenize.TokenError),
)


class UnreadableError(ValueError):
    """A user's file cannot be read; the message says which, and why."""


def variables(path: Path) -> list[str]:
    """Names of the arrays in an .npz or HDF5 file; an .npy file has one without a name."""
    with _reading(path):
        if path.suffix.lower() == ".npy":
            return [""]
        if path.suffix.lower() == ".npz":
            with zipfile.ZipFile(path) as archive:
                return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        with _hdf5(path) as file:
            return _datasets(file)


@contextmanager
def opened_array(path: Path, name: str = "") -> Iterator[Any]:
    """An array of a file, as something that has a shape and a type and can be sliced, until it is closed.

    Arrays of .npz files are read as a whole; the others piece by piece, as they are sliced.
    """
    with ExitStack() as stack:
        with _reading(path):
            if path.suffix.lower() == ".npy":
                found = _mapped(path)
            elif path.suffix.lower() == ".npz":
                found = _member(stack.enter_context(zipfile.ZipFile(path)), f"{name}.npy")
            else:
                found = own_dataset(stack.enter_context(_hdf5(path)), name)
        try:
            yield found
        except OSError as error:  # a piece of it cannot be read
            raise UnreadableError(f"{path} cannot be read: {error}") from error


class Sliced:
    """Rows of an array that are read when they are asked for.

    Parameters
    ----------
    shape
        Shape of the whole array.
    read
        Reads the rows from a first one up to another, which is not included.
    """

    def __init__(self, shape: tuple[int, ...], read: Callable[[int, int], NDArray[Any]]) -> None:
        self.shape, self._read = shape, read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise IndexError(f"rows are read one after the other, got a step of {step}")
        return self._read(start, max(start, stop))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


def mapped(path: Path) -> Any:
    """The array of an .npy file, read from disk as it is used; errors name the file."""
    with _reading(path):
        return _mapped(path)


def own_dataset(file: Any, name: str) -> Any:
    """A data set of an open HDF5 file, whose numbers must be in this file."""
    if name not in _datasets(file):
        raise ValueError(f"it has no data set {name!r} of its own; links to other files are not followed")
    found = file[name]
    if found.shape is None:
        raise ValueError(f"{name!r} has a type but no numbers")
    if found.is_virtual or found.external:
        raise ValueError(f"the numbers of {name!r} are in other files, which are not read")
    require_modest(found.nbytes, found.id.get_storage_size())
    return found


def _hdf5(path: Path) -> Any:
    import h5py

    return h5py.File(path, "r")


def _datasets(file: Any) -> list[str]:
    """Data sets that belong to the file: visiting follows no links."""
    import h5py

    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        if name.count("/") >= DEEPEST:  # each of them is looked up from the top
            raise ValueError(f"its groups are nested more than {DEEPEST} deep")
        if isinstance(item, h5py.Dataset):
            found.append(name)

    file.visititems(visit)
    return found


def _mapped(path: Path) -> Any:
    """The array of an .npy file, read from disk as it is used."""
    with open(path, "rb") as stream:
        shape, fortran, dtype = _declared(stream, path.stat().st_size)
        begin = stream.tell()
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype, "r", begin, shape, order) if math.prod(shape) else np.empty(shape, dtype)


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    """An array of an .npz file."""
    about = archive.getinfo(name)
    require_modest(about.file_size, about.compress_size)
    require_memory(about.file_size, "the array", "save it as .npy or HDF5, which are read in pieces")
    with archive.open(about) as stream:
        _declared(stream, about.file_size)
    with archive.open(about) as stream:
        return npy.read_array(stream, allow_pickle=False)


def _declared(stream: IO[bytes], there: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type in the head of an array, which must be in the bytes that are there."""
    version = npy.read_magic(stream)
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the .npy format is not for plain numbers")
    shape, fortran, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    size = math.prod(shape) * dtype.itemsize
    if stream.tell() + size > there:
        raise ValueError(f"it declares an array of {size:,} bytes, and {there - stream.tell():,} are there")
    return shape, fortran, dtype


def require_modest(size: int, stored: int) -> None:
    """Raise a ValueError if so many bytes in a file expand to so many in memory that there must be malice in it."""
    if size > HARMLESS and size > EXPANSION * stored:
        raise ValueError(
            f"it would expand from {stored:,} to {size:,} bytes: if these are real data, save them without compression"
        )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors that name the file."""
    if path.suffix.lower() not in SUFFIXES:
        raise UnreadableError(f"{path} cannot be read: its name must end in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise UnreadableError(f"there is no file {path}")
    try:
        yield
    except _BROKEN as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableError(f"{path} cannot be read: {text}") from error
