"""Records in files of JSON lines with checksums; what is recorded is not run again."""

import importlib.metadata
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparse_langevin.storage.files import write_atomically
from sparse_langevin.storage.lines import read_lines, write_line

Record = dict[str, Any]
PACKAGES = ("sparse-langevin", "torch", "numpy", "numba", "posteriors", "scikit-learn")


class Records:
    """The records in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: list[Record] = read_lines(path, remedy="Restore it, or remove the damaged lines")

    def find(self, key: Record) -> Record | None:
        """Return the record that has all entries of a key."""
        return next((r for r in self.all if all(name in r and r[name] == key[name] for name in key)), None)

    def known(self, key: Record, make: Callable[[], Record]) -> Record:
        """Return the record with this key; make and write it if there is none."""
        found = self.find(key)
        if found is not None:
            return found
        record: Record = json.loads(json.dumps(key | make() | {"versions": versions()}))
        self.all.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, b"".join(map(write_line, self.all)))
        return record


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
