"""Numbers are rounded to single precision after they are normalised, not before."""

import numpy as np
import pytest
import torch

from sparse_langevin.problems.darcy import DarcyDataset, DarcyProblem, Grid, Recipe, generate
from sparse_langevin.surrogates import Surrogate, train
from tests.surrogates.conftest import short
from tests.surrogates.small import Small

GRID = Grid(8, 6)


@pytest.fixture(scope="module")
def large():
    """Fields whose variations are less than the spacing of single precision numbers of their size, 0.0625."""
    rng = np.random.default_rng(0)
    kappa = 1e6 + 1e-2 * rng.standard_normal((40, *GRID.shape))
    velocity = 1e6 + 1e-2 * rng.standard_normal((40, GRID.edges))
    return kappa, velocity


def standardised(values, mean):
    centred = values - mean
    return centred / np.sqrt(np.mean(np.square(centred)))


def test_small_variations_of_large_values(large):
    kappa, velocity = large
    problem = DarcyProblem(GRID)
    codec = problem.codec()
    codec.fit(*map(torch.from_numpy, large))
    seen = Surrogate(Small(GRID), problem, codec).encode(kappa)
    assert seen.dtype == torch.float32 and seen.shape == (40, 1, 6, 8)
    np.testing.assert_allclose(seen[:, 0], standardised(kappa, kappa.mean()), rtol=0, atol=1e-6)
    answers = codec.encode_outputs(torch.from_numpy(velocity), torch.from_numpy(kappa)).float()
    np.testing.assert_allclose(answers, standardised(velocity, velocity.mean(0)), rtol=0, atol=1e-6)
    np.testing.assert_allclose(codec.decode(answers), velocity, rtol=0, atol=1e-8)


def test_from_files_to_training(large, tmp_path):
    """What a run is trained on, and what its saved network sees."""
    kappa, velocity = large
    np.savez(tmp_path / "large.npz", kappa=kappa, velocity=velocity)
    settings = {"file": str(tmp_path / "large.npz"), "any_residual": True}
    recipe = Recipe("arrays", 40, GRID, settings, test_share=0.25)
    data = generate(recipe, tmp_path / "data", workers=0)
    expected = standardised(kappa[:30], kappa[:30].mean())
    np.testing.assert_allclose(DarcyDataset(data).inputs[:, 0], expected, rtol=0, atol=1e-6)
    run = train(short("adam"), data, tmp_path / "run", progress=False)
    surrogate = run.surrogate()
    np.testing.assert_allclose(surrogate.encode(kappa[:30])[:, 0], expected, rtol=0, atol=1e-6)
    predicted = surrogate.predict(kappa[:30]).numpy()
    assert predicted.dtype == np.float64 and np.ptp(predicted[:, 0]) > 1e-5  # it answers in steps finer than 0.0625
