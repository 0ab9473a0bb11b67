"""The nearest velocity without divergence, against the solver and the normal equations."""

import numpy as np
import pytest
import torch

from sparse_langevin.problems.darcy import Dirichlet, Grid, Neumann, Recipe, Solver, energy, generate
from sparse_langevin.problems.darcy.conservation import DivergenceFree, first_order

GRIDS = [Grid(6, 4, 2.0, 1.0), Grid(5, 1), Grid(1, 3), Grid(1, 1)]


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def draws(grid, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((3, grid.edges)))


@pytest.mark.parametrize("grid", GRIDS)
def test_nearest_by_pythagoras(grid):
    """No divergence; and what was taken away is orthogonal in L2 to all velocities without divergence."""
    project, u = DivergenceFree(grid, closed=()), draws(grid)
    v, other = project(u), project(draws(grid, 1))
    assert float(grid.divergence(v).abs().max()) < 1e-12
    assert torch.allclose(energy(grid, u - other), energy(grid, u - v) + energy(grid, v - other), rtol=1e-12)
    assert torch.allclose(project(v), v, atol=1e-12)


@pytest.mark.parametrize("closed", [("bottom", "top"), ("left",), ("left", "right", "bottom", "top")])
@pytest.mark.parametrize("grid", GRIDS)
def test_it_is_the_flow_that_carries_the_divergence_away(grid, closed):
    """u - v is the solver's flow at permeability 1 with div u as its source, no flow through the closed sides."""
    sides = {side: Neumann(0.0) if side in closed else Dirichlet(0.0) for side in ("left", "right", "bottom", "top")}
    u = draws(grid)
    x, y = grid.split(u)  # views
    for side, edge in (("left", x[..., 0]), ("right", x[..., -1]), ("bottom", y[:, 0]), ("top", y[:, -1])):
        if side in closed:
            edge.zero_()
    v = DivergenceFree(grid, closed)(u)
    for before, after in zip(u.numpy(), v.numpy(), strict=True):
        flow = Solver(grid, source=grid.divergence(before), **sides).solve(np.ones(grid.shape)).velocity
        np.testing.assert_allclose(before - after, flow, atol=1e-10)


def test_flow_through_closed_sides_is_removed():
    grid = Grid(6, 4)
    _, y = grid.split(DivergenceFree(grid)(draws(grid)))
    assert float(y[:, [0, -1]].abs().max()) == 0.0


def test_nothing_is_saved_and_unknown_sides_are_refused():
    assert not DivergenceFree(Grid(3, 2)).state_dict()
    with pytest.raises(ValueError, match="there is no side 'front': choose among left, right, bottom, top"):
        DivergenceFree(Grid(3, 2), closed=("front",))


def test_first_order():
    """Against the solver: the error of the linearised solution falls with the square of the contrast."""
    grid, rng = Grid(7, 5), np.random.default_rng(0)
    shape, solver = rng.standard_normal(grid.shape), Solver(grid, source=2.0)
    usual = torch.from_numpy(solver.solve(np.full(grid.shape, 3.0)).velocity)
    errors = []
    for contrast in (0.02, 0.01):
        kappa = 3.0 * (1 + contrast * shape)
        found = first_order(grid, torch.from_numpy(kappa)[None], torch.tensor(3.0), usual)[0]
        errors.append(np.abs(solver.solve(kappa).velocity - found.numpy()).max())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


def test_double_precision_is_double_whatever_the_default():
    grid = Grid(7, 5)
    torch.set_default_dtype(torch.float32)
    kappa = 1 + 0.1 * torch.rand(2, *grid.shape, dtype=torch.float64)
    u = draws(grid)[0]
    change = first_order(grid, kappa, torch.tensor(1.0), u) - u
    assert float(grid.divergence(change).abs().max()) < 1e-12
    assert float(grid.divergence(DivergenceFree(grid, dtype=torch.float64)(u)).abs().max()) < 1e-12


def test_the_rival_knows_which_sides_are_closed(tmp_path):
    """With almost constant fields only the chance in the training mean is left, 1/sqrt(360) of a field's deviation."""
    grid, sides = Grid(6, 5, 2.0, 1.0), {"left": "flow -1", "top": "pressure 2"}
    settings = {"terms": 5, "kappa_0": 6.0, "variance": 1e-4}
    data = generate(Recipe("kle", 400, grid, settings, 0.3, sides=sides, test_share=0.1), tmp_path, workers=0)
    mean, first = (rival.errors["e1"] for rival in data.problem.baselines(data, "test"))
    assert 1e-4 < mean < 1e-2 and first < 0.1 * mean
