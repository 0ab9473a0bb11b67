"""The files of a bank: their names, and the folder or the memory in which they are kept.

sample-CCC-SSSSSSSSS.safetensors   one sample, of chain C and step S
base-CCC-SSSSSSSSS.safetensors     the sample of chain C from which the differences of the others are stored
mask-DIGEST.safetensors            names, shapes, and which parameters are not zero; shared by samples
thinning.safetensors               the distance between samples, once the bank has exceeded its budget
artefact.json                      says that the folder is a bank; banks of earlier versions have none
"""

import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from sparse_langevin.posterior.encoding import DAMAGE, Buffer
from sparse_langevin.storage.artefact import MANIFEST, Artefact, Kind
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import TEMPORARY, Hold, replacing, require_regular, sweep, write_atomically

REMEDY = "Restore it; a sample may also be deleted, and PosteriorBank(skip_damaged=True) leaves out those that need it"
BANK = Kind(
    *("bank", 1, "a PosteriorBank", "Restore it, or delete it: samples have checksums of their own"), ("torch", "numpy")
)
SUFFIX = ".safetensors"
THINNING = f"thinning{SUFFIX}"
_MASK = re.compile(r"mask-([0-9a-f]{64})\.safetensors")
_PLACE = re.compile(r"(sample|base)-(\d{3,})-(\d{9,})\.safetensors")


class Place(NamedTuple):
    """Chain and step of a sample."""

    chain: int
    step: int

    def name(self, kind: str) -> str:
        """Return the name of the sample's file; ``kind`` is ``sample`` or ``base``."""
        return f"{kind}-{self.chain:03d}-{self.step:09d}{SUFFIX}"


class Store(Protocol):
    """Named files that can be read, written as a whole, and removed."""

    def where(self, name: str) -> str:
        """Return the name of a file for a message."""

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by name."""

    def has(self, name: str) -> bool:
        """Whether there is such a file."""

    def read(self, name: str) -> Buffer:
        """Return the bytes of a file."""

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file as a whole."""

    def adopt(self, name: str, other: "Store") -> None:
        """Write or replace a file with that of another store."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def own(self) -> None:
        """Keep other processes from writing from now on."""

    def sweep(self) -> None:
        """Remove what a crash left behind."""


class MemoryStore:
    """Files in a dictionary."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def where(self, name: str) -> str:
        """Return the name of a file for a message."""
        return name

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by name."""
        return {name: len(data) for name, data in self._files.items()}

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._files

    def read(self, name: str) -> Buffer:
        """Return the bytes of a file."""
        return self._files[name]

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file."""
        self._files[name] = data

    def adopt(self, name: str, other: Store) -> None:
        """Write or replace a file with that of another store."""
        self.write(name, bytes(other.read(name)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.pop(name, None)

    def own(self) -> None:
        """Do nothing: no other process can write."""

    def sweep(self) -> None:
        """Do nothing: a crash leaves nothing behind in memory."""


class FolderStore:
    """Files in a folder, mapped into memory when they are read; the folder is locked from the first change on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hold: Hold | None = None
        if (folder / MANIFEST).exists():
            Artefact.open(folder, BANK)

    def where(self, name: str) -> str:
        """Return the name of a file for a message."""
        return str(self.folder / name)

    def sizes(self) -> dict[str, int]:
        """Return the size of each file in bytes, by name."""
        found = self.folder.glob(f"*{SUFFIX}")
        return {path.name: path.stat().st_size for path in found if not path.name.startswith(TEMPORARY)}

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.folder / name).exists()

    def read(self, name: str) -> Buffer:
        """Return the bytes of a file, which are read from disk when they are used."""
        require_regular(self.folder / name)
        with open(self.folder / name, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file as a whole; a full disk leaves the other files as they were."""
        try:
            self.own()
            write_atomically(self.folder / name, data)
        except OSError as error:
            text = f"{error.strerror}; earlier samples are intact: free space, or use PosteriorBank(budget=...)"
            raise OSError(error.errno, text, str(self.folder / name)) from error

    def adopt(self, name: str, other: Store) -> None:
        """Write or replace a file with that of another store; files on the same disk share their space."""
        source, target = Path(other.where(name)), self.folder / name
        self.own()
        if target.exists() and source.exists() and target.samefile(source):
            return
        try:
            with replacing(target) as temporary:
                os.link(source, temporary)  # safe, as no file is ever changed in place
        except OSError:
            self.write(name, bytes(other.read(name)))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self.own()
        (self.folder / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a crash left behind."""
        self.own()
        sweep(self.folder)

    def own(self) -> None:
        """Lock the folder for the banks of this process, and record in it that it is a bank."""
        if self._hold is None:
            self._hold = Hold.of(self.folder)
            Artefact.claim(self.folder, BANK, shared=True)


def places(names: Iterable[str], kind: str, chain: int | None = None) -> list[Place]:
    """Return chain and step of the samples or bases among the names, in order; of one chain if ``chain`` is given."""
    matches = (_PLACE.fullmatch(name) for name in names)
    found = [Place(int(m[2]), int(m[3])) for m in matches if m and m[1] == kind]
    return sorted(place for place in found if chain in (None, place.chain))


def mask_name(digest: str) -> str:
    """Return the file name of a mask."""
    return f"mask-{digest}{SUFFIX}"


def digests(names: Iterable[str]) -> list[str]:
    """Return the digests of all masks among the names."""
    return sorted(m[1] for m in map(_MASK.fullmatch, names) if m)


@contextmanager
def blaming(store: Store, name: str) -> Iterator[None]:
    """Turn errors from reading a file's contents into a `DamagedError` that names the file."""
    try:
        yield
    except DAMAGE as error:
        if not store.has(name):
            raise DamagedError(store.where(name), "it is missing", REMEDY) from error
        reason = str(error) if type(error) is ValueError else f"its header cannot be read ({error!r})"
        raise DamagedError(store.where(name), reason, REMEDY) from error
