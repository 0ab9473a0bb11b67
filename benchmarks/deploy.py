"""Sparse deployment of the paper's network at 70 % zeros: bytes on disk, and time per batch beside the dense model.

The weights are random and pruned by size. Sparse products are measured layer by layer and in the whole network, where
convolutions and the layer that the paper leaves dense take their time, too.
"""

import copy
import functools
import os
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from benchmarks import peers
from benchmarks.interleaved import Record, compare, measure, record
from sparse_langevin.deploy import SparseLinear, export, export_onnx, sparsify
from sparse_langevin.problems.darcy import EncoderDecoder, Grid

ZEROS = 0.7
DENSE, OURS, CSR, ONNX = "torch, dense", "sparse-langevin", "torch, CSR", "ONNX Runtime, dense"
PLAIN = "dense safetensors"
SHARES = (0.5, 0.6, 0.65, 0.8, 0.9)
Contenders = dict[str, Callable[[Tensor], Any]]


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Sizes, then times of the wide layers and of the network."""
    cells, repeats, batches = (10, 3, (1, 5)) if quick else (50, 40, (1, 64))
    model = pruned(cells)
    onnx = not quick and peers.find("onnxruntime") is not None
    label = f"encoder-decoder, {cells}x{cells} cells, {ZEROS:.0%} zeros"
    rows = sizes(f"bytes, {label}", model)
    threads = torch.get_num_threads()
    try:
        for count in dict.fromkeys((1, os.cpu_count() or 1)):
            torch.set_num_threads(count)
            for layer in (model.encode[6], model.decode[8]):
                assert isinstance(layer, nn.Linear)
                name = f"layer {layer.in_features} to {layer.out_features}, {ZEROS:.0%} zeros"
                shape: tuple[int, ...] = (layer.in_features,)
                rows += times(name, contenders(layer, SparseLinear(layer), shape, onnx), shape, batches, repeats)
            shape = (1, cells, cells)
            rows += times(label, contenders(model, sparsify(model), shape, onnx), shape, batches, repeats)
        torch.set_num_threads(1)
        rows += [row for share in SHARES for row in shares(share, quick)]
    finally:
        torch.set_num_threads(threads)
    return rows


def shares(zeros: float, quick: bool) -> list[Record]:
    """A large and a smaller layer beside their dense selves on one thread: from where on `sparsify` gains."""
    rows = []
    for inputs, outputs in ((50, 40), (40, 50)) if quick else ((800, 5100), (2700, 800)):
        layer = nn.Linear(inputs, outputs).requires_grad_(False)
        layer.weight[torch.rand_like(layer.weight) < zeros] = 0
        name = f"layer {inputs} to {outputs}, {zeros:.0%} zeros"
        rows += times(name, {DENSE: layer, OURS: SparseLinear(layer)}, (inputs,), (1, 16, 64), 3 if quick else 20)
    return rows


def pruned(cells: int) -> EncoderDecoder:
    """The network, with the smallest weights of each sparse layer set to zero."""
    torch.manual_seed(0)
    model = EncoderDecoder(Grid(cells, cells)).requires_grad_(False).eval()
    for name in model.SPARSE:
        weight = model.get_parameter(name).view(-1)
        weight[weight.abs().argsort()[: int(ZEROS * len(weight))]] = 0
    return model


def sizes(group: str, model: nn.Module) -> list[Record]:
    """Megabytes of the model in a file."""
    plain = save(dict(model.state_dict()))
    found = {PLAIN: len(plain), f"{PLAIN}, deflated": len(zlib.compress(plain))}
    with tempfile.TemporaryDirectory() as folder:
        for values in ("packed", "short", "float32", "float16"):
            found[f"ours, {values}"] = export(model, Path(folder) / values, values=values).size
    return [record(f"{group}: {name}", [size / 1e6], PLAIN, [len(plain) / 1e6], "MB") for name, size in found.items()]


def contenders(dense: nn.Module, ours: nn.Module, shape: tuple[int, ...], onnx: bool) -> Contenders:
    """All who can carry out the same layers."""
    found: Contenders = {DENSE: dense, OURS: ours, CSR: csr(dense)}
    return found | {ONNX: session(dense, shape)} if onnx else found


def times(
    group: str, calls: Contenders, shape: tuple[int, ...], batches: tuple[int, ...], repeats: int
) -> list[Record]:
    """All contenders at each batch size, on as many threads as torch uses."""
    rows = []
    for batch in batches:
        x = torch.randn(batch, *shape)
        expected = calls[DENSE](x)
        for name, call in calls.items():
            assert torch.allclose(torch.as_tensor(call(x)), expected, rtol=1e-3, atol=1e-4), f"{name} is wrong"
        turns = {name: functools.partial(call, x) for name, call in calls.items()}
        seconds = measure(turns, repeats, calls=5 if batch == 1 else 1)
        rows += compare(f"{group}, batch {batch}, threads {torch.get_num_threads()}", seconds, DENSE)
    return rows


def session(model: nn.Module, shape: tuple[int, ...]) -> Callable[[Tensor], Any]:
    """The model in ONNX Runtime, whose idle threads sleep: they would disturb the others."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(model, torch.randn(2, *shape), Path(folder) / "model.onnx")
        running = onnxruntime.InferenceSession(Path(folder) / "model.onnx", options)
    return lambda x: running.run(None, {"input": x.numpy()})[0]


def csr(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The model with torch's own sparse matrices in the linear layers that are sparse."""
    if not isinstance(model, EncoderDecoder):
        return Compressed(model)
    result = copy.deepcopy(model)
    result.encode[6], result.decode[8] = Compressed(model.encode[6]), Compressed(model.decode[8])
    return result


class Compressed(nn.Module):
    """A linear layer with its weights in torch's CSR format."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        assert isinstance(linear, nn.Linear)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the format is called beta
            self.matrix = linear.weight.to_sparse_csr()
        self.column = linear.bias[:, None]

    def forward(self, x: Tensor) -> Tensor:
        """The product in the order that the format supports."""
        return torch.addmm(self.column, self.matrix, x.T).T
