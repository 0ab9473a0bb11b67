"""What all parts of the campaign share."""

import hashlib
from typing import Any, NamedTuple


class Trial(NamedTuple):
    """One attempt to break something."""

    name: str
    """Says all that is needed to do it again."""
    group: str
    """The row of the table that it counts in."""
    facts: tuple[Any, ...] = ()


class Broken(Exception):
    """A promise that was not kept; the message says which."""


def require(holds, words):
    """Insist that a promise was kept."""
    if not holds:
        raise Broken(words)


def contents(folder, without=()):
    """Digests of all files in a folder, by their names; those whose names are in ``without`` are left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in without
    }
