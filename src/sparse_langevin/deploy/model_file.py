"""A model in a folder, as small as its zeros allow, with checksums and without pickle.

The folder is an artefact (see `storage.artefact`). Its file ``weights-HASH.safetensors`` contains the arrays into which
`encoding` turns the tensors; the manifest describes them, and contains whatever the caller wants to add. The container
is written first, under a name of its own, and the manifest last: after a crash there is the old model, the new one, or
none.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import index
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from safetensors.torch import load as read_container
from safetensors.torch import save
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin.deploy.encoding import Layer, Values, decode, encode
from sparse_langevin.deploy.sparse_linear import require_dense
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.storage.artefact import MANIFEST, Artefact, Kind
from sparse_langevin.storage.errors import DamagedError, MismatchError, StorageError
from sparse_langevin.storage.files import locked, require_new, sha256
from sparse_langevin.storage.foreign import require_modest

MODEL = Kind("model", 2, "'export'", "Export it again into another folder, or take another copy", ("torch",))
CONTAINERS = "weights-*.safetensors"
ModelFileError = StorageError  # the name of earlier versions


@dataclass(frozen=True)
class Exported:
    """The result of `export`."""

    folder: Path
    size: int
    """Size of the two files in bytes."""
    dense_size: int
    """Size of the same tensors in bytes, stored as they are."""
    output_change: float | None
    """Largest absolute change of the output for the example; None if no example was given."""


@dataclass(frozen=True)
class Manifest:
    """The description of the model in a folder."""

    layers: dict[str, Layer]
    meta: dict[str, Any]
    versions: dict[str, str]


def export(
    model: nn.Module,
    folder: Path,
    *,
    values: Values = "packed",
    overwrite: bool = False,
    meta: Mapping[str, Any] | None = None,
    example: Tensor | None = None,
) -> Exported:
    """Write a model's parameters and buffers to a folder.

    Parameters
    ----------
    model
        Any module.
    folder
        The folder to write to; it is created if it does not exist.
    values
        How the weights are stored: ``"packed"`` and ``"float32"`` exactly, ``"short"`` with a relative error of at most
        1/65536, ``"float16"`` and ``"bfloat16"`` rounded to these types.
    overwrite
        Whether a model in the folder may be replaced; otherwise such a folder is an error.
    meta
        Anything that JSON can hold; it is kept in the manifest.
    example
        An input with which to measure how much rounding changes the output.
    """
    folder = Path(folder)
    require_new(folder / MANIFEST, overwrite=overwrite)
    require_dense(model)
    if values not in get_args(Values):
        raise ValueError(f"values must be one of {', '.join(map(repr, get_args(Values)))}, got {values!r}")
    layers, arrays = _encode(model, values)
    data = save(arrays)
    container = CONTAINERS.replace("*", sha256(data)[:16])
    body = {"layers": {name: asdict(layer) for name, layer in layers.items()}, "meta": _checked(meta or {})}
    change = None if example is None else _output_change(model, layers, arrays, example)
    with locked(folder):
        require_new(folder / MANIFEST, overwrite=overwrite)
        Artefact.write(folder, MODEL, body, {container: data})
        for stale in set(folder.glob(CONTAINERS)) - {folder / container}:
            stale.unlink()
    size = len(data) + (folder / MANIFEST).stat().st_size
    dense = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    return Exported(folder, size, dense, change)


def load(folder: Path, model: nn.Module) -> nn.Module:
    """Load the tensors that `export` wrote into a model of the same architecture, and return it.

    After an error the model is unchanged.
    """
    artefact = Artefact.open(Path(folder), MODEL, finished=True)
    manifest = _manifest(artefact)
    _require_same_architecture(artefact.folder, manifest, model)
    try:
        arrays = {
            name: array for file in artefact.files or () for name, array in read_container(artefact.read(file)).items()
        }
        tensors = {name: decode(name, layer, arrays) for name, layer in manifest.layers.items()}
    except (ValueError, KeyError, SafetensorError) as error:
        raise DamagedError(artefact.folder, str(error), MODEL.remedy) from error
    model.load_state_dict(tensors)
    return model


def read_manifest(folder: Path) -> Manifest:
    """Read and verify the manifest of a folder, without reading the weights."""
    return _manifest(Artefact.open(Path(folder), MODEL, finished=True))


def _manifest(artefact: Artefact) -> Manifest:
    with artefact.understood():
        layers = {
            name: Layer(**it | {"shape": tuple(map(index, it["shape"]))})
            for name, it in artefact.body["layers"].items()
        }
        stored = sum(
            (artefact.folder / name).stat().st_size for name in artefact.files or () if name not in artefact.lost()
        )
        require_modest(4 * sum(math.prod(layer.shape) for layer in layers.values()), stored)
        return Manifest(layers, artefact.body["meta"], artefact.versions)


def _encode(model: nn.Module, values: Values) -> tuple[dict[str, Layer], dict[str, Tensor]]:
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    layers: dict[str, Layer] = {}
    arrays: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"{name!r} in the model's state is a {type(tensor).__name__}, but only tensors can be stored"
            )
        layers[name], parts = encode(name, tensor, weight=name in parameters, values=values)
        arrays |= parts
    return layers, arrays


def _output_change(
    model: nn.Module, layers: Mapping[str, Layer], arrays: Mapping[str, Tensor], example: Tensor
) -> float:
    stored = {name: decode(name, layer, arrays).to(example.device) for name, layer in layers.items()}
    with evaluating(model):
        change = functional_call(model, stored, (example,), tie_weights=False) - model(example)
    return float(change.abs().max()) if change.numel() else 0.0


def _require_same_architecture(folder: Path, manifest: Manifest, model: nn.Module) -> None:
    require_dense(model)
    state = model.state_dict()
    if odd := manifest.layers.keys() ^ state.keys():
        name = min(odd)
        who = "the file" if name in manifest.layers else "the model"
        raise MismatchError(f"{folder} holds another architecture: only {who} has {name!r} ({len(odd)} such tensors)")
    for name, layer in manifest.layers.items():
        shape, dtype = tuple(state[name].shape), str(state[name].dtype).removeprefix("torch.")
        if (shape, dtype) != (layer.shape, layer.dtype):
            raise MismatchError(
                f"{folder} holds another architecture: {name!r} is {layer.dtype} of shape {layer.shape} there, "
                f"{dtype} of shape {shape} in the model"
            )


def _checked(meta: Mapping[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(meta, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"meta must be something that JSON can hold: {error}") from error
    return dict(meta)
