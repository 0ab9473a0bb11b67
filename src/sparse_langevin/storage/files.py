"""Files that are never half-written, synchronised to disk and renamed into place; folders for one process at a time."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".writing-"  # prefix of what a crash may leave behind


class StorageError(RuntimeError):
    """A folder of ours cannot be used: a file is damaged or missing, the disk is full, another process works there."""


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: whoever reads it sees the old or the new contents, also when the disk is full."""
    temporary = path.with_name(TEMPORARY + path.name)
    try:
        write_synced(temporary, data)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    sync_folder(path.parent)


def write_new(path: Path, data: bytes, *, overwrite: bool = False) -> None:
    """Write a whole file for a user, who has to say so if one that exists is to be replaced."""
    require_new(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


def require_new(path: Path, *, overwrite: bool = False) -> None:
    """Raise if there is a file that nobody has asked to replace."""
    if path.is_dir() or (path.exists() and not overwrite):
        raise FileExistsError(
            errno.EEXIST,
            "it exists: choose another name, or say that it may be replaced (--force, overwrite=True)",
            str(path),
        )


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if it is not there, for this process."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"another process is running in {folder}: wait for it, or choose another folder"
            ) from error
        yield
    finally:
        os.close(descriptor)


def sha256(data: bytes) -> str:
    """SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
