"""VTK image data, read back by the rules of the format."""

import base64
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from sparse_langevin.problems.darcy import Grid, solve, write_vti


def read(path):
    root = ElementTree.parse(path).getroot()
    image = root.find("ImageData")
    fields = {}
    for array in image.iter("DataArray"):
        raw = base64.b64decode(array.text)
        assert int.from_bytes(raw[:8], "little") == len(raw) - 8
        values = np.frombuffer(raw[8:], "<f8")
        fields[array.get("Name")] = values.reshape(-1, int(array.get("NumberOfComponents")))
    return image.attrib, fields


def test_solution_survives(tmp_path):
    kappa = np.exp(np.random.default_rng(0).standard_normal((3, 5)))
    solution = solve(kappa, lengths=(2.0, 1.0))
    solution.write_vti(tmp_path / "flow.vti", kappa)
    attributes, fields = read(tmp_path / "flow.vti")
    assert attributes["WholeExtent"] == "0 5 0 3 0 0"
    assert [float(h) for h in attributes["Spacing"].split()] == [2 / 5, 1 / 3, 1]
    assert np.array_equal(fields["permeability"][:, 0], kappa.ravel())  # x runs fastest, as in kappa[j, i]
    assert np.array_equal(fields["pressure"][:, 0], solution.pressure.ravel())
    x, y = solution.centre_velocity()
    assert np.array_equal(fields["velocity"], np.stack([x.ravel(), y.ravel(), np.zeros(15)], axis=1))


def test_lengths_may_be_numpy_numbers(tmp_path):
    write_vti(tmp_path / "a.vti", Grid(5, 3, np.float64(2.0), np.float64(1.0)), {})
    assert [float(h) for h in read(tmp_path / "a.vti")[0]["Spacing"].split()] == [2 / 5, 1 / 3, 1]


def test_files_are_not_overwritten(tmp_path):
    write_vti(tmp_path / "a.vti", Grid(2, 2), {"one": np.ones((2, 2))})
    with pytest.raises(FileExistsError, match="choose another name"):
        write_vti(tmp_path / "a.vti", Grid(2, 2), {"two": np.ones((2, 2))})
    write_vti(tmp_path / "a.vti", Grid(2, 2), {"two": np.ones((2, 2))}, overwrite=True)
    assert list(read(tmp_path / "a.vti")[1]) == ["two"]
    with pytest.raises(ValueError, match=r"ends in .vti"):
        write_vti(tmp_path / "a.vtk", Grid(2, 2), {})
    with pytest.raises(ValueError, match=r"two must have shape \(2, 2\) or \(2, 2, 2\)"):
        write_vti(tmp_path / "b.vti", Grid(2, 2), {"two": np.ones(4)})
    assert not (tmp_path / "b.vti").exists()
