"""Data sets from arrays: every source gives the same numbers, splits hold, and what is wrong is refused in words."""

import h5py
import numpy as np
import pytest
from scipy.stats import skew

from sparse_langevin.problems.arrays import ArraysData, import_arrays
from sparse_langevin.problems.arrays import sources as sources_module
from sparse_langevin.storage.errors import DamagedError, MismatchError, StorageError
from sparse_langevin.surrogates.problem import DataSet, open_data, problem_from_json

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((20, 3)), RNG.standard_normal((20, 4, 5))


@pytest.fixture
def files(tmp_path):
    """The same arrays in every format."""
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "both.npz", inputs=X, outputs=Y, other=X)
    np.savez_compressed(tmp_path / "xy.npz", x=X, y=Y)
    with h5py.File(tmp_path / "named.h5", "w") as file:
        file["run/parameters"], file["run/fields"] = X, Y
    for name, array in (("xs", X), ("ys", Y)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "b.npy", array[12:])
        np.save(tmp_path / name / "a.npy", array[:12])
    (tmp_path / "many").mkdir()
    for index, rows in enumerate((slice(0, 1), slice(1, 20))):
        with h5py.File(tmp_path / "many" / f"{index}.hdf5", "w") as file:
            file["inputs"], file["outputs"] = X[rows], Y[rows]
    return tmp_path


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ("x.npy", "y.npy"),
        ("both.npz", None),
        ("both.npz:inputs", "both.npz"),
        ("xy.npz", "xy.npz"),
        ("named.h5:run/parameters", "named.h5:run/fields"),
        ("xs", "ys"),
        ("many", None),
        ("many:inputs", "y.npy"),
    ],
)
def test_every_source_gives_the_same_data(files, inputs, outputs, monkeypatch):
    monkeypatch.setattr(sources_module, "PIECE", 500)  # bytes: several pieces to a file
    data = import_arrays(f"{files}/{inputs}", None if outputs is None else f"{files}/{outputs}", files / "data")
    assert isinstance(data, DataSet)
    for part, count in (("train", 16), ("test", 4)):
        chosen = data.indices(part)
        assert len(chosen) == count
        assert np.array_equal(data.inputs(part), X[chosen]) and np.array_equal(data.outputs(part), Y[chosen])
    everything = np.concatenate([data.indices("train"), data.indices("test")])
    assert sorted(everything) == list(range(20)) and not np.array_equal(everything, np.arange(20))
    reopened = open_data(files / "data")
    assert isinstance(reopened, ArraysData) and reopened.fingerprint == data.fingerprint
    twin = problem_from_json(data.problem.as_json())
    assert twin.as_json() == data.problem.as_json() and data.problem.title == "data"


def test_statistics_are_those_of_the_training_part(tmp_path, monkeypatch):
    monkeypatch.setattr("sparse_langevin.problems.arrays.statistics.PIECE", 700)
    rng = np.random.default_rng(1)
    x = np.exp(rng.standard_normal((50, 3)))
    x[:, 1] = rng.uniform(1, 2, 50)
    x[:, 2] *= np.where(np.arange(50) == 3, -1, 1)
    y = RNG.standard_normal((50, 2, 4, 5)) * np.array([1.0, 30.0])[:, None, None] + 2
    problem = (data := import_arrays(x, y, tmp_path / "data")).problem
    trained = data.outputs("train")
    assert problem.rms == pytest.approx(np.sqrt(np.square(trained).mean((0, 2, 3))))
    assert problem.std == pytest.approx(np.sqrt(np.square(trained - trained.mean(0)).mean((0, 2, 3))))
    skewed, of_logarithm = (abs(skew(f(data.inputs("train")[:, 0]))) for f in (np.asarray, np.log))
    assert skewed > 1 and of_logarithm < 0.5 * skewed and abs(skew(data.inputs("train")[:, 1])) < 1
    assert problem.logs == (True, False, False)  # the last is skewed, too, but not positive everywhere
    assert data.summary()["logarithms"] == "of input 0"


def test_splits(tmp_path):
    last = import_arrays(X, Y, tmp_path / "last", shuffle=False, test_share=0.25)
    assert list(last.indices("test")) == [15, 16, 17, 18, 19] and list(last.indices("train")) == list(range(15))
    one, two = (import_arrays(X, Y, tmp_path / str(seed), seed=seed) for seed in (1, 2))
    assert set(one.indices("test")) != set(two.indices("test")) and one.fingerprint != two.fingerprint
    few = import_arrays(X, Y, tmp_path / "few", samples=5, test_share=0)
    assert len(few) == 5 and not len(few.inputs("test"))
    assert set(few.indices("train")) == set(range(5))


def test_the_low_fidelity_stands_behind_the_inputs(tmp_path):
    data = import_arrays(X, Y, tmp_path / "data", low=Y + 1)
    chosen = data.indices("test")
    assert data.problem.input_shape == (23,)
    assert np.array_equal(data.inputs("test"), np.concatenate([X[chosen], Y[chosen].reshape(4, -1) + 1], axis=1))
    with pytest.raises(ValueError, match=r"low has shape \(20, 4, 4\), but must have that of the outputs"):
        import_arrays(X, Y, tmp_path / "other", low=Y[:, :, :4])


