"""Ranks of what was drawn from the prior among draws from the posterior are uniform: the whole chain in one number."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import sbc
from sparse_langevin.linear import normal
from sparse_langevin.linear.collapsed import Chain

ROWS, PREDICTORS, REPLICATES = 20, 8, 200
BINS = 10


@pytest.fixture(scope="module")
def ranks():
    """Ranks of all that is looked at, in short chains on a few predictors."""
    rng = np.random.default_rng(0)
    found = []
    for replicate in range(REPLICATES):
        x = sbc.predictors(ROWS, PREDICTORS, [1, replicate])
        problem, truth = sbc.draw(sbc.problem_of(x), rng)
        chain = Chain(normal.NormalRegression(problem), rng)
        chain.burn_in(200)
        draws = chain.draw(sbc.DRAWS + 1, 12)
        posterior = SimpleNamespace(draws=draws, chains=[draws], inclusion=draws.inclusion[0])
        row = rng.standard_normal(PREDICTORS)
        found.append(sbc.described(problem, posterior, truth, row, rng)["ranks"])
    return {name: np.array([one[name] for one in found]) for name in found[0]}


@pytest.mark.parametrize(
    "name",
    ["sigma", "log g", "h", "number of effects", "first coefficient", "all coefficients", "prediction"],
)
def test_ranks_are_uniform(ranks, name):
    assert sbc.uniformity(ranks[name].tolist(), BINS) > 1e-4
    # Of 200 uniform ranks the mean is 49.5 within 2.0; this is four times that.
    assert abs(ranks[name].mean() - 0.5 * sbc.DRAWS) < 8.2


def test_ranks_of_equal_values_are_uniform_and_others_are_exact():
    rng = np.random.default_rng(0)
    draws = np.concatenate([np.zeros(60), np.arange(1, 41)])[:99]
    assert sbc.rank(20.5, draws, rng) == 80 and sbc.rank(-1.0, draws, rng) == 0 and sbc.rank(99.0, draws, rng) == 99
    found = [sbc.rank(0.0, draws, rng) for _ in range(4000)]
    assert min(found) == 0 and max(found) == 60 and np.mean(found) == pytest.approx(30, abs=1.2)
