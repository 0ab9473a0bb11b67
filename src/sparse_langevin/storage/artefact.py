"""Folders that say what they are: a data set, a run, a checkpoint, a bank, a model.

``artefact.json`` in such a folder has

    kind, maker   what it is, and what makes it, such as "model" and "export"
    format        the number of this kind's layout
    versions      of the packages that it was made with
    body          what the kind has to say: settings, a recipe, names of layers, ...
    files         the SHA-256 of each file, by name; null until the work is finished
    sha256        of all of this

Nothing is concluded from other files. Whoever makes an artefact claims the folder first, while holding its lock, and
seals it at the end; what was claimed with other settings, or is of another kind, is refused and left as it is.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sparse_langevin.storage.errors import DamagedError, MismatchError, MissingError, StorageError
from sparse_langevin.storage.files import (
    TEMPORARY,
    canonical,
    require_regular,
    sha256,
    sha256_of_file,
    write_atomically,
    write_synced,
)

MANIFEST = "artefact.json"
EARLIER = ("manifest.json", "recipe.json", "run.json")  # what earlier versions wrote instead
_KEYS = {"kind", "maker", "format", "versions", "body", "files"}
# What it takes to use a value of another type, or one that is not there.
SENSELESS = (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, ZeroDivisionError)
_verified: set[tuple[object, ...]] = set()  # files that were compared with their digests in this process


@dataclass(frozen=True)
class Kind:
    """A kind of artefact."""

    name: str
    format: int
    maker: str
    """The command or function that makes it."""
    remedy: str
    """A sentence: what to do when it is damaged or too old."""
    packages: tuple[str, ...] = ()
    """Whose versions are recorded, beside our own."""

    def versions(self) -> dict[str, str]:
        """Versions of the packages now."""
        return {name: version(name) for name in ("sparse-langevin", *self.packages)}


@dataclass(frozen=True)
class Artefact:
    """A folder with its manifest."""

    folder: Path
    kind: Kind
    body: dict[str, Any]
    versions: dict[str, str]
    files: dict[str, str] | None = None
    """SHA-256 of the files, by name; None until the work is finished."""

    @classmethod
    def claim(
        cls, folder: Path, kind: Kind, body: Mapping[str, Any] | None = None, *, shared: bool = False
    ) -> "Artefact":
        """Enter a kind and a body into a new folder, or insist that the folder has the same ones.

        Parameters
        ----------
        folder
            Made if it is not there. Hold it with `files.locked`.
        kind
            What the folder is going to be.
        body
            What determines the contents; None takes whatever is there.
        shared
            Whether the folder may hold files of others.
        """
        if (folder / MANIFEST).exists():
            there = cls.open(folder, kind)
            if body is not None:
                require_same(f"the {kind.name} in {folder}", there.body, body)
            return there
        if not shared and folder.exists() and not _is_free(folder):
            _refuse_earlier(folder, kind)
            raise MismatchError(f"{folder} exists and is not a {kind.name} of ours: choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, kind, dict(body or {}), kind.versions())._enter()

    @classmethod
    def open(cls, folder: Path, kind: Kind, *, finished: bool = False) -> "Artefact":
        """What a folder holds, which must be of this kind and, if asked for, finished; files are not looked at."""
        found = _read(folder, kind.remedy)
        if found is None:
            _refuse_earlier(folder, kind)
            raise MissingError(f"there is no {kind.name} in {folder}: it has no {MANIFEST}")
        if found["kind"] != kind.name:
            raise MismatchError(f"{folder} is a {found['kind']} made by {found['maker']}, not a {kind.name}")
        if found["format"] != kind.format:
            raise MismatchError(
                f"the {kind.name} in {folder} has format {found['format']}, this version reads {kind.format}: use "
                f"sparse-langevin {found['versions']['sparse-langevin']}, which wrote it. Otherwise: {kind.remedy}"
            )
        if finished and found["files"] is None:
            raise MismatchError(f"the {kind.name} in {folder} was begun but not finished: run the same command again")
        return cls(folder, kind, found["body"], found["versions"], found["files"])

    @classmethod
    def write(cls, folder: Path, kind: Kind, body: Mapping[str, Any], files: Mapping[str, bytes]) -> "Artefact":
        """Write a finished artefact at once, its manifest last: a crash leaves the old one or the new one.

        One of the same kind may be there if no file of it has a name in ``files``, or has the same contents.
        """
        made = cls(folder, kind, dict(body), kind.versions(), {name: sha256(data) for name, data in files.items()})
        made._text()  # what JSON cannot hold fails before anything is written
        if (folder / MANIFEST).exists():
            cls.open(folder, kind)
        else:
            _refuse_earlier(folder, kind)
        folder.mkdir(parents=True, exist_ok=True)
        new = [folder / name for name in files if not (folder / name).exists()]
        try:
            for name, data in files.items():
                _put(folder / name, data)
            return made._enter()
        except BaseException:
            if not (folder / MANIFEST).exists() or (folder / MANIFEST).read_bytes() != made._text():
                for path in new:
                    path.unlink(missing_ok=True)
            raise

    def seal(self, names: Iterable[str]) -> "Artefact":
        """Enter the digests of the files: the work is finished."""
        return replace(self, files={name: sha256_of_file(self.folder / name) for name in names})._enter()

    def abandon(self) -> None:
        """Give a folder back that nothing was put into; it goes, too, if it is empty."""
        (self.folder / MANIFEST).unlink()
        with suppress(OSError):
            self.folder.rmdir()

    def lost(self) -> list[str]:
        """Names of files that should be there and are not."""
        return [name for name in self.files or () if not (self.folder / name).exists()]

    def read(self, name: str) -> bytes:
        """Contents of a file, verified."""
        with _blaming(path := self.folder / name, self.kind.remedy):
            require_regular(path)
            data = path.read_bytes()
            self._compare(name, sha256(data))
        return data

    def path(self, name: str) -> Path:
        """Path of a file, for one too large to be read at once; verified when it is first asked for in a process."""
        with _blaming(path := self.folder / name, self.kind.remedy):
            about = path.stat()
            known = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, (self.files or {}).get(name))
            if known not in _verified:
                self._compare(name, sha256_of_file(path))
                # Clocks of file systems are coarse: what was written just now could change and look the same.
                if time.time_ns() - about.st_mtime_ns > 1e9:
                    _verified.add(known)
        return path

    def verify(self) -> None:
        """Compare all files with their digests."""
        for name in self.files or ():
            self.path(name)

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Blame the manifest while its body is put to use: it may be somebody's who made it up, digest and all."""
        try:
            yield
        except SENSELESS as error:
            reason = f"what it says makes no sense ({error!r})"
            raise DamagedError(self.folder / MANIFEST, reason, self.kind.remedy) from error

    def _compare(self, name: str, digest: str) -> None:
        if (self.files or {}).get(name) != digest:
            raise ValueError("it does not match its SHA-256")

    def _text(self) -> bytes:
        head = {"kind": self.kind.name, "maker": self.kind.maker, "format": self.kind.format}
        body = head | {"versions": self.versions, "body": self.body, "files": self.files}
        return json.dumps(body | {"sha256": sha256(canonical(body))}, indent=1, sort_keys=True).encode()

    def _enter(self) -> "Artefact":
        _put(self.folder / MANIFEST, self._text())
        return self


