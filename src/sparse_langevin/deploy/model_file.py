"""A model in a folder, as small as its zeros allow, with checksums and without pickle.

The folder has ``weights-HASH.safetensors``, the arrays that `encoding` makes of the tensors, and ``manifest.json``,
with what they mean, the SHA-256 of both, and whatever the caller wants to add. The container is written first, under a
name of its own, and the manifest last: after a crash there is the old model, the new one, or none.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load as read_container
from safetensors.torch import save
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin.deploy.encoding import Layer, Values, decode, encode
from sparse_langevin.deploy.sparse_linear import require_dense
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.storage.files import require_new, sha256, write_atomically

FORMAT = 1
MANIFEST = "manifest.json"
CONTAINERS = "weights-*.safetensors"


class ModelFileError(ValueError):
    """A model's folder is missing, damaged, or belongs to another architecture."""


@dataclass(frozen=True)
class Exported:
    """What `export` has written."""

    folder: Path
    size: int
    """Bytes of the two files."""
    dense_size: int
    """Bytes of the same tensors, stored as they are."""
    output_change: float | None
    """Largest absolute change of the output for the example; None if no example was given."""


@dataclass(frozen=True)
class Manifest:
    """What a folder says about its model."""

    layers: dict[str, Layer]
    meta: dict[str, Any]
    versions: dict[str, str]
    container_sha256: str

    @property
    def container(self) -> str:
        """Name of the file with the arrays."""
        return CONTAINERS.replace("*", self.container_sha256[:16])


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
        Where to write; created if it does not exist. One that already holds a model is refused, unless ``overwrite`` is
        true.
    values
        How the weights are stored: ``"packed"`` and ``"float32"`` exactly, ``"short"`` with a relative error of at most
        1/65536, ``"float16"`` and ``"bfloat16"`` rounded to these types.
    overwrite
        Whether a model in the folder may be replaced.
    meta
        Anything that JSON can hold; it is kept in the manifest.
    example
        An input with which to measure how much rounding changes the output.
    """
    folder = Path(folder)
    require_new(folder / MANIFEST, overwrite=overwrite)
    if (folder / MANIFEST).exists() and not any(folder.glob(CONTAINERS)):
        raise ValueError(f"{folder} has a {MANIFEST} that is not that of a model: choose another folder")
    require_dense(model)
    if values not in get_args(Values):
        raise ValueError(f"values must be one of {', '.join(map(repr, get_args(Values)))}, got {values!r}")
    layers, arrays = _encode(model, values)
    data = save(arrays)
    manifest = Manifest(layers, dict(meta or {}), _versions(), sha256(data))
    text = _dump(manifest)
    change = None if example is None else _output_change(model, layers, arrays, example)
    folder.mkdir(parents=True, exist_ok=True)
    container = folder / manifest.container
    known = container.exists()
    try:
        write_atomically(container, data)
        write_atomically(folder / MANIFEST, text)
    except OSError:
        if not known:
            container.unlink(missing_ok=True)
        raise
    for stale in set(folder.glob(CONTAINERS)) - {container}:
        stale.unlink()
    dense = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    return Exported(folder, len(data) + len(text), dense, change)


def load(folder: Path, model: nn.Module) -> nn.Module:
    """Fill a model of the same architecture with what `export` wrote, and return it; on an error it is unchanged."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    _require_same_architecture(folder, manifest, model)
    try:
        data = (folder / manifest.container).read_bytes()
        if sha256(data) != manifest.container_sha256:
            raise ValueError(f"{manifest.container} does not match its SHA-256")
        arrays = read_container(data)
        tensors = {name: decode(name, layer, arrays) for name, layer in manifest.layers.items()}
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _damaged(folder, error) from error
    model.load_state_dict(tensors)
    return model


def read_manifest(folder: Path) -> Manifest:
    """Read and verify the manifest of a folder; the weights are not looked at."""
    folder = Path(folder)
    try:
        body = json.loads((folder / MANIFEST).read_bytes())
        signature = body.pop("manifest_sha256")
        if signature != sha256(_canonical(body)):
            raise ValueError(f"{MANIFEST} does not match its SHA-256")
        if body["format"] != FORMAT:
            raise ModelFileError(
                f"the model in {folder} has format {body['format']}, this version reads {FORMAT}: "
                f"use sparse-langevin {body['versions']['sparse_langevin']}, which wrote it"
            )
        layers = {name: Layer(**entry | {"shape": tuple(entry["shape"])}) for name, entry in body["layers"].items()}
        return Manifest(layers, body["meta"], body["versions"], body["container_sha256"])
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model in {folder}: it has no {MANIFEST}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, error) from error


def _encode(model: nn.Module, values: Values) -> tuple[dict[str, Layer], dict[str, Tensor]]:
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    layers: dict[str, Layer] = {}
    arrays: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name!r} in the model's state is a {type(tensor).__name__}, only tensors can be stored")
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
        raise ModelFileError(f"{folder} holds another architecture: only {who} has {name!r} ({len(odd)} such tensors)")
    for name, layer in manifest.layers.items():
        shape, dtype = tuple(state[name].shape), str(state[name].dtype).removeprefix("torch.")
        if (shape, dtype) != (layer.shape, layer.dtype):
            raise ModelFileError(
                f"{folder} holds another architecture: {name!r} is {layer.dtype} of shape {layer.shape} there, "
                f"{dtype} of shape {shape} in the model"
            )


def _dump(manifest: Manifest) -> bytes:
    body = {"format": FORMAT} | asdict(manifest)
    try:
        canonical = _canonical(body)
    except (TypeError, ValueError) as error:
        raise ValueError(f"meta must be something that JSON can hold: {error}") from error
    return json.dumps(body | {"manifest_sha256": sha256(canonical)}, indent=1, sort_keys=True).encode()


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _damaged(folder: Path, error: Exception) -> ModelFileError:
    return ModelFileError(f"the model in {folder} is damaged: {error}. Export it again, or take another copy.")


def _versions() -> dict[str, str]:
    return {"sparse_langevin": version("sparse-langevin"), "torch": torch.__version__}
