"""Export of surrogates: a small folder with the finished network, which can be loaded to predict."""

import copy
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from sparse_langevin.deploy import Exported, export, export_onnx, load, read_manifest, sparsify
from sparse_langevin.deploy.encoding import Values
from sparse_langevin.storage.artefact import SENSELESS, kind_of
from sparse_langevin.storage.files import require_new, write_new
from sparse_langevin.surrogates.problem import Array, problem_from_json
from sparse_langevin.surrogates.runs import SurrogateRun
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.surrogate import Surrogate, empty_surrogate, require_outline

ONNX = "network.onnx"


def export_run(
    run: SurrogateRun,
    folder: str | Path,
    *,
    values: Values = "short",
    onnx: bool = False,
    overwrite: bool = False,
    examples: Array | None = None,
) -> tuple[Exported, float | None]:
    """Write the finished network of a run to a folder, and perhaps an ONNX file beside it.

    Parameters
    ----------
    run
        A finished run.
    folder
        Folder to write; see `deploy.export` for what it holds.
    values
        How weights are stored, see `deploy.encoding`; rounding by ``"short"`` is far below the error of a surrogate.
    onnx
        Whether to write ``network.onnx``, too: inputs (batch, ...) to outputs (batch, ...), both in physical units.
    overwrite
        Whether existing files may be replaced.
    examples
        At least two inputs on which outputs are compared; from the run's data set unless given.

    Returns
    -------
    tuple
        What was written, and the difference between ONNX Runtime's outputs and torch's (None without ``onnx``).
    """
    folder = Path(folder)
    if kind_of(folder) == "run":
        raise ValueError(f"{folder} is the folder of a run: choose another one for the export")
    surrogate = run.surrogate()
    inputs = run.find_data().inputs("train")[:4] if examples is None else examples
    encoded = surrogate.encode(inputs)
    meta = {
        "problem": run.problem.as_json(),
        "settings": run.settings.as_json(),
        "input_range": run.result.get("input_range"),
    }
    difference = None
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / ONNX
        if onnx:  # made and checked before anything is written
            require_new(folder / ONNX, overwrite=overwrite)
            difference = export_onnx(_Physical(surrogate), torch.from_numpy(inputs).float(), made)
        written = export(surrogate, folder, values=values, overwrite=overwrite, meta=meta, example=encoded)
        if onnx:
            write_new(folder / ONNX, made.read_bytes(), overwrite=overwrite)
        elif overwrite:
            (folder / ONNX).unlink(missing_ok=True)  # it belongs to another network
    return written, difference


class _Physical(nn.Module):
    """A surrogate from physical inputs to physical outputs, in single precision."""

    def __init__(self, surrogate: Surrogate) -> None:
        super().__init__()
        self.surrogate, self.codec = surrogate, copy.deepcopy(surrogate.codec).float()

    def forward(self, inputs: Tensor) -> Tensor:
        output = self.codec.decode(self.surrogate(self.codec.encode(inputs)))
        known = self.codec.offset(inputs)
        return output if known is None else output + known


def load_exported(folder: str | Path, *, trust: bool = False) -> Surrogate:
    """The surrogate in a folder that `export_run` wrote, with layers in sparse form where that is faster.

    ``trust`` allows importing a network from outside this package.
    """
    manifest = read_manifest(Path(folder))
    try:
        settings = Settings.from_json(manifest.meta["settings"])
        problem = problem_from_json(manifest.meta["problem"])
    except SENSELESS as error:
        raise ValueError(f"{folder} holds a model, but not a surrogate: 'sparse-langevin export' writes one") from error
    try:
        require_outline(settings, problem, {name: it.shape for name, it in manifest.layers.items()}, trust=trust)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{folder} holds another architecture than its network: {reason}") from error
    surrogate = load(Path(folder), empty_surrogate(settings, problem, trust=trust))
    assert isinstance(surrogate, Surrogate)
    sparse = sparsify(surrogate)
    assert isinstance(sparse, Surrogate)
    return sparse