def kind_of(folder: Path) -> str | None:
    """What a folder says it is; None if it says nothing."""
    found = _read(folder)
    return None if found is None else str(found["kind"])


def require_same(what: str, before: Mapping[str, Any], now: Mapping[str, Any], name: str = "") -> None:
    """Raise with the first entry, however deep, that differs between two bodies."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            require_same(what, old, new, f"{name}{key}.")
        elif canonical(old) != canonical(new):
            raise MismatchError(
                f"{what} was started with {name}{key} = {old}, now it is {new}: "
                "go on with the same settings, or choose another folder"
            )


def _read(folder: Path, remedy: str = "Restore it") -> dict[str, Any] | None:
    """The manifest in a folder, verified; None if there is none."""
    if not (path := folder / MANIFEST).exists():
        return None
    with _blaming(path, remedy):
        require_regular(path)
        found: dict[str, Any] = json.loads(path.read_bytes())
        if found.pop("sha256") != sha256(canonical(found)) or found.keys() != _KEYS:
            raise ValueError("it does not match its SHA-256")
        if away := [name for name in found["files"] or () if Path(name).name != name or name == ".."]:
            raise ValueError(f"it names {away[0]!r}, which is not a file of this folder")
        return found


def _is_free(folder: Path) -> bool:
    return folder.is_dir() and all(path.name.startswith(TEMPORARY) for path in folder.iterdir())


def _put(path: Path, data: bytes) -> None:
    if path.parent.name.startswith(TEMPORARY):  # whoever renames the folder synchronises it
        write_synced(path, data)
    else:
        write_atomically(path, data)


def _refuse_earlier(folder: Path, kind: Kind) -> None:
    if there := [name for name in EARLIER if (folder / name).exists()]:
        raise MismatchError(
            f"{folder} has a {there[0]} but no {MANIFEST}: an earlier version of sparse-langevin, or another program, "
            f"has made it. {kind.remedy}"
        )


@contextmanager
def _blaming(path: Path, remedy: str) -> Iterator[None]:
    """Say which file it was, if reading it fails."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedError(path, "it is missing", remedy) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"it is not a manifest ({error!r})"
        raise DamagedError(path, reason, remedy) from error
