"""Files that are never half-written, synchronised to disk and renamed into place; folders for one process at a time.

What differs between operating systems stands here and nowhere else.
"""

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, ClassVar
from weakref import WeakValueDictionary, finalize

from sparse_langevin.storage.errors import LockedError

TEMPORARY = ".writing-"  # prefix of what a crash may leave behind
LOCK = f"{TEMPORARY}lock"  # where a folder itself cannot be locked


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk; it is locked until then."""
    with synced(path) as file:
        file.write(data)


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written; it is locked until it is on disk."""
    with open(path, "wb") as file:
        _mark_as_written(file.fileno())
        yield file
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: whoever reads it sees the old or the new contents, also when the disk is full."""
    with replacing(path) as temporary:
        write_synced(temporary, data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Name of a file to be written and synchronised, which then takes the place of another one as a whole."""
    # A name of its own: a process that was thought dead does not write into the same file.
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(4)}-{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException as error:  # a signal, too
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, overwrite: bool = False) -> None:
    """Write a whole file for a user, who has to say so if one that exists is to be replaced."""
    make_way(path, overwrite=overwrite)
    write_atomically(path, data)


def make_way(path: Path, *, overwrite: bool = False) -> None:
    """Before a user's file is written, look whether it may be, and remove what earlier tries have left."""
    require_new(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f"{TEMPORARY}*-{glob.escape(path.name)}"):  # of a process that was killed
        with suppress(OSError), open(leftover, "rb") as file:
            _mark_as_written(file.fileno())  # fails if somebody is writing it
            leftover.unlink()


def require_new(path: Path, *, overwrite: bool = False) -> None:
    """Raise if there is a file that nobody has asked to replace."""
    if path.is_dir() or (path.exists() and not overwrite):
        raise FileExistsError(
            errno.EEXIST,
            "it exists: choose another name, or say that it may be replaced (--force, overwrite=True)",
            str(path),
        )


def require_regular(path: Path) -> None:
    """Raise if something is there that is no file: a pipe or a device could be read for ever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a file", str(path))


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk; Windows, which cannot open a folder, sees to it by itself."""
    if sys.platform != "win32":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, for this process, and remove what a crash left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = _lock(folder)
    try:
        sweep(folder)
        yield
    finally:
        os.close(descriptor)


class Hold:
    """A folder that all of this process hold together, until the last of them has let go of it."""

    _all: ClassVar[WeakValueDictionary[Path, "Hold"]] = WeakValueDictionary()
    _guard: ClassVar[Lock] = Lock()

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        finalize(self, os.close, _lock(folder))

    @classmethod
    def of(cls, folder: Path) -> "Hold":
        """The hold on a folder, which is made if it is not there; a `LockedError` if another process has it."""
        with cls._guard:
            place = Path(os.path.realpath(folder))
            return cls._all.get(place) or cls._all.setdefault(place, cls(folder))


def sweep(folder: Path) -> None:
    """Remove what a crash left in a folder; only for the process that holds it, or a folder around it."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name != LOCK:
            leftover.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder that has a final name, which means that it is complete, also while it goes."""
    doomed = folder.with_name(f"{TEMPORARY}{folder.name}-removed")
    os.rename(folder, doomed)
    shutil.rmtree(doomed)


def canonical(value: Any) -> bytes:
    """The one way to write a value as JSON, for digests and comparisons."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sha256(data: bytes) -> str:
    """SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file, which need not fit into memory."""
    require_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _lock(folder: Path) -> int:
    """Lock a folder until the descriptor that is returned is closed, or the process ends."""
    descriptor = os.open(folder, os.O_RDONLY) if sys.platform != "win32" else os.open(folder / LOCK, os.O_CREAT)
    try:
        _lock_descriptor(descriptor)
    except (BlockingIOError, PermissionError) as error:  # the latter is what msvcrt raises
        os.close(descriptor)
        raise LockedError(f"another process is running in {folder}: wait for it, or choose another folder") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _mark_as_written(descriptor: int) -> None:
    """Lock a file that is being written; on Windows, which removes no file that is open, it needs no mark."""
    if sys.platform != "win32":
        _lock_descriptor(descriptor)


def _lock_descriptor(descriptor: int) -> None:
    """Lock an open file or folder until it is closed; an OSError if it is locked."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
