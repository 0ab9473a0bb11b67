"""Folders that somebody has made up, digests and all: they are refused in one line, before they take memory."""

import io
import json
import resource
import shutil

import numpy as np
import pytest
from safetensors.torch import save

from sparse_langevin.deploy import read_manifest
from sparse_langevin.problems.arrays import import_arrays
from sparse_langevin.problems.darcy import DarcyData
from sparse_langevin.storage.artefact import MANIFEST
from sparse_langevin.storage.checkpoint import checkpoints
from sparse_langevin.storage.errors import DamagedError, MismatchError
from sparse_langevin.storage.files import canonical, sha256
from sparse_langevin.storage.runs import RunFolder
from sparse_langevin.surrogates import Settings, SurrogateRun, open_data, predict, train
from sparse_langevin.surrogates.export import export_run, load_exported
from sparse_langevin.surrogates.networks import make_network
from sparse_langevin.surrogates.ranges import outside


def forge(folder, change=lambda found: None, **files):
    """Change a manifest and files of a folder, and enter the digests that they should have."""
    found = json.loads((folder / MANIFEST).read_bytes())
    del found["sha256"]
    change(found)
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
        found["files"][name.replace("__", ".")] = sha256(data)
    (folder / MANIFEST).write_text(json.dumps(found | {"sha256": sha256(canonical(found))}))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    data = import_arrays(rng.standard_normal((30, 3)), rng.standard_normal((30, 2)), folder / "data")
    options = {"width": 4, "depth": 2}
    settings = Settings.of("psgld-sa", epochs=2, samples=2, network="mlp", network_options=options)
    run = train(settings, data, folder / "run", progress=False)
    export_run(run, folder / "small")
    return folder


