"""Fields that users bring: taken over as they are, or solved; refused with the sample's number."""

import h5py
import numpy as np
import pytest

from sparse_langevin.problems.darcy import DarcyData, Flow, Grid, Recipe, Solver, generate
from sparse_langevin.problems.darcy.imported import read_arrays

GRID = Grid(8, 6)


@pytest.fixture
def arrays():
    kappa = np.exp(np.random.default_rng(0).standard_normal((7, *GRID.shape)))
    solutions = list(Solver(GRID).solve_many(kappa))
    return {
        "kappa": kappa,
        "velocity": np.stack([s.velocity for s in solutions]),
        "pressure": np.stack([s.pressure for s in solutions]),
    }


def bring(path, folder, *, grid=GRID, any_residual=False, **options):
    settings = {"file": str(path)} | ({"any_residual": True} if any_residual else {})
    return generate(Recipe("arrays", 7, grid, settings, shard_size=3, **options), folder, workers=0)


def test_velocities_of_another_domain_or_other_sides_are_refused(tmp_path):
    grid, rng = Grid(8, 6, 3.0, 2.0), np.random.default_rng(1)
    flow = Flow(source=0.5, left="flow -1", top="pressure 2")
    kappa = rng.uniform(1, 3, (7, 6, 8))
    velocity = np.stack([flow.solver(grid).solve(field).velocity for field in kappa])
    np.savez(tmp_path / "mine.npz", kappa=kappa, velocity=velocity.astype(np.float32))
    sides = {"left": "flow -1", "top": "pressure 2"}
    data = bring(tmp_path / "mine.npz", tmp_path / "right", grid=grid, source=0.5, sides=sides)
    assert data.problem.flow == flow and data.array("mass_residual").max() < 1e-4
    with pytest.raises(ValueError, match=r"does not conserve mass.*--domain"):
        bring(tmp_path / "mine.npz", tmp_path / "wrong", source=0.5, sides=sides)
    with pytest.raises(ValueError, match=r"should hold on the side top.*--top"):
        bring(tmp_path / "mine.npz", tmp_path / "wrong", grid=grid, source=0.5, sides={"left": "flow -1"})


def test_arrays_are_taken_over(arrays, tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays)
    data = bring(tmp_path / "mine.npz", tmp_path / "npz")
    for name, array in arrays.items():
        assert np.array_equal(data.array(name), array)
    assert data.array("mass_residual").max() < 1e-12
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    assert np.array_equal(bring(tmp_path / "mine.h5", tmp_path / "h5").array("velocity"), arrays["velocity"])


def test_velocities_that_are_missing_are_solved_for(arrays, tmp_path):
    np.save(tmp_path / "kappa.npy", arrays["kappa"])
    data = bring(tmp_path / "kappa.npy", tmp_path / "out")
    assert np.array_equal(data.array("velocity"), arrays["velocity"])
    np.save(tmp_path / "one.npy", arrays["kappa"][2])
    assert np.array_equal(read_arrays(tmp_path / "one.npy")["kappa"], arrays["kappa"][2:3])


def test_foreign_velocities_show_their_mass_residual(arrays, tmp_path):
    arrays["velocity"][4, 3] += 0.5
    del arrays["pressure"]
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=r"sample 4: the velocity does not conserve mass.*--domain"):
        bring(tmp_path / "mine.npz", tmp_path / "out")
    data = bring(tmp_path / "mine.npz", tmp_path / "out", any_residual=True)
    assert data.array("mass_residual")[4] == pytest.approx(0.5 / GRID.hx)
    assert np.isnan(data.array("pressure")).all()
    assert np.isnan(DarcyData(tmp_path / "out").sample(4)[1].pressure).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a["kappa"].__setitem__((5, 2, 1), -1.0), r"sample 5: kappa must be positive.*kappa\[2, 1\] = -1"),
        (lambda a: a["kappa"].__setitem__((3, 0, 0), np.nan), "sample 3: kappa must be positive and finite"),
        (lambda a: a.update(kappa=a["kappa"][:, :5]), r"sample 0: kappa must have shape \(ny, nx\) = \(6, 8\)"),
        (lambda a: a.update(kappa=a["kappa"][0]), r"must have shape \(samples, ny, nx\), got \(6, 8\)"),
        (lambda a: a.update(velocity=a["velocity"][:, :96]), r"velocity must have shape \(7, 110\).*x-edges first"),
        (lambda a: a["velocity"].__setitem__((6, 1), np.inf), "sample 6: velocity is not finite"),
        (lambda a: a.update(kappa=a["kappa"][:4]), "holds 4 samples, 7 were asked for"),
        (lambda a: a.pop("kappa"), "has no array 'kappa'"),
        (lambda a: a.pop("velocity"), "a pressure without a velocity"),
    ],
)
def test_bad_arrays_are_refused_and_nothing_is_written(arrays, change, message, tmp_path):
    change(arrays)
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        bring(tmp_path / "mine.npz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "kappa.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"kappa.npy cannot be read: it holds Python objects"):
        bring(tmp_path / "kappa.npy", tmp_path / "out")


def test_solving_many_names_the_field():
    fields = np.ones((3, *GRID.shape))
    fields[2, 1, 1] = 0.0
    with pytest.raises(ValueError, match=r"sample 2: kappa must be positive"):
        list(Solver(GRID).solve_many(fields))
