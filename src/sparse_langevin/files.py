"""Files that are never half-written: synchronised to disk, then renamed into place."""

import hashlib
import os
from pathlib import Path

TEMPORARY = ".writing-"  # prefix of what a crash may leave behind


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: whoever reads it sees the old or the new contents."""
    temporary = path.with_name(TEMPORARY + path.name)
    write_synced(temporary, data)
    os.replace(temporary, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(data: bytes) -> str:
    """SHA-256 of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
