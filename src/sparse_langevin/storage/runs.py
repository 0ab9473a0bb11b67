"""The folder of a run: its checkpoints and its history.

artefact.json                 says that it is a run
checkpoints/step-NNNNNNNNN/   the last two, see `checkpoint`
history.jsonl                 one line per evaluation, see `lines`

A checkpoint remembers how long the history was; resuming from it cuts the history back to that length.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from sparse_langevin.storage.artefact import Artefact, Kind, require_same
from sparse_langevin.storage.checkpoint import Checkpoint, checkpoints, load_checkpoint, save_checkpoint, step_of
from sparse_langevin.storage.errors import DamagedError, MismatchError
from sparse_langevin.storage.files import remove_folder, sweep
from sparse_langevin.storage.lines import read_lines, write_line

RUN = Kind(
    "run", 3, "'train' or fit", "Restore it, or start the run again in a new folder", ("torch", "numpy", "numba")
)
Record = dict[str, float]


class RunFolder:
    """Saves a run, and finds where it stopped.

    Parameters
    ----------
    path
        The folder; made if it is not there.
    save_every
        Steps between regular checkpoints.
    """

    def __init__(self, path: str | Path, save_every: int) -> None:
        self.path, self.save_every = Path(path), save_every
        self._history = self.path / "history.jsonl"
        self._checkpoints = self.path / "checkpoints"

    def latest(self, settings: Mapping[str, str]) -> Checkpoint | None:
        """The newest checkpoint, or None in a new folder; refuses one that was made with other settings.

        The folder is held by this process, see `files.locked`.
        """
        if self._history.is_symlink():  # it is cut and written to: what it points to may be anything
            raise MismatchError(f"{self._history} is a link to another file: put the file itself in its place")
        sweep(self._checkpoints)
        saved = checkpoints(self._checkpoints)
        if not saved and self._history.exists() and self._history.stat().st_size:
            raise MismatchError(
                f"{self._history} is in the way: the folder has no checkpoint, so it is another run's; "
                "choose another folder or remove it"
            )
        checkpoint = load_checkpoint(saved[-1]) if saved else None
        Artefact.claim(self.path, RUN, shared=True)  # whoever runs this chain may have entered more about it
        if checkpoint is None:
            self._history.touch()
        else:
            with checkpoint.understood():
                require_same(f"the run in {self.path}", checkpoint.meta["settings"], settings)
                self._tidy(checkpoint.meta["begin"])  # if that was interrupted
        return checkpoint

    def append(self, record: Record) -> None:
        """Add a line to the history."""
        with open(self._history, "ab") as file:
            file.write(write_line(record))

    def cut_history(self, checkpoint: Checkpoint) -> list[Record]:
        """Cut the history back to the checkpoint's, and return it."""
        length = checkpoint.meta["history_bytes"]
        if not self._history.exists() or self._history.stat().st_size < length:
            raise DamagedError(self._history, "it is missing or shorter than when the checkpoint was saved", RUN.remedy)
        found = read_lines(self._history, length, RUN.remedy)
        os.truncate(self._history, length)
        return found

    def save(self, step: int, begin: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
        """Write a checkpoint; keep it and the regular one before it, whatever interruptions saved in between."""
        with open(self._history, "rb") as file:
            os.fsync(file.fileno())
            history_bytes = file.seek(0, os.SEEK_END)
        save_checkpoint(self._checkpoints, step, tensors, dict(meta) | {"begin": begin, "history_bytes": history_bytes})
        self._tidy(begin)

    def _tidy(self, begin: int) -> None:
        """Remove checkpoints that are not needed any more."""
        *older, _ = checkpoints(self._checkpoints)
        regular = [path for path in older if (step_of(path) - begin) % self.save_every == 0]
        for path in older:
            if path not in regular[-1:]:
                remove_folder(path)
