"""Arrays of users, in memory, in .npy, .npz and HDF5 files, or in a folder of such files; read piece by piece.

``FILE:name`` is one variable of an .npz or HDF5 file. The files of a folder are joined along the samples, in the order
of their names. Nothing is unpickled.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.storage.files import canonical, sha256, sha256_of_file
from sparse_langevin.storage.foreign import SUFFIXES, UnreadableError, opened_array, variables

USUAL = {"inputs": ("inputs", "x"), "outputs": ("outputs", "y"), "low": ("low",)}  # default names of variables
PIECE = 1 << 24  # bytes that are read and checked at a time
Given = str | Path | NDArray[Any]


@dataclass(frozen=True)
class Source:
    """An array (samples, ...) that may be spread over several files."""

    label: str
    """What the array is: a key of `USUAL`."""
    parts: tuple[tuple[Path, str] | NDArray[Any], ...]
    """Arrays, or files with the name of a variable, which is empty if none was given."""

    @classmethod
    def of(cls, given: Given, label: str) -> "Source":
        """The source that a user has given."""
        if isinstance(given, np.ndarray):
            return cls(label, (given,))
        path, variable = _split(str(given))
        if not path.exists():
            raise ValueError(f"{label}: there is no file or folder {path}")
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{label}: the folder {path} has no files that end in {', '.join(SUFFIXES)}")
        return cls(label, tuple((file, variable) for file in files))

    def describe(self) -> dict[str, Any]:
        """Name and SHA-256 of the source, which identify it."""
        found = []
        for part in self.parts:
            if isinstance(part, np.ndarray):
                digest = hashlib.sha256(f"{part.dtype.str}{part.shape}".encode())
                digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
                found.append(("array", digest.hexdigest()))
            else:
                path, variable = part
                found.append((f"{path.name}:{variable}" if variable else path.name, sha256_of_file(path)))
        if len(found) == 1:
            return {"name": found[0][0], "sha256": found[0][1]}
        return {"name": f"{len(found)} files", "sha256": sha256(canonical(found))}

    def shape(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape with all samples, and the type to store: single precision stays single, all else becomes double."""
        shapes, types = [], []
        for index, part in enumerate(self.parts):
            with self._open(index) as array:
                if array.dtype.kind not in "fiu":
                    hint = ": turn the real and imaginary parts into channels" if array.dtype.kind == "c" else ""
                    raise ValueError(f"{self._where(part)} must hold real numbers, got {array.dtype}{hint}")
                if array.ndim < 1:
                    raise ValueError(
                        f"{self._where(part)} is a single number: the samples must be the first dimension of an array"
                    )
                shapes.append(tuple(array.shape))
                types.append(np.dtype(np.float32 if array.dtype in (np.float16, np.float32) else np.float64))
            if shapes[-1][1:] != shapes[0][1:]:
                raise ValueError(
                    f"{self._where(part)} has shape {shapes[-1]}, but the files before it have {shapes[0]}"
                )
        return (sum(shape[0] for shape in shapes), *shapes[0][1:]), max(types)

    def pieces(self, samples: int, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        """The first samples, some at a time; an error names the first number that is not finite."""
        done = 0
        for index in range(len(self.parts)):
            with self._open(index) as array:
                row = max(1, dtype.itemsize * int(np.prod(array.shape[1:])))
                step = max(1, PIECE // row)
                for start in range(0, min(len(array), samples - done), step):
                    with np.errstate(over="ignore"):
                        piece = np.ascontiguousarray(array[start : min(start + step, samples - done)], dtype=dtype)
                    self._require_finite(piece, done + start)
                    yield piece
                done += min(len(array), samples - done)

    @property
    def sliceable(self) -> bool:
        """Whether some rows can be read without all others: not from .npz files."""
        return not any(isinstance(part, tuple) and part[0].suffix.lower() == ".npz" for part in self.parts)

    def rows(self, start: int, stop: int) -> NDArray[np.float64]:
        """Read the samples from ``start`` up to ``stop``; an error names the first number that is not finite."""
        found, done = [], 0
        for index, length in enumerate(self._lengths):
            low, high = max(0, start - done), min(length, stop - done)
            if low < high or not index:
                with self._open(index) as array, np.errstate(over="ignore"):
                    found.append(np.array(array[low : max(low, high)], dtype=np.float64))
            done += length
        piece = np.concatenate(found)
        self._require_finite(piece, start)
        return piece

    @cached_property
    def _lengths(self) -> list[int]:
        lengths = []
        for index in range(len(self.parts)):
            with self._open(index) as array:
                lengths.append(len(array))
        return lengths

    def read(self) -> NDArray[np.float64]:
        """Read the whole array."""
        (samples, *shape), _ = self.shape()
        pieces = list(self.pieces(samples, np.dtype(np.float64)))
        return np.concatenate(pieces) if pieces else np.empty((0, *shape))

    def _require_finite(self, piece: NDArray[Any], first: int) -> None:
        if np.isfinite(piece).all():
            return
        sample, *place = (int(i) for i in np.argwhere(~np.isfinite(piece))[0])
        value = piece[(sample, *place)]
        where = f" at index {tuple(place)}" if place else ""
        raise ValueError(
            f"{self.label}, sample {first + sample}: the number{where} is {value}; repair such samples or omit them"
        )

    @contextmanager
    def _open(self, index: int) -> Iterator[Any]:
        """One part as something that can be sliced; it is closed after use, and errors name the file."""
        part = self.parts[index]
        if isinstance(part, np.ndarray):
            yield part
            return
        path, variable = part
        try:
            name = self._choose(path, variable, variables(path))
            with opened_array(path, name) as array:
                yield array
        except UnreadableError as error:
            raise ValueError(f"{self.label}: {error}") from error

    def _choose(self, path: Path, variable: str, there: list[str]) -> str:
        if there == [""]:  # an .npy file
            return ""
        if variable:
            if variable in there:
                return variable
            raise ValueError(f"{self.label}: {path} has no variable {variable!r}; it has {', '.join(there) or 'none'}")
        usual = [name for name in USUAL[self.label] if name in there]
        others = {name for names in USUAL.values() for name in names}
        if usual or (len(there) == 1 and there[0] not in others):
            return (usual or there)[0]
        raise ValueError(
            f"{self.label}: {path} has the variables {', '.join(there) or '(none)'}, and none is called "
            f"{' or '.join(USUAL[self.label])}: name one as {path}:NAME"
        )

    def _where(self, part: tuple[Path, str] | NDArray[Any]) -> str:
        return self.label if isinstance(part, np.ndarray) else f"{self.label} in {part[0]}"


def _split(text: str) -> tuple[Path, str]:
    """File and variable; a colon that belongs to the name of the file, as in C:/, is kept."""
    path, colon, variable = text.rpartition(":")
    if not colon or Path(text).exists() or not Path(path).exists():
        return Path(text), ""
    return Path(path), variable
