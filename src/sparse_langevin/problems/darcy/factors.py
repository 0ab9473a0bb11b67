"""Factors of the matrix of a flow problem, kept for the next matrix with the same pattern."""

import qdldl
from scipy import sparse


def factored(known: qdldl.Solver | None, matrix: sparse.csc_matrix) -> qdldl.Solver:
    """Factors of the upper triangle of a positive matrix; those of the last one are used again if there are any."""
    try:
        if known is None:
            return qdldl.Solver(matrix, upper=True)
        known.update(matrix, upper=True)
        return known
    except RuntimeError as error:
        raise ValueError(
            "the flow cannot be solved in double precision: its matrix is singular. Use cells that are not so flat, "
            "and permeabilities with a contrast of at most about 1e12"
        ) from error
