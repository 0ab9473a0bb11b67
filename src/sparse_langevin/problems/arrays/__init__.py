"""Surrogates of any simulator, from arrays of its inputs and outputs."""

from typing import TYPE_CHECKING

from sparse_langevin.runtime.lazy import lazily

if TYPE_CHECKING:
    from sparse_langevin.problems.arrays.data import ArraysData, import_arrays, open_data
    from sparse_langevin.problems.arrays.layouts import Variable
    from sparse_langevin.problems.arrays.problem import ArraysProblem, from_json

__all__ = ["ArraysData", "ArraysProblem", "Variable", "from_json", "import_arrays", "open_data"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "data": ("ArraysData", "import_arrays", "open_data"),
        "layouts": ("Variable",),
        "problem": ("ArraysProblem", "from_json"),
    },
)
