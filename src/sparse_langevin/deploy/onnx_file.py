"""A model as one ONNX file for any batch size, checked against torch before it is written.

ONNX has no sparse products: zeros are stored and multiplied like other numbers.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparse_langevin.deploy.sparse_linear import require_dense
from sparse_langevin.runtime.extras import require
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.storage.files import require_new, write_new

TOLERANCE = 1e-4  # relative to the largest output: far above rounding errors, far below those of a wrong layer


def require_onnx() -> Any:
    """Return ONNX Runtime, or raise an error that says how to install what `export_onnx` needs."""
    return require("export to ONNX", "deploy", "onnxruntime", "onnx", "onnxscript")


def export_onnx(model: nn.Module, example: Tensor, path: Path, *, overwrite: bool = False) -> float:
    """Write a model to an ONNX file with the input ``input`` and the output ``output``.

    ONNX Runtime and torch are compared on the example, and on its first sample alone, before anything is written.

    Parameters
    ----------
    model
        A model that takes one tensor and returns one. It is exported in eval mode.
    example
        An input with at least two samples; the first dimension is the batch and may have any size in the file.
    path
        The file to write.
    overwrite
        Whether an existing file may be replaced.

    Returns
    -------
    float
        Largest absolute difference between the outputs of ONNX Runtime and torch.
    """
    path = Path(path)
    require_new(path, overwrite=overwrite)
    require_dense(model)
    if example.dim() < 2 or len(example) < 2:
        raise ValueError(f"the example must have at least two samples, got shape {tuple(example.shape)}")
    runtime = require_onnx()
    data = _convert(model, example)
    session = runtime.InferenceSession(data)
    difference, scale = 0.0, 0.0
    for batch in (example, example[:1]):
        with evaluating(model):
            expected = model(batch).cpu()
        (output,) = session.run(None, {"input": batch.cpu().numpy()})
        difference = max(difference, float((torch.from_numpy(output) - expected).abs().max()))
        scale = max(scale, float(expected.abs().max()))
    if not difference <= TOLERANCE * scale:
        raise ValueError(
            f"ONNX Runtime and torch differ by {difference:g} for outputs up to {scale:g}: nothing was written. "
            "The model has an operation that ONNX Runtime computes differently."
        )
    write_new(path, data, overwrite=overwrite)
    return difference


def _convert(model: nn.Module, example: Tensor) -> bytes:
    try:
        with evaluating(model), _quiet():
            program = torch.onnx.export(
                model,
                (example,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                input_names=["input"],
                output_names=["output"],
                optimize=False,  # it would replace constants below 1e-8 by zero, and ONNX Runtime optimises anyway
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = str(error.__cause__ or error).strip().split("\n")[0]
        raise ValueError(f"torch cannot turn this model into ONNX with any batch size: {cause}") from error
    assert program is not None  # only the previous exporter of torch returns None
    data: bytes = program.model_proto.SerializeToString()
    return data


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's warnings about its own code and about packages that the model does not use."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
