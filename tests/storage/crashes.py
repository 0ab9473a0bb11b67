"""Crashes and interruptions at every disk operation, in this process."""

import os
import shutil

import pytest

from sparse_langevin.storage import artefact, files


class Crash(BaseException):
    """The machine goes down, or a signal comes; no ``except OSError`` sees it."""


def crash_everywhere(action, check, *, dead=True):
    """Do ``action`` again and again, with a crash at the first, second, ... operation, and ``check`` after each.

    After a crash no operation works, so nothing can be cleaned up; without ``dead`` it is an interruption, after which
    all of them do. Returns the number of crashes; after the last the action has run to its end.
    """
    crashes = 0
    while _crashes(action, crashes + 1, dead):
        crashes += 1
        check()
    check()
    return crashes


def _crashes(action, n, dead):
    left = [n]

    def tick():
        left[0] -= 1
        if left[0] == 0 or (dead and left[0] < 0):
            raise Crash

    def wrapped(original):
        def dying(*args, **kwargs):
            tick()
            result = original(*args, **kwargs)
            tick()
            return result

        return dying

    def torn(path, data):
        if left[0] == 1:
            path.write_bytes(data[: len(data) // 2])
        tick()
        whole(path, data)

    whole = files.write_synced
    with pytest.MonkeyPatch.context() as patched:
        for module, name in ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "unlink"), (shutil, "rmtree")):
            patched.setattr(module, name, wrapped(getattr(module, name)))
        patched.setattr(files, "write_synced", torn)
        patched.setattr(artefact, "write_synced", torn)
        try:
            action()
        except Crash:
            return True
    return False


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def flipped(path, every=1):
    """Flip one bit after the other in a file, and yield after each; the file is as before at the end."""
    original = path.read_bytes()
    for position in range(0, 8 * len(original), every):
        data = bytearray(original)
        data[position // 8] ^= 1 << position % 8
        path.write_bytes(data)
        yield position
    path.write_bytes(original)
