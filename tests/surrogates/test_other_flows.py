"""Another domain, source and sides than the paper's: from the solver to a surrogate, and back to pressures."""

import numpy as np
import pytest
import torch

from sparse_langevin.problems.darcy import Flow, Grid, Neumann, Recipe, generate
from sparse_langevin.problems.darcy.conservation import first_order
from sparse_langevin.problems.darcy.pressure import pressure_solver
from sparse_langevin.problems.darcy.problem import DarcyProblem
from sparse_langevin.surrogates import evaluate, open_data, train
from sparse_langevin.surrogates.prediction import predict
from sparse_langevin.surrogates.report import judge
from tests.surrogates.conftest import short

GRID = Grid(8, 6, 3.0, 2.0)
FLOW = Flow(source=0.3, left="flow -1", top="pressure 2")
NETWORK = {"network": "darcy-encoder-decoder", "network_options": {"channels": [4, 3, 2, 2], "code": 3, "hidden": 20}}


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    sides = {"left": "flow -1", "top": "pressure 2"}
    recipe = Recipe("kle", 40, GRID, {"terms": 4, "kappa_0": 6.0}, source=0.3, sides=sides, test_share=0.25)
    return generate(recipe, tmp_path_factory.mktemp("other") / "data", workers=0)


def balance(velocity):
    """Outflow of each cell by its area, less the source: by hand."""
    x, y = velocity[:, : 9 * 6].reshape(-1, 6, 9), velocity[:, 9 * 6 :].reshape(-1, 7, 8)
    return np.diff(x, axis=2) / (3 / 8) + np.diff(y, axis=1) / (2 / 6) - 0.3


def on_left_and_bottom(velocity):
    """What crosses the two sides whose flow is prescribed, along x and y."""
    return velocity[:, : 9 * 6].reshape(-1, 6, 9)[:, :, 0], velocity[:, 9 * 6 :].reshape(-1, 7, 8)[:, 0]


def test_data_are_of_this_flow(other):
    found = open_data(other.folder)
    assert found.problem == DarcyProblem(GRID, FLOW) and found.problem.flow.closed == ("left", "bottom")
    velocity = np.concatenate([found.outputs("train"), found.outputs("test")])
    assert np.abs(balance(velocity)).max() < 1e-11 and other.array("mass_residual").max() < 1e-11
    left, bottom = on_left_and_bottom(velocity)
    np.testing.assert_allclose(left, 1.0, atol=1e-12)
    np.testing.assert_allclose(bottom, 0.0, atol=1e-12)
    kappa = found.inputs("test")
    again = np.stack([FLOW.solver(GRID).solve(k).velocity for k in kappa])
    np.testing.assert_allclose(found.outputs("test"), again, rtol=1e-12, atol=1e-12)
    assert found.problem.errors(again, again, kappa)["mass_residual"].max() < 1e-11


def test_sides_keep_their_digits():
    flow = Flow(source=1.0, left="flow 0.333333333333333315", right="flow 0.66666666666666667", top="flow 0.0")
    assert flow.left == "flow 0.3333333333333333" and flow.top == "flow 0"
    assert Flow(left="pressure 1.50").left == "pressure 1.5"
    assert flow.conditions()["right"] == Neumann(2 / 3) and Flow.from_json(flow.as_json()) == flow
    assert flow.solver(Grid(4, 4)).solve(np.ones((4, 4))).mass_residual < 1e-12  # source and outflow balance


def test_first_order_is_right_to_first_order():
    """The error of the change falls with the contrast: that of the velocity with its square."""
    pattern = np.random.default_rng(0).standard_normal((3, *GRID.shape))
    solver, errors = FLOW.solver(GRID), []
    usual = solver.solve(np.ones(GRID.shape)).velocity
    for contrast in (1e-3, 5e-4):
        kappa = 1 + contrast * pattern
        true = np.stack([solver.solve(k).velocity for k in kappa])
        tensors = map(torch.from_numpy, (kappa, np.asarray(1.0), usual))
        found = first_order(GRID, *tensors, FLOW.closed).numpy()
        errors.append(np.linalg.norm(found - true))
        assert errors[-1] < 5 * contrast * np.linalg.norm(true - usual)
        assert np.abs(balance(found)).max() < 1e-10
        assert np.abs(
            first_order(GRID, *map(torch.from_numpy, (kappa, np.asarray(1.0), usual))).numpy() - true
        ).max() > (0.1 * contrast)  # with the paper's sides it would be another flow
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.02)


def test_a_network_that_conserves_mass_with_these_sides(other, tmp_path):
    run = train(short(**NETWORK, epochs=6), other, tmp_path / "run", progress=False)
    kappa = other.inputs("test")
    made = predict(run, kappa)
    for velocity in (run.surrogate().predict(kappa).numpy(), made.mean.double().numpy()):
        scale = np.abs(velocity).max() / (3 / 8)
        assert np.abs(balance(velocity)).max() < 1e-5 * scale
        left, bottom = on_left_and_bottom(velocity)
        np.testing.assert_allclose(left, 1.0, atol=1e-6)
        np.testing.assert_allclose(bottom, 0.0, atol=1e-6)
    judged = judge(run)
    assert judged.best.mean("mass_residual") < 1e-5 * scale
    rivals = {rival.name: rival.errors["e1"] for rival in judged.best.baselines}
    assert (
        rivals["first order"] < 0.5 * rivals["training mean"] and judged.best.mean("e1") < 2 * rivals["training mean"]
    )


def test_the_papers_sides_are_out_of_its_reach(other, tmp_path):
    """Closed at bottom and top, the network would be wrong; it says so before it is trained."""
    wrong = NETWORK["network_options"] | {"closed": ["bottom", "top"]}
    with pytest.raises(ValueError, match="differ in their sources or in the flow through closed sides"):
        train(short(**NETWORK | {"network_options": wrong}), other, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_any_network_trains(other, tmp_path):
    run = train(short("psgld", epochs=60, step_size=3e-3), other, tmp_path / "run", progress=False)
    surrogate = run.surrogate()
    errors = evaluate(lambda inputs: surrogate.predict(inputs).numpy(), other)
    assert errors.mean("e1") < errors.baselines[0].errors["e1"]


@pytest.mark.parametrize(
    "flow",
    [
        Flow(),
        FLOW,
        Flow(source=-2.0, left="pressure 1", right="pressure -1", bottom="pressure 3", top="pressure 0"),
        Flow(source=0.0, left="flow -0.5", right="flow 0", bottom="pressure 1", top="flow 0.2"),
        Flow(source=0.5, left="flow 0.75", right="flow 0.75", bottom="flow 0", top="flow 0"),  # no pressure anywhere
    ],
    ids=Flow.describe,
)
def test_pressures_are_recovered(flow):
    rng = np.random.default_rng(0)
    problem = DarcyProblem(GRID, flow)
    for kappa in np.exp(1.5 * rng.standard_normal((3, *GRID.shape))):
        solution = flow.solver(GRID).solve(kappa)
        found = pressure_solver(problem.grid, problem.flow)(kappa, solution.velocity)
        np.testing.assert_allclose(found, solution.pressure, rtol=0, atol=1e-10 * np.abs(solution.pressure).max())
        extra = problem.extras(kappa[None], solution.velocity[None])
        np.testing.assert_array_equal(extra["pressure"][0], found)
