"""The problem: errors by hand, baselines beside scikit-learn's, checks, inputs of users, pictures and VTK files."""

import base64
import itertools
import re

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.preprocessing import PolynomialFeatures

from sparse_langevin.problems.arrays import ArraysProblem, Variable, import_arrays
from sparse_langevin.problems.arrays.baselines import Ridge, _left_out, _svd
from sparse_langevin.problems.arrays.layouts import LAYOUTS
from tests.problems.arrays.small import examples, problem

RNG = np.random.default_rng(0)


def test_errors_of_one_channel():
    made = ArraysProblem(Variable("v", (2,)), Variable("yx", (3, 4)), rms=(2.0,), std=(0.5,))
    true, predicted = RNG.standard_normal((2, 5, 3, 4))
    true[1] = 0
    found = made.errors(predicted, true, np.zeros((5, 2)))
    apart, size = (np.sqrt(np.square(values).sum((1, 2))) for values in (predicted - true, true))
    assert found["relative_l2"][[0, 2, 3, 4]] == pytest.approx((apart / np.maximum(size, 1e-9))[[0, 2, 3, 4]])
    assert found["relative_l2"][1] == pytest.approx(apart[1] / (2 * np.sqrt(12)))  # by the training outputs' size
    assert found["rmse"] == pytest.approx(apart / np.sqrt(12) / 0.5)


def test_units_do_not_matter():
    true, predicted = RNG.standard_normal((2, 5, 2, 7))
    units = np.array([1.0, 1e5])[:, None]
    plain = ArraysProblem(Variable("v", (2,)), Variable("cx", (2, 7)), rms=(1.0, 2.0), std=(0.5, 0.7))
    scaled = ArraysProblem(Variable("v", (2,)), Variable("cx", (2, 7)), rms=(1.0, 2e5), std=(0.5, 0.7e5))
    one, two = plain.errors(predicted, true, true), scaled.errors(units * predicted, units * true, true)
    for name in one:
        assert one[name] == pytest.approx(two[name])


@pytest.mark.parametrize("layout", ["v", "cyx"])
def test_rmse_and_r2_belong_together(layout, tmp_path):
    made = problem("v", layout)
    x, y = examples(made, 40)
    data = import_arrays(x, y * 3 + 1, tmp_path / "data", output_layout=layout, test_share=0)
    true = data.outputs("train")
    predicted = true + 0.3 * RNG.standard_normal(true.shape)
    rmse = data.problem.errors(predicted, true, x)["rmse"]
    shares = list(data.problem.r2(predicted, true).values())
    assert np.mean(np.square(rmse)) == pytest.approx(1 - np.mean(shares), rel=1e-9)
    mean = data.problem.errors(true.mean(0) + 0 * true, true, x)["rmse"]
    assert np.mean(np.square(mean)) == pytest.approx(1)


def test_ridge_is_that_of_scikit_learn():
    x, y = RNG.standard_normal((60, 200)) * np.geomspace(3, 0.01, 200), RNG.standard_normal((60, 30))
    y += x[:, :30] @ RNG.standard_normal((30, 30))
    fitted = Ridge.fit(x, y)
    scores = PCA(fitted.used, svd_solver="full").fit(x)
    twin = SklearnRidge(alpha=fitted.penalty).fit(scores.transform(x), y)
    new = RNG.standard_normal((10, 200))
    kept = fitted.outputs.T @ fitted.outputs  # the projection on the outputs' components
    wanted = fitted.mean + (twin.predict(scores.transform(new)) - fitted.mean) @ kept
    assert np.allclose(fitted.predict(new), wanted)
    directions = PCA(len(fitted.outputs)).fit(y)
    assert len(fitted.outputs) < 30 or np.allclose(kept, directions.components_.T @ directions.components_)


def test_examples_left_out_one_by_one():
    x, y = RNG.standard_normal((25, 4)), RNG.standard_normal((25, 3))
    x, y = x - x.mean(0), y - y.mean(0)
    u, s, _ = _svd(x)
    for penalty in (0.0, 3.0):
        errors = np.zeros(3)
        for i in range(25):
            others = np.arange(25) != i
            # Its coefficients are those of the fit without it; all are penalised as rotated ones would be.
            errors += np.square(y[i] - SklearnRidge(alpha=penalty).fit(x[others], y[others]).predict(x[i : i + 1])[0])
        assert _left_out(u, s, y, penalty) == pytest.approx(errors)