def test_numbers_and_integers(tmp_path):
    data = import_arrays(np.arange(20), Y.astype(np.float32), tmp_path / "data")
    assert data.inputs("train").shape == (16, 1) and data.inputs("train").dtype == np.float64
    assert np.load(tmp_path / "data" / "outputs.npy").dtype == np.float32
    assert np.array_equal(data.outputs("train"), Y.astype(np.float32)[data.indices("train")].astype(float))


def test_the_same_call_again_changes_nothing(files):
    def again(**changes):
        return import_arrays(files / "x.npy", files / "y.npy", files / "data", **changes)

    again()
    before = {path.name: path.stat().st_mtime_ns for path in (files / "data").iterdir()}
    again()
    assert {path.name: path.stat().st_mtime_ns for path in (files / "data").iterdir()} == before
    for changes, message in (
        ({"seed": 1}, "split.seed = 0, now it is 1"),
        ({"input_names": ["a", "b", "c"]}, "input.names"),
        ({"low": Y}, "sources.low"),
    ):
        with pytest.raises(MismatchError, match=message):
            again(**changes)
    np.save(files / "x.npy", X + 1)
    with pytest.raises(MismatchError, match=r"sources\.inputs\.sha256"):
        again()
    np.save(files / "x.npy", X)
    fingerprint = open_data(files / "data").fingerprint
    (files / "data" / "outputs.npy").unlink()
    assert again().fingerprint == fingerprint and np.array_equal(np.load(files / "data" / "outputs.npy"), Y)


def test_foreign_folders_and_damage(files):
    with pytest.raises(MismatchError, match="not a data set of ours"):
        import_arrays(X, Y, files / "xs")
    data = import_arrays(X, Y, files / "data")
    raw = bytearray((files / "data" / "outputs.npy").read_bytes())
    raw[-1] ^= 1
    (files / "data" / "outputs.npy").write_bytes(raw)
    with pytest.raises(DamagedError, match="does not match its SHA-256"):
        data.outputs("train")
    with pytest.raises(StorageError):
        ArraysData(files / "data", verify=True)


def with_nan(array, place, value=np.nan):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[:19], Y), "differ in their number of samples.*inputs 19, outputs 20"),
        ((X, with_nan(Y, (7, 2, 3))), r"outputs, sample 7: the number at index \(2, 3\) is nan"),
        ((with_nan(X, (3, 1), -np.inf), Y), r"inputs, sample 3: the number at index \(1,\) is -inf"),
        ((X + 1j, Y), "inputs must hold real numbers, got complex128: turn"),
        ((X.astype(str), Y), "inputs must hold real numbers"),
        ((X[:0], Y[:0]), "0 samples leave 0 to train on"),
        ((X[:2], Y[:2]), "2 samples leave 1 to train on, but at least 2"),
        ((np.zeros(()), Y), "inputs is a single number"),
        ((X, None), "outputs are missing"),
    ],
)
def test_arrays_that_are_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        import_arrays(*arguments, tmp_path / "data")
    assert not (tmp_path / "data").exists() or not any((tmp_path / "data").iterdir())
    import_arrays(X, Y, tmp_path / "data")  # the folder is free


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_share": 1.0}, "test_share is a share"),
        ({"samples": 21}, "21 samples were asked for, but there are 20"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"input_layout": "yx"}, "inputs: layout 'yx'"),
        ({"output_names": ["a", "b"]}, "outputs: 2 names were given for 1 channels"),
    ],
)
def test_options_that_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        import_arrays(X, Y, tmp_path / "data", **options)


def test_files_that_are_refused(files):
    np.save(files / "pickled.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(files / "only.npz", inputs=X)
    (files / "cut.npy").write_bytes((files / "x.npy").read_bytes()[:-9])
    (files / "text.csv").write_text("1,2")
    (files / "broken.h5").write_bytes(b"no")
    np.save(files / "xs" / "c.npy", X[:, :2])
    (files / "nothing").mkdir()
    for name, message in {
        "missing.npy": "there is no file or folder",
        "pickled.npy": "cannot be read: .*Python objects",
        "cut.npy": "cannot be read",
        "broken.h5": "cannot be read",
        "text.csv": "its name must end in .npy, .npz",
        "named.h5": "has the variables run/fields, run/parameters, and none is called inputs or x: name one",
        "both.npz:velocity": "no variable 'velocity'; it has inputs, outputs, other",
        "xs": r"c.npy has shape \(20, 2\), but the files before it have \(12, 3\)",
        "nothing": "has no files that end in",
    }.items():
        with pytest.raises(ValueError, match=message):
            import_arrays(files / name, files / "y.npy", files / "data")
    with pytest.raises(ValueError, match=r"outputs: .*only.npz has the variables inputs"):
        import_arrays(files / "only.npz", None, files / "data")  # not the inputs again
    assert not (files / "data").exists()
