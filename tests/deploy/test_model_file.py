"""Model files: what goes in comes out, damage is refused, nothing is lost."""

import copy
import json
import os
from dataclasses import replace

import pytest
import torch
from torch import nn

from sparse_langevin.deploy import export, load, model_file, read_manifest, sparsify
from sparse_langevin.problems.darcy import EncoderDecoder, Grid
from sparse_langevin.storage.checkpoint import load_checkpoint, save_checkpoint
from sparse_langevin.storage.errors import MismatchError, StorageError
from tests.storage.crashes import crash_everywhere


def network(seed=0, width=40):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 16, width), nn.ReLU(), nn.Linear(width, 3)
    )
    with torch.no_grad():
        model[1].running_mean.normal_()
        for layer, zeros in ((model[0], 0.6), (model[3], 0.7), (model[5], 0.0)):
            layer.weight.mul_(torch.rand_like(layer.weight) >= zeros)
    return model


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def saved(tmp_path):
    export(network(), tmp_path / "model", meta={"task": "flow", "sigma": 0.1})
    return tmp_path / "model"


@pytest.mark.parametrize("values", ["packed", "float32"])
def test_round_trip_is_exact(tmp_path, values):
    model = network()
    done = export(model, tmp_path / "deep" / "model", values=values, meta={"a": [1, None]})
    other = network(1)
    assert load(done.folder, other) is other
    assert equal(state(other), state(model))
    manifest = read_manifest(done.folder)
    assert manifest.meta == {"a": [1, None]} and manifest.versions["torch"] == torch.__version__
    assert manifest.layers["3.weight"].encoding == "bitmap" and manifest.layers["5.weight"].encoding == "dense"
    assert manifest.layers["3.weight"].nonzeros == int(model[3].weight.count_nonzero())
    assert done.size == sum(path.stat().st_size for path in done.folder.iterdir())
    assert done.dense_size == sum(t.numel() * t.element_size() for t in model.state_dict().values())


def test_the_paper_network_at_70_percent_takes_42_percent_of_its_size(tmp_path):
    torch.manual_seed(0)
    model = EncoderDecoder(Grid(50, 50))
    for name in model.SPARSE:
        weight = model.get_parameter(name).data.view(-1)
        weight[weight.abs().argsort()[: int(0.7 * len(weight))]] = 0
    done = export(model, tmp_path / "packed")
    assert done.size <= 0.42 * done.dense_size
    plain = export(model, tmp_path / "plain", values="float32")
    assert plain.size <= 0.508 * done.dense_size
    other = load(done.folder, EncoderDecoder(Grid(50, 50)))
    assert equal(state(other), state(model))


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "empty"])
@pytest.mark.parametrize("pattern", ["weights-*", "artefact.json"])
def test_damage_is_refused_and_nothing_is_loaded(saved, pattern, damage):
    (path,) = saved.glob(pattern)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes({"flip": data, "truncate": data[:-5], "empty": b""}[damage])
    model = network(1)
    before = state(model)
    with pytest.raises(StorageError, match=r"is damaged: .* Export it again|there is no model in"):
        load(saved, model)
    assert equal(state(model), before)


def test_every_byte_of_both_files_counts(saved):
    """A flipped bit is noticed, unless the text still means the same."""
    original = state(network())
    for path in saved.iterdir():
        data = path.read_bytes()
        for place in range(0, len(data), max(1, len(data) // 150)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
            try:
                assert equal(state(load(saved, network(1))), original)
            except StorageError:
                continue
            assert path.name == "artefact.json"
        path.write_bytes(data)
    assert equal(state(load(saved, network(1))), original)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (network(width=41), r"'3.bias' is float32 of shape \(40,\) there, float32 of shape \(41,\) in the model"),
        (network().double(), r"float32 of shape .* there, float64"),
        (nn.Linear(3, 3), r"only the \w+ has '0.bias' \(\d+ such tensors\)"),
        (nn.Sequential(network(), nn.Linear(1, 1)), r"holds another architecture: only"),
    ],
)
def test_another_architecture_is_refused(saved, other, words):
    before = state(other)
    with pytest.raises(MismatchError, match=words):
        load(saved, other)
    assert equal(state(other), before)


def test_another_format_is_refused_with_the_version_to_use(saved, monkeypatch):
    monkeypatch.setattr(model_file, "MODEL", replace(model_file.MODEL, format=3))
    with pytest.raises(MismatchError, match=r"has format 2, this version reads 3: use sparse-langevin \d"):
        load(saved, network())


