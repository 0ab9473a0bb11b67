"""Records that people can read, as JSON with a checksum as its last entry; and tables of them that grow line by line.

{"step": 100, "loss": 0.52, "crc": 2774326981}

A line counts when its end is there; what follows the last line end is being written, or was when a process died.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import require_regular


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with its checksum; it must have an entry, and none called ``crc``."""
    return {**record, "crc": _checksum(record)}


def unsealed(record: Any) -> dict[str, Any]:
    """A record that was sealed, without its checksum; a ValueError says what is wrong with it."""
    try:
        rest = dict(record)
        if rest.pop("crc") != _checksum(rest):
            raise ValueError("it does not match its checksum")
        return rest
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError("it has no checksum" if isinstance(error, KeyError) else str(error)) from error


def write_line(record: Mapping[str, Any]) -> bytes:
    """One record, sealed, as a line."""
    return f"{json.dumps(sealed(record))}\n".encode()


def read_lines(path: Path, length: int | None = None, remedy: str = "Restore it") -> list[dict[str, Any]]:
    """The records in a file, none if it is not there; or in its first bytes, which must be whole lines."""
    require_regular(path)
    data = path.read_bytes()[:length] if path.exists() else b""
    *lines, rest = data.split(b"\n")
    if length is not None and rest:
        raise DamagedError(path, f"line {len(lines) + 1}: its end is missing", remedy)
    try:
        return [_read(number, line) for number, line in enumerate(lines, 1)]
    except ValueError as error:
        raise DamagedError(path, str(error), remedy) from error


def _read(number: int, line: bytes) -> dict[str, Any]:
    try:
        return unsealed(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number}: {error}") from error


def _checksum(record: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(record).encode())
