"""Checkpoints: atomic, verified, without pickle.

A checkpoint is an artefact in a folder ``step-000001234``, with ``state.safetensors`` for the tensors; everything else
stands in its manifest. It is written under a temporary name and renamed, so that a folder with a final name is always
complete; what a crash leaves behind is removed by the next save.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sparse_langevin.storage.artefact import Artefact, Kind
from sparse_langevin.storage.errors import DamagedError, MissingError, StorageError
from sparse_langevin.storage.files import TEMPORARY, remove_folder, sweep, sync_folder

CHECKPOINT = Kind("checkpoint", 2, "'train' or fit", "Start the run again in a new folder", ("torch",))
STATE = "state.safetensors"
CheckpointError = StorageError  # the name of earlier versions
_NAME = re.compile(r"step-(\d{9,})")


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint."""

    step: int
    tensors: dict[str, Tensor]
    meta: dict[str, Any]
    artefact: Artefact

    def understood(self) -> AbstractContextManager[None]:
        """Blame the checkpoint while its contents are put to use, see `Artefact.understood`."""
        return self.artefact.understood()


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> Path:
    """Write a checkpoint of ``step`` below ``folder``, which is held by this process, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder)
    final = folder / f"step-{step:09d}"
    temporary = folder / f"{TEMPORARY}{final.name}"
    # Contiguous copies on the CPU, as the format requires; shared storage is not allowed in it.
    state = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    try:
        Artefact.write(temporary, CHECKPOINT, {"step": step, "meta": dict(meta)}, {STATE: state})
        sync_folder(temporary)
        if final.exists():
            remove_folder(final)
        os.rename(temporary, final)
    except OSError as error:  # a full disk: give the space back; earlier checkpoints are untouched
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(f"could not save a checkpoint in {folder}: {error}. Earlier ones are intact.") from error
    sync_folder(folder)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint; the error for a damaged one names the checkpoint before it."""
    try:
        artefact = Artefact.open(path, CHECKPOINT, finished=True)
        with artefact.understood():
            step, meta = index(artefact.body["step"]), dict(artefact.body["meta"])
        return Checkpoint(step, load(artefact.read(STATE)), meta, artefact)
    except DamagedError as error:
        raise DamagedError(error.file, error.reason, _offer_previous(path)) from error
    except (MissingError, SafetensorError) as error:
        raise DamagedError(path, str(error), _offer_previous(path)) from error


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints below ``folder``, oldest first."""
    found = [p for p in folder.glob("step-*") if _NAME.fullmatch(p.name)] if folder.is_dir() else []
    return sorted(found, key=step_of)


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise MissingError(f"{path} is not a checkpoint: its name is not step-NNNNNNNNN")
    return int(match.group(1))


def _offer_previous(path: Path) -> str:
    for previous in reversed([p for p in checkpoints(path.parent) if step_of(p) < step_of(path)]):
        with contextlib.suppress(StorageError):
            load_checkpoint(previous)
            return f"The previous checkpoint {previous.name} is intact: delete the folder {path} and resume from there."
    return "There is no intact checkpoint before it: start again in a new folder."