def test_a_model_of_an_earlier_version_is_answered_and_kept(tmp_path):
    (tmp_path / "manifest.json").write_text('{"format": 1, "layers": {}}')
    (tmp_path / "weights-0123.safetensors").write_bytes(b"weights")
    with pytest.raises(
        MismatchError, match=r"manifest.json but no artefact.json: an earlier version.* Export it again"
    ):
        load(tmp_path, network())
    with pytest.raises(MismatchError, match="an earlier version"):
        export(network(), tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "weights-0123.safetensors"]


def test_nothing_is_overwritten_unless_asked(saved):
    with pytest.raises(FileExistsError, match="it exists"):
        export(network(1), saved)
    assert equal(state(load(saved, network(2))), state(network()))
    export(network(1), saved, overwrite=True)
    assert equal(state(load(saved, network(2))), state(network(1)))
    assert len(list(saved.iterdir())) == 2


def test_a_full_disk_leaves_the_old_model(saved, monkeypatch):
    def full(path, data):
        if path.name == "artefact.json":
            raise OSError(28, "No space left on device", str(path))
        path.write_bytes(data)

    monkeypatch.setattr("sparse_langevin.storage.artefact.write_atomically", full)
    names = sorted(os.listdir(saved))
    for model in (network(1), network()):  # with a new container, and with the one that is there
        with pytest.raises(OSError, match="No space left"):
            export(model, saved, overwrite=True)
        assert sorted(os.listdir(saved)) == names
        assert equal(state(load(saved, network(2))), state(network()))


def test_a_crash_at_any_operation_leaves_the_old_model_or_the_new_one(saved):
    old, new = state(network()), state(network(1))

    def one_of_them():
        found = state(load(saved, network(2)))
        assert equal(found, old) or equal(found, new)

    assert crash_everywhere(lambda: export(network(1), saved, overwrite=True), one_of_them) > 15
    assert equal(state(load(saved, network(2))), new) and len(list(saved.iterdir())) == 2


def test_a_folder_of_another_kind_is_left_alone(tmp_path):
    folder = save_checkpoint(tmp_path, 1, {"a": torch.ones(2)}, {})
    with pytest.raises(MismatchError, match=r"is a checkpoint made by .*, not a model"):
        load(folder, network())
    with pytest.raises(MismatchError, match=r"is a checkpoint made by .*, not a model"):
        export(network(), folder, overwrite=True)
    assert load_checkpoint(folder).step == 1


def test_rounding_is_reported(tmp_path):
    model, x = network(), torch.randn(5, 2, 6, 6)
    mode = model.training
    exact = export(model, tmp_path / "exact", example=x)
    half = export(model, tmp_path / "half", values="float16", example=x)
    assert model.training is mode
    assert exact.output_change == 0.0 and half.size < exact.size
    loaded = load(half.folder, copy.deepcopy(model)).eval()
    with torch.no_grad():
        change = float((loaded(x) - model.eval()(x)).abs().max())
    assert half.output_change == pytest.approx(change, rel=1e-5) and 0.0 < change < 0.01
    assert torch.equal(loaded[3].bias, model[3].bias)


def test_equal_models_give_equal_bytes(tmp_path):
    files = [sorted(export(network(), tmp_path / name).folder.iterdir()) for name in "ab"]
    for first, second in zip(*files, strict=True):
        assert first.name == second.name and first.read_bytes() == second.read_bytes()


def test_tied_weights_stay_tied(tmp_path):
    def tied():
        model = nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9))
        model[1].weight = model[0].weight
        return model

    model = tied()
    done = export(model, tmp_path / "m", example=torch.randn(2, 9))
    other = load(done.folder, tied())
    assert done.output_change == 0.0 and other[1].weight is other[0].weight
    assert equal(state(other), state(model))


@pytest.mark.parametrize("meta", [{"a": torch.ones(1)}, {"a": float("nan")}])
def test_bad_meta_is_refused_before_anything_is_written(tmp_path, meta):
    with pytest.raises(ValueError, match="meta must be something that JSON can hold"):
        export(network(), tmp_path / "m", meta=meta)
    assert not (tmp_path / "m").exists()


def test_bad_values_and_sparsified_models_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"values must be one of 'packed', .* got 'int8'"):
        export(network(), tmp_path / "m", values="int8")
    with pytest.raises(ValueError, match="'3' is a SparseLinear: pass the dense model"):
        export(sparsify(network(), min_zeros=0.5), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_manifest_is_readable(saved):
    text = json.loads((saved / "artefact.json").read_text())
    assert text["body"]["meta"] == {"task": "flow", "sigma": 0.1}
    assert text["body"]["layers"]["3.weight"]["shape"] == [40, 128] and text["kind"] == "model"
