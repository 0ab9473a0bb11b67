"""The simulated data are what the paper describes, and the same every time."""

import numpy as np
import pytest

from sparse_langevin.studies import regression_data
from sparse_langevin.studies.regression_data import make


@pytest.mark.parametrize("test", [1, 2])
def test_data_are_pure_functions_of_test_and_replicate(test):
    first = make(test, 3)
    make(3 - test, 3), make(test, 4)
    for array, again in zip(first, make(test, 3), strict=True):
        assert np.array_equal(array, again)
    assert not np.array_equal(first.x, make(test, 4).x)
    assert first.x.shape == (100, 200) and first.x_test.shape == (1000, 200)
    assert first.beta[:2].tolist() == [3.0, 1.0] and not first.beta[2:].any()


@pytest.mark.parametrize("test, scale", [(1, 1.0), (2, 0.3)])
def test_moments(test, scale):
    x = np.concatenate([make(test, r).x_test for r in range(20)])
    noise = np.concatenate([s.y_test - s.x_test @ s.beta for s in (make(test, r) for r in range(20))])
    wanted = 0.6 ** np.abs(np.subtract.outer(np.arange(200), np.arange(200)))
    wanted[0] *= scale
    wanted[:, 0] *= scale
    assert np.abs(x.T @ x / len(x) - wanted).max() < 5 * np.sqrt(2 / len(x))
    assert abs(noise.var() - 3.0) < 4 * 3.0 * np.sqrt(2 / len(noise))


def test_there_are_two_tests():
    with pytest.raises(ValueError, match="got test 3"):
        regression_data.make(3, 0)
