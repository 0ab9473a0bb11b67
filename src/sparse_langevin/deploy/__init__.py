"""Deployment: sparse model files, sparse inference, ONNX."""

from sparse_langevin.deploy.sparse_linear import SparseLinear, sparsify

__all__ = ["SparseLinear", "sparsify"]
