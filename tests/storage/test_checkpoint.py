"""Checkpoints: what goes in comes out, and damage is refused."""

import shutil
from dataclasses import replace

import pytest
import torch

from sparse_langevin.storage.artefact import Artefact
from sparse_langevin.storage.checkpoint import CHECKPOINT, checkpoints, load_checkpoint, save_checkpoint
from sparse_langevin.storage.errors import DamagedError, MismatchError, StorageError
from tests.storage.crashes import crash_everywhere, flipped

TENSORS = {"beta": torch.randn(100), "keep": torch.rand(7) > 0.5, "v": torch.rand(3, 4, dtype=torch.float64)}
META = {"sigma": 0.1 + 0.2, "delta": {"a": 1e-300}, "text": "x"}


@pytest.fixture
def saved(tmp_path):
    return [save_checkpoint(tmp_path, step, TENSORS, META) for step in (10, 20)]


def test_round_trip_is_exact(saved):
    loaded = load_checkpoint(saved[1])
    assert loaded.step == 20
    assert loaded.meta == META
    assert all(torch.equal(loaded.tensors[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("name", ["state.safetensors", "artefact.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "empty"])
def test_damage_is_refused_and_the_previous_offered(saved, name, damage):
    path = saved[1] / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "truncate":
        path.write_bytes(data[:-5])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises(DamagedError, match=r"is damaged.*step-000000010 is intact"):
        load_checkpoint(saved[1])


def test_every_single_bit_of_a_manifest_is_covered(saved):
    """No flipped bit goes unnoticed, unless the text still means the same."""
    path = saved[1] / "artefact.json"
    original = path.read_bytes()
    for position in range(0, len(original) * 8, 7):
        data = bytearray(original)
        data[position // 8] ^= 1 << position % 8
        path.write_bytes(data)
        try:
            loaded = load_checkpoint(saved[1])
        except DamagedError:
            continue
        assert loaded.meta == META and loaded.step == 20


def test_when_all_are_damaged_it_says_so(saved):
    for path in saved:
        (path / "state.safetensors").write_bytes(b"nothing")
    with pytest.raises(DamagedError, match="no intact checkpoint before it"):
        load_checkpoint(saved[1])


def test_other_formats_are_refused(saved, tmp_path):
    Artefact.write(tmp_path / "step-000000030", replace(CHECKPOINT, format=99), {}, {})
    with pytest.raises(MismatchError, match=r"has format 99, this version reads 2: use sparse-langevin \d"):
        load_checkpoint(tmp_path / "step-000000030")
    (saved[1] / "artefact.json").rename(saved[1] / "manifest.json")
    with pytest.raises(MismatchError, match=r"an earlier version .* Start the run again in a new folder"):
        load_checkpoint(saved[1])


def test_leftovers_of_a_crash_are_ignored_and_removed(saved, tmp_path):
    leftover = tmp_path / ".writing-step-000000030"
    leftover.mkdir()
    (leftover / "state.safetensors").write_bytes(b"half")
    assert checkpoints(tmp_path) == saved
    save_checkpoint(tmp_path, 30, TENSORS, META)
    assert not leftover.exists()


def test_crashes_leave_the_old_checkpoints_or_the_new_one(saved, tmp_path):
    def whole():
        assert checkpoints(tmp_path)[:2] == saved
        for path in checkpoints(tmp_path):
            load_checkpoint(path)
        shutil.rmtree(tmp_path / "step-000000030", ignore_errors=True)

    assert crash_everywhere(lambda: save_checkpoint(tmp_path, 30, TENSORS, META), whole) > 15
    save_checkpoint(tmp_path, 30, TENSORS, META)


def test_crashes_while_a_step_is_saved_again(saved, tmp_path):
    def whole():
        assert load_checkpoint(saved[0]).meta == META
        for path in checkpoints(tmp_path):
            load_checkpoint(path)

    assert crash_everywhere(lambda: save_checkpoint(tmp_path, 20, TENSORS, {"again": 1}), whole) > 15
    assert load_checkpoint(saved[1]).meta == {"again": 1}
    assert sorted(tmp_path.iterdir()) == saved


def test_a_crash_in_between_leaves_nothing_for_long(saved, tmp_path):
    (tmp_path / ".writing-step-000000020-removed").mkdir()
    save_checkpoint(tmp_path, 30, TENSORS, META)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"step-0000000{n}0" for n in (1, 2, 3)]


def test_every_sampled_bit_of_the_state_is_covered(saved):
    for _ in flipped(saved[1] / "state.safetensors", every=97):
        with pytest.raises(DamagedError, match="does not match its SHA-256"):
            load_checkpoint(saved[1])
    load_checkpoint(saved[1])


def test_a_full_disk_leaves_nothing_behind(saved, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sparse_langevin.storage.artefact.write_synced", full)
    with pytest.raises(StorageError, match=r"No space left.*Earlier ones are intact"):
        save_checkpoint(tmp_path, 30, TENSORS, META)
    assert sorted(tmp_path.iterdir()) == saved


def test_no_pickle_in_the_package():
    """Nothing in the source loads pickled data."""
    from pathlib import Path

    import sparse_langevin

    source = "\n".join(p.read_text() for p in Path(sparse_langevin.__file__).parent.rglob("*.py"))
    for word in ("import pickle", "torch.load(", "torch.save(", "allow_pickle=True", "joblib.load", "joblib.dump"):
        assert word not in source
