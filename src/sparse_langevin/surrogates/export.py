"""Surrogates that ship: a small folder with the finished network, and the way back to one that predicts."""

from pathlib import Path

import torch

from sparse_langevin.darcy.grid import Grid
from sparse_langevin.darcy.network import Surrogate
from sparse_langevin.deploy import Exported, export, export_onnx, load, read_manifest, sparsify
from sparse_langevin.deploy.encoding import Values
from sparse_langevin.deploy.onnx_file import require_onnx
from sparse_langevin.surrogates.runs import SurrogateRun, empty_surrogate
from sparse_langevin.surrogates.settings import Settings

ONNX = "network.onnx"


def export_run(
    run: SurrogateRun, folder: str | Path, *, values: Values = "short", onnx: bool = False, overwrite: bool = False
) -> tuple[Exported, float | None]:
    """Write the finished network of a run to a folder, and perhaps an ONNX file beside it.

    Parameters
    ----------
    run
        A finished run.
    folder
        Where; see `deploy.export` for what it holds.
    values
        How weights are stored, see `deploy.encoding`: ``"short"`` is far more precise than a surrogate is.
    onnx
        Also write ``network.onnx``, which maps normalised permeability to normalised velocity.
    overwrite
        Whether what is there may be replaced.

    Returns
    -------
    tuple
        What was written, and by how much ONNX Runtime's answers differ from torch's (None without ``onnx``).
    """
    if onnx:
        require_onnx()  # before anything is written
    surrogate = run.surrogate()
    grid = run.grid
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(4, 1, grid.ny, grid.nx, generator=generator)
    meta = {"network": run.settings.network, "grid": vars(grid), "settings": run.settings.as_json()}
    written = export(surrogate, Path(folder), values=values, overwrite=overwrite, meta=meta, example=example)
    difference = None
    if onnx:
        difference = export_onnx(surrogate.network, example, Path(folder) / ONNX, overwrite=overwrite)
    return written, difference


def load_exported(folder: str | Path) -> Surrogate:
    """The surrogate in such a folder, its sparse layers in sparse form where that is faster."""
    meta = read_manifest(Path(folder)).meta
    try:
        settings, grid = Settings(network=meta["network"]), Grid(**meta["grid"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} holds a model, but not a surrogate of 'sparse-langevin export'") from error
    surrogate = load(Path(folder), empty_surrogate(settings, grid))
    assert isinstance(surrogate, Surrogate)
    sparse = sparsify(surrogate)
    assert isinstance(sparse, Surrogate)
    return sparse
