"""The examples run, and give the results they promise."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


def run(name, folder):
    numbers = importlib.import_module(name).main(folder)
    assert (folder / f"{name}.png").stat().st_size > 10_000
    return numbers


def test_linear_regression(tmp_path):
    numbers = run("linear_regression", tmp_path)
    assert numbers["least_inclusion_of_effects"] > 0.5
    assert numbers["largest_inclusion_of_zeros"] < 0.2
    assert numbers["effects_covered"] >= 4  # of five, at 95 %
    assert numbers["sigma"] == pytest.approx(1.0, abs=0.15)
    assert numbers["psgld_sa"] < numbers["least squares"]
    assert numbers["psgld_sa"] < 1.1 * numbers["oracle (knows the five)"]


def test_mlp_uncertainty(tmp_path):
    numbers = run("mlp_uncertainty", tmp_path)
    assert 0.92 < numbers["coverage"] < 0.99
    assert 0.80 < numbers["coverage_gap"] <= 1.0
    assert numbers["noise"] == pytest.approx(0.2, abs=0.05)
    assert numbers["rmse"] < 0.25
    assert numbers["std_gap"] > 2 * numbers["std_data"]
    assert numbers["std_outside"] > 2 * numbers["std_data"]


def test_digits_sparse(tmp_path):
    numbers = run("digits_sparse", tmp_path)
    assert numbers["weights"] == 8192 + 8192 + 640
    assert numbers["zeros"] == round(0.9 * 8192) * 2 + round(0.9 * 640)
    assert numbers["average"] > 0.93
    assert numbers["average"] > numbers["dense"] - 0.03


def test_darcy_gallery(tmp_path):
    residuals = importlib.import_module("darcy_gallery").main(tmp_path, cells=20)
    assert len(residuals) == 6 and max(residuals.values()) < 1e-11
    assert all((tmp_path / f"darcy-{name}.png").stat().st_size > 10_000 for name in residuals)


def test_variable_selection(tmp_path):
    numbers = run("variable_selection", tmp_path)
    assert numbers["chosen by SparseBayesRegressor"] == 2
    assert numbers["mse of SparseBayesRegressor"] < numbers["mse of LassoCV"] < numbers["mse of ARDRegression"]
    assert numbers["coverage of 90 % intervals"] == pytest.approx(0.9, abs=0.04)
