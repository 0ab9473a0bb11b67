r"""Data of the small n, large p regression, as a pure function of (test, replicate).

    y = X beta + N(0, 3 I),   beta = (3, 1, 0, ..., 0),   rows of X ~ N(0, Sigma),   Sigma_ij = 0.6^|i-j|

with n = 100 and p = 200. Test 2 multiplies the first predictor by 0.3 before y is made.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SIZE, PREDICTORS, TEST_SIZE = 100, 200, 1000
EFFECTS = (3.0, 1.0)
NOISE_VARIANCE = 3.0
CORRELATION = 0.6
SCALE = 0.3
TESTS = (1, 2)


class Study(NamedTuple):
    """A simulated data set, and the coefficients that it was made with."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array
    beta: Array


def make(test: int, replicate: int) -> Study:
    """Simulate a replicate of test 1 or 2."""
    if test not in TESTS or replicate < 0:
        raise ValueError(f"there are tests 1 and 2, with replicates from 0 on; got test {test}, replicate {replicate}")
    rng = np.random.default_rng([test, replicate])
    beta = np.zeros(PREDICTORS)
    beta[: len(EFFECTS)] = EFFECTS
    return Study(*_rows(rng, test, beta, SIZE), *_rows(rng, test, beta, TEST_SIZE), beta)


def _rows(rng: np.random.Generator, test: int, beta: Array, size: int) -> tuple[Array, Array]:
    x = rng.standard_normal((size, PREDICTORS)) @ _root().T
    if test == 2:
        x[:, 0] *= SCALE
    return x, x @ beta + np.sqrt(NOISE_VARIANCE) * rng.standard_normal(size)


@cache
def _root() -> Array:
    """The Cholesky factor of Sigma."""
    index = np.arange(PREDICTORS)
    return np.linalg.cholesky(CORRELATION ** np.abs(np.subtract.outer(index, index)).astype(float)).astype(float)
