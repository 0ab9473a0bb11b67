"""Checkpoints: atomic, verified, without pickle.

A checkpoint is a folder ``step-000001234`` with ``state.safetensors`` (all tensors) and ``manifest.json`` (everything
else, and the SHA-256 of both). It is written under a temporary name, synchronised to disk and renamed, so
that a folder with a final name is always complete; what a crash leaves behind is removed by the next save.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from sparse_langevin.storage.files import TEMPORARY, StorageError, sha256, sync_folder, write_synced

FORMAT = 1
STATE, MANIFEST = "state.safetensors", "manifest.json"
_NAME = re.compile(r"step-(\d{9,})")


class CheckpointError(StorageError):
    """A checkpoint is missing, damaged, or belongs to another run."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint."""

    step: int
    tensors: dict[str, Tensor]
    meta: dict[str, Any]


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> Path:
    """Write a checkpoint of ``step`` below ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover)
    final = folder / f"step-{step:09d}"
    temporary = folder / f"{TEMPORARY}{final.name}"
    temporary.mkdir()
    # Contiguous copies on the CPU, as the format requires; shared storage is not allowed in it.
    state = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()})
    body = {"format": FORMAT, "step": step, "state_sha256": sha256(state), "meta": dict(meta)}
    manifest = body | {"manifest_sha256": sha256(_canonical(body))}
    try:
        write_synced(temporary / STATE, state)
        write_synced(temporary / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
        sync_folder(temporary)
        if final.exists():
            shutil.rmtree(final)
        os.rename(temporary, final)
    except OSError as error:  # a full disk: give the space back; earlier checkpoints are untouched
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"could not save a checkpoint in {folder}: {error}. Earlier ones are intact.") from error
    sync_folder(folder)
    return final


def load_checkpoint(path: Path) -> Checkpoint:
    """Read and verify one checkpoint; the error for a damaged one names the checkpoint before it."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        body = {key: value for key, value in manifest.items() if key != "manifest_sha256"}
        if manifest["manifest_sha256"] != sha256(_canonical(body)):
            raise ValueError(f"{MANIFEST} does not match its SHA-256")
        state = (path / STATE).read_bytes()
        if manifest["state_sha256"] != sha256(state):
            raise ValueError(f"{STATE} does not match its SHA-256")
        if manifest["format"] == FORMAT:
            return Checkpoint(manifest["step"], load(state), manifest["meta"])
    except PermissionError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint {path} is damaged: {error}. {_offer_previous(path)}") from error
    raise CheckpointError(
        f"checkpoint {path} has format {manifest['format']}, this version reads {FORMAT}: use the version that wrote it"
    )


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints below ``folder``, oldest first."""
    found = [p for p in folder.glob("step-*") if _NAME.fullmatch(p.name)] if folder.is_dir() else []
    return sorted(found, key=step_of)


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    match = _NAME.fullmatch(path.name)
    if not match:
        raise CheckpointError(f"{path} is not a checkpoint: its name is not step-NNNNNNNNN")
    return int(match.group(1))


def _offer_previous(path: Path) -> str:
    for previous in reversed([p for p in checkpoints(path.parent) if step_of(p) < step_of(path)]):
        with contextlib.suppress(CheckpointError):
            load_checkpoint(previous)
            return f"The previous checkpoint {previous.name} is intact: delete the folder {path} and resume from there."
    return "There is no intact checkpoint before it: start again in a new folder."


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