@pytest.fixture
def copy(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize(
    "options", [{"width": 10**9}, {"width": 40_000}, {"width": 1, "depth": 1000}, {"width": 4, "depth": 10**9}]
)
def test_a_network_larger_than_its_weights_is_not_made(options, copy):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forge(copy / "run", lambda found: found["body"]["settings"].update(network_options=options))
    with pytest.raises(ValueError, match=r"more parameters than are stored|depth must be an integer"):
        SurrogateRun.open(copy / "run").surrogate()
    forge(copy / "small", lambda found: found["body"]["meta"]["settings"].update(network_options=options))
    with pytest.raises(ValueError, match=r"more parameters than are stored|depth must be an integer"):
        load_exported(copy / "small")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e5


def test_a_network_with_other_weights_is_named(copy):
    forge(copy / "run", lambda found: found["body"]["settings"].update(network_options={"width": 3, "depth": 2}))
    with pytest.raises(ValueError, match=r"mlp has changed since it was trained .*size mismatch"):
        SurrogateRun.open(copy / "run").surrogate()


def test_sparse_layers_that_would_fill_the_memory(copy):
    def widen(found):
        for layer in found["body"]["layers"].values():
            layer["shape"] = [10**6, 10**4]

    forge(copy / "small", widen)
    with pytest.raises(ValueError, match="it would expand from"):
        read_manifest(copy / "small")


def test_functions_of_ours_are_no_networks(data):
    for name in ("sparse_langevin.cli:main", "sparse_langevin.surrogates.problem:import_module"):
        with pytest.raises(ValueError, match="is not a class of networks"):
            make_network(name, data.problem, {})


@pytest.mark.parametrize("text", ["[" * 10**5, "[]", "{}", '{"layers": 3}', "7"])
def test_results_that_are_none(text, copy):
    forge(copy / "run", result__json=text.encode())
    with pytest.raises(DamagedError, match="it is not a run's result"):
        _ = SurrogateRun.open(copy / "run").result


def test_weights_and_histories_that_are_none(copy):
    forge(copy / "run", model__safetensors=b"\xff" * 100, history__jsonl=b"")
    run = SurrogateRun.open(copy / "run")
    with pytest.raises(DamagedError, match=r"model\.safetensors is damaged"):
        run.surrogate()
    with pytest.raises(DamagedError, match=r"history\.jsonl is damaged: it is empty"):
        run.history()


def test_ranges_that_are_none():
    for known in (7, {}, {"low": "a", "high": 1}, {"low": [1, 2], "high": [3, 4, 5]}):
        with pytest.raises(ValueError, match="the range of the training inputs makes no sense"):
            outside(np.zeros((4, 3)), known)


def test_a_history_that_is_a_link_is_not_cut(tmp_path):
    (tmp_path / "mine").write_text("Mine.")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").symlink_to("../mine")
    with pytest.raises(MismatchError, match="is a link to another file"):
        RunFolder(tmp_path / "run", 1).latest({})


@pytest.mark.parametrize("spoil", ["no meta", "no epoch", "a word for an epoch", "no tensors"])
def test_checkpoints_that_make_no_sense(spoil, copy):
    run = SurrogateRun.open(copy / "run")
    forge(run.path, lambda found: found.update(files=None))  # not finished any more
    last = checkpoints(run.path / "checkpoints")[-1]
    if spoil == "no tensors":
        forge(last, state__safetensors=save({}))
    elif spoil == "no meta":
        forge(last, lambda found: found["body"].pop("meta"))
    elif spoil == "no epoch":
        forge(last, lambda found: found["body"]["meta"].pop("epoch"))
    else:
        forge(last, lambda found: found["body"]["meta"].update(epoch="first"))
    with pytest.raises(DamagedError, match="makes no sense"):
        train(run.settings, open_data(copy / "data"), run.path, progress=False)


def bytes_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("order__npy", np.arange(30) + 10**9, "beyond the 30 samples"),
        ("order__npy", np.array(["a"] * 30), "does not order 30 samples"),
        ("test__npy", np.zeros((2, 2)), "does not order 30 samples"),
        ("inputs__npy", np.zeros((30, 4)), r"for 30 samples of a vector of 3"),
        ("inputs__npy", np.array(["a"] * 30), r"for 30 samples of a vector of 3"),
    ],
)
def test_arrays_that_are_not_what_the_manifest_says(name, array, reason, copy):
    forge(copy / "data", **{name: bytes_of(array)})
    with pytest.raises(DamagedError, match=reason):
        open_data(copy / "data").inputs("train")


def test_manifests_of_data_that_make_no_sense(copy, data, tmp_path):
    forge(copy / "data", lambda found: found["body"].update(problem=5))
    with pytest.raises(DamagedError, match="makes no sense"):
        open_data(copy / "data")
    for change in ({"settings": "a"}, {"samples": "many"}, {"grid": None}):
        shutil.rmtree(tmp_path / "kle", ignore_errors=True)
        shutil.copytree(data.folder, tmp_path / "kle")
        forge(tmp_path / "kle", lambda found, change=change: found["body"].update(change))
        with pytest.raises(DamagedError, match="makes no sense"):
            DarcyData(tmp_path / "kle")


def test_shards_that_are_not_what_the_recipe_says(data, tmp_path):
    shutil.copytree(data.folder, tmp_path / "kle")
    forge(tmp_path / "kle", lambda found: found["body"]["grid"].update(nx=9))
    with pytest.raises(DamagedError, match=r"shard-00000\.h5 is damaged: 'kappa' is .* not what the recipe says"):
        DarcyData(tmp_path / "kle").inputs("train")
    forge(tmp_path / "kle", lambda found: found.update(files={}))
    with pytest.raises(DamagedError, match="it names no files"):
        DarcyData(tmp_path / "kle").inputs("train")


def test_what_was_not_touched_still_works(copy):
    run = SurrogateRun.open(copy / "run")
    inputs = open_data(copy / "data").inputs("test")
    assert predict(run, inputs).samples and run.history() and run.result["epochs"] == 2
    assert load_exported(copy / "small").predict(inputs).isfinite().all()
