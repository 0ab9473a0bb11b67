"""Surrogates that ship: a small folder with the finished network, and the way back to one that predicts."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from sparse_langevin.deploy import Exported, export, export_onnx, load, read_manifest, sparsify
from sparse_langevin.deploy.encoding import Values
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.network import Surrogate
from sparse_langevin.storage.files import require_new, write_new
from sparse_langevin.surrogates.runs import RUN, SurrogateRun, empty_surrogate
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
        Also write ``network.onnx``: permeability (batch, ny, nx) to velocity (batch, edges), both in physical units.
    overwrite
        Whether what is there may be replaced.

    Returns
    -------
    tuple
        What was written, and by how much ONNX Runtime's answers differ from torch's (None without ``onnx``).
    """
    folder = Path(folder)
    if (folder / RUN).exists():
        raise ValueError(f"{folder} is the folder of a run: choose another one for what is exported")
    surrogate, grid = run.surrogate(), run.grid
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(4, 1, grid.ny, grid.nx, generator=generator)
    meta = {"network": run.settings.network, "grid": vars(grid), "settings": run.settings.as_json()}
    difference = None
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / ONNX
        if onnx:  # made and checked before anything is written
            require_new(folder / ONNX, overwrite=overwrite)
            physical = _Physical(surrogate)
            difference = export_onnx(physical, physical.example(example), made)
        written = export(surrogate, folder, values=values, overwrite=overwrite, meta=meta, example=example)
        if onnx:
            write_new(folder / ONNX, made.read_bytes(), overwrite=overwrite)
        elif overwrite:
            (folder / ONNX).unlink(missing_ok=True)  # it would be that of another network
    return written, difference


class _Physical(nn.Module):
    """A surrogate in physical units at both ends: permeability (batch, ny, nx) to velocity (batch, edges)."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__()
        self.network, self.maps = surrogate.network, surrogate.normalisation

    def forward(self, kappa: Tensor) -> Tensor:
        return self.maps.decode_velocity(self.network(self.maps.encode_kappa(kappa)))

    def example(self, normalised: Tensor) -> Tensor:
        """Permeabilities that are positive, and usual ones for the network."""
        values = normalised.squeeze(1) * self.maps.kappa_std + self.maps.kappa_mean
        return values.exp() if self.maps.kappa_log else values.abs() + 1e-3 * self.maps.kappa_mean


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
