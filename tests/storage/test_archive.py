"""Archives that are written piece by piece: what numpy reads from them, and what is left if they fail."""

import errno
import zipfile

import numpy as np
import pytest

from sparse_langevin.storage import archive
from sparse_langevin.storage.archive import write_npz
from tests.storage.crashes import crash_everywhere

RNG = np.random.default_rng(0)
ARRAYS = {
    "velocity": RNG.standard_normal((7, 3)).astype(np.float32),
    "pressure": np.asfortranarray(RNG.standard_normal((7, 2, 4))),
    "count": np.arange(7),
    "quantiles": RNG.standard_normal((2, 7, 3)),
}


def pieces(sizes):
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        yield {name: array[:, rows] if name == "quantiles" else array[rows] for name, array in ARRAYS.items()}
        start += size


@pytest.mark.parametrize("sizes", [(7,), (3, 3, 1), (1,) * 7])
def test_pieces_make_the_same_arrays_as_numpy(tmp_path, sizes):
    levels = np.array([0.1, 0.9])
    write_npz(tmp_path / "new" / "a.npz", pieces(sizes), whole={"levels": levels}, second=("quantiles",))
    with np.load(tmp_path / "new" / "a.npz", allow_pickle=False) as found:
        assert set(found) == {*ARRAYS, "levels"} and np.array_equal(found["levels"], levels)
        for name, array in ARRAYS.items():
            assert found[name].dtype == array.dtype and np.array_equal(found[name], array), name
    with zipfile.ZipFile(tmp_path / "new" / "a.npz") as found:
        assert all(member.compress_type == zipfile.ZIP_DEFLATED for member in found.infolist())
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.npz"]


def test_no_rows(tmp_path):
    write_npz(tmp_path / "a.npz", pieces((0,)), second=("quantiles",))
    with np.load(tmp_path / "a.npz") as found:
        assert found["pressure"].shape == (0, 2, 4) and found["quantiles"].shape == (2, 0, 3)


def test_nothing_half_written_has_the_name(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"

    def failing():
        yield from pieces((3,))
        raise ValueError("the rest cannot be read")

    with pytest.raises(ValueError, match="the rest cannot be read"):
        write_npz(path, failing(), second=("quantiles",))
    assert not list(tmp_path.iterdir())
    write_npz(path, pieces((7,)), second=("quantiles",))
    old = path.read_bytes()
    with pytest.raises(FileExistsError, match="it exists"):
        write_npz(path, pieces((3,)))

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match=r"No space left on device: '.*a\.npz'"):
        patched.setattr(archive._Waiting, "write", full)
        write_npz(path, pieces((3,)), second=("quantiles",), overwrite=True)
    assert path.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_a_crash_leaves_the_old_archive_or_the_new_one(tmp_path):
    path = tmp_path / "a.npz"
    write_npz(path, pieces((7,)), second=("quantiles",))

    def old_or_new():
        with np.load(path) as found:
            assert found["count"].tolist() in ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2])

    crashes = crash_everywhere(
        lambda: write_npz(path, pieces((2, 1)), second=("quantiles",), overwrite=True), old_or_new
    )
    assert crashes >= 4
