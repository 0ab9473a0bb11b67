"""A data set of a few fields, and a finished run on it."""

import pytest

from sparse_langevin.problems.darcy import Grid, Recipe, generate
from sparse_langevin.surrogates import Settings, train
from tests.surrogates.small import NETWORK


def short(method="psgld-sa", **changes):
    return Settings.of(
        method, **({"epochs": 4, "batch_size": 8, "samples": 3, "burn_in": 0.5, "network": NETWORK} | changes)
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    recipe = Recipe("kle", 40, Grid(8, 6), {"terms": 4, "kappa_0": 6.0}, test_share=0.25)
    return generate(recipe, tmp_path_factory.mktemp("data") / "kle", workers=0)


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    return train(short(sparsity=0.7), data, tmp_path_factory.mktemp("runs") / "run", progress=False)