def test_the_choice_is_the_best_of_all():
    x, y = RNG.standard_normal((40, 8)), RNG.standard_normal((40, 2))
    fitted = Ridge.fit(x, y)
    u, s, _ = _svd(x - x.mean(0))
    best = _left_out(u[:, : fitted.used], s[: fitted.used], y - y.mean(0), fitted.penalty).sum()
    for used, power in itertools.product((1, 2, 4, 8), range(-10, 1)):
        assert best <= _left_out(u[:, :used], s[:used], y - y.mean(0), 10.0**power * s[0] ** 2).sum() * (1 + 1e-9)


def test_quadratic_regression_finds_a_quadratic():
    x, new = RNG.standard_normal((100, 3)), RNG.standard_normal((20, 3))
    slope = RNG.standard_normal((10, 5))
    y, wanted = (PolynomialFeatures(2).fit_transform(values) @ slope for values in (x, new))
    assert np.allclose(Ridge.fit(x, y, quadratic=True).predict(new), wanted, atol=1e-5)
    assert np.abs(Ridge.fit(x, y).predict(new) - wanted).max() > 0.1


def test_many_examples_are_taken_apart_approximately(monkeypatch):
    monkeypatch.setattr("sparse_langevin.problems.arrays.baselines.EXACT", 10)
    x = RNG.standard_normal((80, 5)) @ RNG.standard_normal((5, 60))
    y = x @ RNG.standard_normal((60, 40))
    assert np.allclose(Ridge.fit(x, y).predict(x), y, atol=1e-4 * np.abs(y).max())


def test_baselines_know_the_training_part_only(tmp_path):
    x = RNG.standard_normal((60, 4))
    y = (x @ RNG.standard_normal((4, 30))).reshape(60, 5, 6)
    low = y + 0.2 * RNG.standard_normal(y.shape)
    data = import_arrays(x, y, tmp_path / "data", low=low)
    made = data.problem
    found = {rival.name: rival for rival in made.baselines(data, "test")}
    true, inputs = data.outputs("test"), data.inputs("test")
    mean = np.broadcast_to(data.outputs("train").mean(0), true.shape)
    assert list(found) == ["training mean", "low fidelity", "ridge regression", "quadratic regression"]
    for name, answer in (("training mean", mean), ("low fidelity", low[data.indices("test")])):
        wanted = {measure: float(each.mean()) for measure, each in made.errors(answer, true, inputs).items()}
        assert found[name].errors == pytest.approx(wanted)
    plain = import_arrays(x, y, tmp_path / "plain")
    rivals = {rival.name: rival for rival in plain.problem.baselines(plain, "test")}
    assert rivals["ridge regression"].errors["relative_l2"] < 1e-6 and "R2 1.000" in rivals["ridge regression"].text
    with pytest.raises(ValueError, match="no samples in its test part"):
        made.baselines(import_arrays(x, y, tmp_path / "all", low=low, test_share=0), "test")


def test_constant_outputs_have_baselines(tmp_path):
    data = import_arrays(np.ones((9, 2)), np.ones((9, 3)), tmp_path / "data")
    for rival in data.problem.baselines(data, "test"):
        assert max(rival.errors.values()) < 1e-5


def test_inputs_are_checked():
    made = ArraysProblem(Variable("cx", (2, 3)), Variable("v", (1,)), logs=(False, True))
    good = np.ones((4, 2, 3))
    made.check(good)
    good[0, 0] = -1
    made.check(good)
    for place, value, message in (
        ((2, 1, 0), 0.0, r"example 2: the input at index \(1, 0\) is 0, but must be positive"),
        ((3, 0, 2), np.nan, r"example 3: the input at index \(0, 2\) is nan, but must be finite"),
    ):
        bad = good.copy()
        bad[place] = value
        with pytest.raises(ValueError, match=message):
            made.check(bad)
    with pytest.raises(ValueError, match=r"must have shape \(n, 2, 3\), got \(4, 3\)"):
        made.check(np.ones((4, 3)))


def test_inputs_of_users(tmp_path):
    made, x = problem("yx", "v"), RNG.standard_normal((3, 9, 14))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "one.npy", x[0])
    np.savez(tmp_path / "x.npz", x=x, time=np.arange(3))
    assert np.array_equal(made.read_inputs(tmp_path / "x.npy"), x)
    assert np.array_equal(made.read_inputs(tmp_path / "one.npy"), x[:1])
    assert np.array_equal(made.read_inputs(tmp_path / "x.npz"), x)
    np.save(tmp_path / "bad.npy", x[:, 1:])
    with pytest.raises(ValueError, match=r"bad.npy must hold an array of shape \(n, 9, 14\), got \(3, 8, 14\)"):
        made.read_inputs(tmp_path / "bad.npy")
    number = ArraysProblem(Variable("v", (1,)), Variable("v", (1,)))
    np.save(tmp_path / "numbers.npy", np.arange(3.0))
    assert number.read_inputs(tmp_path / "numbers.npy").shape == (3, 1)


