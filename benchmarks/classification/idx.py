"""IDX files, the format of MNIST: a magic number, sizes, and then bytes. Nothing in a file is believed unchecked.

Such a file has two zero bytes, the type of its numbers (8: unsigned bytes), the number of dimensions, each dimension as
four bytes with the highest first, and then the numbers, row by row.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

UNSIGNED_BYTES = 8
LARGEST = 2**28  # bytes; the largest file of Fashion-MNIST has 47 million


def read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes, which may be gzipped.

    A ValueError says what is wrong with a file that is not such an array, whole and with nothing after it.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            return _read(file, path, dimensions)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}): get it again") from error


def _read(file: IO[bytes], path: Path, dimensions: int) -> NDArray[np.uint8]:
    magic, wanted = file.read(4), bytes([0, 0, UNSIGNED_BYTES, dimensions])
    if magic != wanted:
        raise ValueError(
            f"{path} begins with {magic.hex() or 'nothing'}, but an IDX file of bytes with {dimensions} dimensions "
            f"begins with {wanted.hex()}: give the original file"
        )
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise ValueError(f"{path} ends within its header: get it again")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
    count = math.prod(shape)
    if not 0 < count <= LARGEST:
        raise ValueError(f"{path} declares the shape {shape}, but 1 to {LARGEST} bytes are accepted: get it again")
    data = file.read(count + 1)
    if len(data) != count:
        seen = f"only {len(data)}" if len(data) < count else "more"
        raise ValueError(f"{path} declares the shape {shape}, which needs {count} bytes, but has {seen}: get it again")
    return np.frombuffer(data, np.uint8).reshape(shape)
