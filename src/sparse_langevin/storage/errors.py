"""What can be wrong with files and folders of ours: one family of errors."""

from pathlib import Path


class StorageError(RuntimeError):
    """A folder of ours cannot be used; the message says why, and what to do."""


class DamagedError(StorageError):
    """A file is truncated, changed or missing."""

    def __init__(self, file: Path | str, reason: str, remedy: str = "Restore it") -> None:
        super().__init__(str(file), reason, remedy)  # all of them, so that the error can travel between processes
        self.file, self.reason = str(file), reason

    def __str__(self) -> str:
        return "{} is damaged: {}. {}".format(*self.args)


class MismatchError(StorageError, ValueError):
    """A folder holds something else than was asked for: another kind, another format, other settings."""


class MissingError(MismatchError):
    """A folder holds nothing of ours."""


class LockedError(StorageError):
    """Another process works in the folder."""
