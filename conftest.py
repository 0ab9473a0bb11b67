"""Names that the examples in docstrings may use without importing them."""

import pytest
import torch
from torch import nn

import sparse_langevin

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace |= {"torch": torch, "nn": nn}
    doctest_namespace |= {name: getattr(sparse_langevin, name) for name in sparse_langevin.__all__}
