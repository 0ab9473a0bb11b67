"""Deployment: files of sparse models, sparse inference, and ONNX."""

from sparse_langevin.deploy.model_file import Exported, Manifest, ModelFileError, export, load, read_manifest
from sparse_langevin.deploy.onnx_file import export_onnx
from sparse_langevin.deploy.sparse_linear import SparseLinear, sparsify

__all__ = [
    "Exported",
    "Manifest",
    "ModelFileError",
    "SparseLinear",
    "export",
    "export_onnx",
    "load",
    "read_manifest",
    "sparsify",
]
