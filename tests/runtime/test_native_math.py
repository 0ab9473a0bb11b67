"""Series in double precision against the C library."""

import numpy as np
from numba import njit

from sparse_langevin.runtime.native_math import exp64, log64


@njit
def both(x, y):
    return np.array([exp64(v) for v in x]), np.array([log64(v) for v in y])


def test_exp_and_log():
    x, y = np.linspace(-650.0, 650.0, 20_011), np.exp(np.linspace(-690.0, 690.0, 20_011))
    y = np.concatenate([y, 1.0 + np.linspace(-1e-3, 1e-3, 1001)])
    exponential, logarithm = both(x, y)
    np.testing.assert_allclose(exponential, np.exp(x), rtol=1e-11)
    np.testing.assert_allclose(logarithm, np.log(y), rtol=1e-10, atol=1e-15)
