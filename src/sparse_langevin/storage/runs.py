"""The folder of a run: its checkpoints and its history.

checkpoints/step-NNNNNNNNN/   the last two, see `checkpoint`
history.jsonl                 one line per evaluation

A checkpoint remembers how long the history was; resuming from it cuts the history back to that length.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from sparse_langevin.storage.checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    step_of,
)
from sparse_langevin.storage.files import TEMPORARY

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
        """The newest checkpoint, or None in a new folder; refuses one that was made with other settings."""
        saved = checkpoints(self._checkpoints)
        if not saved:
            if self._history.exists() and self._history.stat().st_size:
                raise ValueError(
                    f"{self._history} is in the way: the folder has no checkpoint, so it is another run's; "
                    "choose another folder or remove it"
                )
            self._history.touch()
            return None
        checkpoint = load_checkpoint(saved[-1])
        for name, now in settings.items():
            before = checkpoint.meta["settings"].get(name)
            if before != now:
                raise CheckpointError(
                    f"the run in {self.path} was started with {name} = {before}, now it is {now}: "
                    "resume with the same settings, or choose another folder"
                )
        return checkpoint

    def append(self, record: Record) -> None:
        """Add a line to the history."""
        with open(self._history, "a") as file:
            file.write(json.dumps(record) + "\n")

    def cut_history(self, checkpoint: Checkpoint) -> list[Record]:
        """Cut the history back to the checkpoint's, and return it."""
        length = checkpoint.meta["history_bytes"]
        lines = self._history.read_bytes() if self._history.exists() else b""
        if len(lines) < length:
            raise CheckpointError(
                f"{self._history} is missing or shorter than when the checkpoint was saved: restore it"
            )
        os.truncate(self._history, length)
        return [json.loads(line) for line in lines[:length].splitlines()]

    def save(self, step: int, begin: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
        """Write a checkpoint; keep it and the regular one before it, whatever interruptions saved in between."""
        with open(self._history, "rb") as file:
            os.fsync(file.fileno())
            history_bytes = file.seek(0, os.SEEK_END)
        save_checkpoint(self._checkpoints, step, tensors, dict(meta) | {"history_bytes": history_bytes})
        *older, _ = checkpoints(self._checkpoints)
        regular = [path for path in older if (step_of(path) - begin) % self.save_every == 0]
        for path in older:
            if path not in regular[-1:]:
                doomed = path.with_name(TEMPORARY + path.name)
                os.rename(path, doomed)  # what has a final name is complete, also while it goes
                shutil.rmtree(doomed)