def test_inputs_of_users_with_a_low_fidelity(tmp_path):
    made, x, low = problem("yx", "v", low=True), RNG.standard_normal((3, 9, 14)), RNG.standard_normal((3, 5))
    both = np.concatenate([x.reshape(3, -1), low], axis=1)
    np.savez(tmp_path / "x.npz", inputs=x, low=low)
    np.save(tmp_path / "flat.npy", both)
    assert np.array_equal(made.read_inputs(tmp_path / "x.npz"), both)
    assert np.array_equal(made.read_inputs(tmp_path / "flat.npy"), both)
    np.savez(tmp_path / "bad.npz", inputs=x, low=low[:2])
    with pytest.raises(ValueError, match="3 inputs and 2 low-fidelity outputs"):
        made.read_inputs(tmp_path / "bad.npz")


@pytest.mark.parametrize("first", ["v", "cx", "zyx"])
@pytest.mark.parametrize("second", LAYOUTS)
def test_pictures_of_every_layout(first, second):
    made = problem(first, second, low=True)
    x, y = examples(made)
    full = made.figure(x[0], y[0], y[1], np.abs(y[2]))
    bare = made.figure(x[0], None, y[1], None)
    for figure in (full, bare):
        figure.canvas.draw()
    if len(made.output.grid) > 1:
        maps = [axis for axis in full.axes if axis.images][-4 * min(made.output.components, 4) :]
        assert maps[0].images[0].get_clim() == maps[1].images[0].get_clim()
        middle = y[1].reshape(made.output.components, *made.output.grid)[0]
        middle = middle[len(middle) // 2] if middle.ndim == 3 else middle
        assert np.array_equal(maps[1].images[0].get_array(), middle)


def test_labels_have_names_and_units():
    output = Variable("cyx", (2, 6, 6), ("p", "T"), ("Pa", "K"))
    made = ArraysProblem(Variable("v", (2,), ("a", "b")), output)
    figure = made.figure(np.ones(2), np.ones((2, 6, 6)), np.zeros((2, 6, 6)), None)
    titles = {axis.get_title() for axis in figure.axes}
    assert {"p [Pa], simulator", "T [K], surrogate", "error of T [K]", "input"} <= titles


def test_entries_of_different_size_share_a_picture():
    made = ArraysProblem(Variable("v", (2,)), Variable("v", (2,), ("a", "b")), rms=(1.0, 500.0))
    axis = made.figure(np.ones(2), np.array([1.0, 400.0]), np.array([2.0, 600.0]), None).axes[1]
    assert np.allclose(axis.lines[-1].get_ydata(), [1.0, 0.8]) and "root mean square" in axis.get_ylabel()


@pytest.mark.parametrize(("layout", "extent"), [("cyx", "0 6 0 11 0 0"), ("zyx", "0 7 0 6 0 5")])
def test_vtk_files(layout, extent, tmp_path):
    made = problem(layout, layout)
    x, y = examples(made)
    made.write_vti(tmp_path / "a.vti", x[0], {"mean": y[0], "std": y[1]}, overwrite=False)
    text = (tmp_path / "a.vti").read_text()
    assert f'WholeExtent="{extent}"' in text
    found = dict(re.findall(r'Name="([^"]*)".*?>([^<]*)</DataArray>', text))
    ends = ("",) if layout == "zyx" else (" 0", " 1")
    assert set(found) == {name + end for name in ("mean", "std", "input") for end in ends}
    values = np.frombuffer(base64.b64decode(found["std" + ends[-1]])[8:])
    assert np.array_equal(values, y[1].reshape(made.output.components, -1)[-1])
    with pytest.raises(FileExistsError):
        made.write_vti(tmp_path / "a.vti", x[0], {"mean": y[0]}, overwrite=False)
    with pytest.raises(ValueError, match="need fields in two or three directions"):
        problem("v", "x").write_vti(tmp_path / "b.vti", x[0], {}, overwrite=False)


def test_notes_and_extras(tmp_path):
    x, y = RNG.standard_normal((10, 2)), RNG.standard_normal((10, 30))
    data = import_arrays(x, y, tmp_path / "data", output_layout="x", title="My model")
    assert data.problem.title == "My model" and data.problem.extras(x, y) == {}
    assert "8 examples to train and 2 to test" in data.problem.note(data)
    assert [measure.name for measure in data.problem.measures] == ["relative_l2", "rmse"]
