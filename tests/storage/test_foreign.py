"""Files of others: what is read, and what is refused before it can do harm."""

import io
import resource
import struct
import time
import zipfile

import h5py
import numpy as np
import pytest

from sparse_langevin.storage.foreign import UnreadableError, opened_array, variables
from tests.storage.crashes import flipped

VALUES = np.arange(24.0).reshape(4, 2, 3)


def read(path, name=""):
    with opened_array(path, name) as array:
        return np.array(array[:])


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "a.npz", x=VALUES, y=VALUES + 1)
    np.savez_compressed(tmp_path / "b.npz", x=np.asfortranarray(VALUES))
    np.save(tmp_path / "none.npy", VALUES[:0])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("group/x", data=VALUES, compression="gzip")
        file["x"] = VALUES
    return tmp_path


def test_every_format_gives_what_was_saved(files):
    assert variables(files / "a.npy") == [""] and variables(files / "a.npz") == ["x", "y"]
    assert variables(files / "a.h5") == ["group/x", "x"]
    for path, name in (("a.npy", ""), ("a.npz", "x"), ("b.npz", "x"), ("a.h5", "x"), ("a.h5", "group/x")):
        np.testing.assert_array_equal(read(files / path, name), VALUES)
    assert read(files / "none.npy").shape == (0, 2, 3)


def test_errors_of_the_user_of_an_array_are_left_alone(files):
    with pytest.raises(ZeroDivisionError), opened_array(files / "a.npy"):
        _ = 1 / 0
    with pytest.raises(ValueError, match=r"^mine$"), opened_array(files / "a.h5", "x"):
        raise ValueError("mine")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.h5"])
def test_cut_and_foreign_files_are_named(name, files):
    data = (files / name).read_bytes()
    for wrong in (b"", b"PK\x03\x04", b"\x93NUMPY", data[: len(data) // 2], b"#" * 3000):
        (files / name).write_bytes(wrong)
        with pytest.raises(UnreadableError, match=rf"{name} cannot be read: "):
            read(files / name, "" if name == "a.npy" else "x")
    with pytest.raises(UnreadableError, match="there is no file"):
        variables(files / f"none.{name}")
    with pytest.raises(UnreadableError, match=r"name must end in \.npy, \.npz, \.h5, \.hdf5"):
        variables(files / "a.pkl")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([print], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([print], dtype=object))
    for path, name in ((tmp_path / "a.npy", ""), (tmp_path / "a.npz", "x")):
        with pytest.raises(UnreadableError, match="holds Python objects, which are not loaded"):
            read(path, name)


def head(shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def bombs(folder):
    """Small files that declare terabytes, or expand to gigabytes."""
    (folder / "long.npy").write_bytes(head((10**9, 1000)) + bytes(80))
    with zipfile.ZipFile(folder / "long.npz", "w") as file:
        file.writestr("x.npy", head((10**9, 1000)) + bytes(80))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("x.npy", "w") as member:
        member.write(head((2**26,)))
        for _ in range(2**5):
            member.write(bytes(2**24))
    with h5py.File(folder / "bomb.h5", "w") as file:
        file.create_dataset("x", (2**20, 2**10), "f8", chunks=(2**10, 2**10), compression="gzip", fillvalue=1.0)
    with h5py.File(folder / "empty.h5", "w") as file:
        file.create_dataset("x", (10**9, 1000), "f8")
    return ["long.npy", "long.npz", "bomb.npz", "bomb.h5", "empty.h5"]


def test_bombs_are_refused_before_they_expand(tmp_path):
    names = bombs(tmp_path)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for name in names:
        with pytest.raises(UnreadableError, match=rf"{name} cannot be read: .*(declares|expand)"):
            read(tmp_path / name, "" if name == "long.npy" else "x")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e5 and time.monotonic() - begin < 10


def test_a_directory_that_lies_about_a_member_is_noticed(files):
    """The archive's directory says 100 bytes, the member has more."""
    data = bytearray((files / "a.npz").read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 100)
    (files / "a.npz").write_bytes(data)
    with pytest.raises(UnreadableError, match=r"a\.npz cannot be read: "):
        read(files / "a.npz", "x")


def test_arrays_larger_than_the_machine_are_refused(files, monkeypatch):
    monkeypatch.setattr("sparse_langevin.runtime.memory.machine_memory", lambda: 100)
    with pytest.raises(UnreadableError, match=r"needs about 0 GB of memory, .* save it as \.npy or HDF5"):
        read(files / "a.npz", "x")
    assert len(read(files / "a.npy")) == 4


@pytest.mark.parametrize("kind", ["external link", "soft link", "external storage", "virtual"])
def test_other_files_are_not_read_through_hdf5(kind, tmp_path):
    """The secret lies in a file that the user did not name."""
    np.full(6, 7.0).tofile(tmp_path / "secret")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["secret"] = np.full(6, 7.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "external link":
            file["x"] = h5py.ExternalLink("secret.h5", "/secret")
        elif kind == "soft link":
            file["y"] = h5py.ExternalLink("secret.h5", "/secret")
            file["x"] = h5py.SoftLink("/y")
        elif kind == "external storage":
            file.create_dataset("x", (6,), "f8", external=[(str(tmp_path / "secret"), 0, 48)])
        else:
            layout = h5py.VirtualLayout((6,), "f8")
            layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "secret", (6,))
            file.create_virtual_dataset("x", layout)
    with pytest.raises(UnreadableError, match=r"links to other files are not followed|are in other files"):
        read(tmp_path / "a.h5", "x")


def test_a_data_set_without_numbers_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.Empty("f8")
    with pytest.raises(UnreadableError, match="'x' has a type but no numbers"):
        read(tmp_path / "a.h5", "x")


def test_groups_without_end_are_not_walked(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        place = file
        for _ in range(500):
            place = place.create_group("g")
        file["x"] = VALUES
    with pytest.raises(UnreadableError, match=r"a\.h5 cannot be read: its groups are nested more than 50 deep"):
        variables(tmp_path / "a.h5")


def test_a_damaged_chunk_is_named(files):
    path = files / "a.h5"
    with h5py.File(path) as file:
        place = file["group/x"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[place : place + 8] = bytes(8)
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match=r"a\.h5 cannot be read: "):
        read(path, "group/x")


def test_every_flipped_bit_of_a_header_is_harmless(tmp_path):
    """NumPy reads headers as Python, and raises whatever its parser does."""
    np.save(tmp_path / "a.npy", VALUES)
    refused = 0
    for position in flipped(tmp_path / "a.npy"):
        if position >= 8 * 128:  # the numbers, which are as good as any others
            continue
        try:
            with opened_array(tmp_path / "a.npy") as found:
                assert found.nbytes <= VALUES.nbytes
        except UnreadableError as error:
            assert str(error).startswith(f"{tmp_path / 'a.npy'} cannot be read: ")
            refused += 1
    assert refused > 300
