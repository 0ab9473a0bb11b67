"""Predictions that are made and written in pieces are those that are made at once."""

import numpy as np
import pytest

from sparse_langevin.problems.arrays import import_arrays
from sparse_langevin.surrogates import predict, prediction, train
from sparse_langevin.surrogates.calibration import run_factors
from sparse_langevin.surrogates.ranges import outside, range_of
from tests.commands import call, refused
from tests.surrogates.conftest import short
from tests.surrogates.small import NETWORK

OWN = ("--network", NETWORK)
LEVELS = [0.05, 0.9]


@pytest.fixture
def pieces(monkeypatch):
    """As few inputs at a time as possible: as many as a network gets in one call."""
    monkeypatch.setattr(prediction, "PIECE", 1)


@pytest.fixture(scope="module")
def judged(data, tmp_path_factory):
    return train(short(validation=0.2), data, tmp_path_factory.mktemp("runs") / "run", progress=False)


@pytest.fixture(scope="module")
def kappa(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    fields = np.exp(np.random.default_rng(1).standard_normal((230, 6, 8)) / 4)
    np.save(folder / "kappa.npy", fields)
    np.savez(folder / "kappa.npz", kappa=fields)
    return folder, fields


@pytest.mark.parametrize("name", ["kappa.npy", "kappa.npz"])
@pytest.mark.parametrize("how", ["samples", "recalibrated", "last"])
def test_the_same_bits_as_at_once(judged, kappa, tmp_path, pieces, how, name):
    folder, fields = kappa
    place, levels = judged, [] if how == "last" else LEVELS
    options = [word for level in levels for word in ("--quantiles", level)]
    options += [] if how == "samples" else [f"--{how}"]
    assert len(prediction.slices(fields)) == 3
    call("predict", place.path, *OWN, "--input", folder / name, "--out", tmp_path / "a.npz", *options)
    made = predict(place, fields, last=how == "last", quantiles=levels if how == "samples" else ())
    if how == "recalibrated":
        made = run_factors(place).apply(made, levels)
    wanted = {"velocity": made.mean.numpy()} | place.problem.extras(fields, made.mean.double().numpy())
    if how != "last":
        wanted |= {"std": made.std.numpy(), "total_std": made.total_std.numpy()}
        wanted |= {"levels": np.array(levels), "quantiles": made.quantiles.numpy()}
    with np.load(tmp_path / "a.npz") as found:
        assert set(found) == set(wanted)
        for array, values in wanted.items():
            assert found[array].dtype == values.dtype and np.array_equal(found[array], values), array


def test_one_input_for_paraview(judged, kappa, tmp_path, pieces):
    folder, _ = kappa
    out = call(
        "predict", judged.path, *OWN, "--input", folder / "kappa.npy", "--sample", 210, "--out", tmp_path / "a.vti"
    )
    assert out.startswith("1 prediction (mean of 3 posterior samples)")
    assert b"permeability" in (tmp_path / "a.vti").read_bytes()


def test_inputs_are_counted_from_the_first(judged, kappa, tmp_path, pieces, monkeypatch, capsys):
    fields = kappa[1].copy()
    fields[217, 1, 2] = -1
    np.save(tmp_path / "bad.npy", fields)
    words = "predict", judged.path, *OWN, "--input", tmp_path / "bad.npy", "--out", tmp_path / "a.npz"
    assert "sample 217: kappa must be positive" in refused(monkeypatch, capsys, *words)
    assert not (tmp_path / "a.npz").exists()
    fields[217, 1, 2], fields[105, 0, 0] = 40, 30
    known = range_of(kappa[1])
    assert "2 of 230 inputs" in (text := outside(fields, known)) and "number 217 with 40" in text


def test_files_of_arrays_are_read_as_they_are_sliced(tmp_path, pieces, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    x, low = rng.standard_normal((250, 3)), rng.standard_normal((250, 2))
    for name, options in (("plain", {}), ("two", {"low": low})):
        data = import_arrays(x, low + 1, tmp_path / name, **options)
        place = train(short(network="mlp"), data, tmp_path / f"run-{name}", progress=False)
        (tmp_path / f"in-{name}").mkdir()
        inputs = np.concatenate([x, low], axis=1) if options else x
        for i in range(2):  # a folder of files, whose border is inside a piece
            np.save(tmp_path / f"in-{name}" / f"{i}.npy", inputs[170 * i : 170 * (i + 1)])
        opened = place.problem.read_inputs(tmp_path / f"in-{name}")
        assert np.array_equal(opened, inputs) and np.array_equal(opened[150:200], inputs[150:200])
        out = tmp_path / f"{name}.npz"
        call("predict", place.path, "--input", tmp_path / f"in-{name}", "--out", out)
        with np.load(out) as found:
            assert np.array_equal(found["outputs"], predict(place, inputs).mean.numpy())
    bad = x.copy()
    bad[201, 1] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    words = "predict", tmp_path / "run-plain", "--input", tmp_path / "bad.npy", "--out", tmp_path / "b.npz"
    assert "inputs, sample 201: the number at index (1,) is nan" in refused(monkeypatch, capsys, *words)
