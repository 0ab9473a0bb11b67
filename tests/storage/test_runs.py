"""The folder of a run: its kind, its history, its leftovers."""

import pytest
import torch

from sparse_langevin.storage.artefact import Artefact, kind_of
from sparse_langevin.storage.errors import DamagedError, MismatchError
from sparse_langevin.storage.files import locked
from sparse_langevin.storage.runs import RUN, RunFolder
from tests.storage.crashes import contents, crash_everywhere, flipped

SETTINGS = {"seed": "1", "step_size": "0.1"}


def go_on(path, steps=6):
    """A run whose state is its step; returns its history."""
    folder = RunFolder(path, save_every=2)
    with locked(folder.path):
        checkpoint = folder.latest(SETTINGS)
        history = folder.cut_history(checkpoint) if checkpoint else []
        if checkpoint is None:
            folder.save(0, 0, {"step": torch.tensor(0)}, {"settings": SETTINGS})
        for step in range(int(checkpoint.tensors["step"]) + 1 if checkpoint else 1, steps + 1):
            history.append({"step": step, "loss": 1 / (1 + step)})
            folder.append(history[-1])
            if step % 2 == 0:
                folder.save(step, 0, {"step": torch.tensor(step)}, {"settings": SETTINGS})
    return history


def test_a_crash_at_any_operation_loses_nothing(tmp_path):
    """Whatever came last, the run goes on, and ends with the same bytes and nothing more."""
    expected = go_on(tmp_path / "whole")
    killed = tmp_path / "killed"
    assert crash_everywhere(lambda: go_on(killed), lambda: None) > 20
    assert go_on(killed) == expected == [{"step": k, "loss": 1 / (1 + k)} for k in range(1, 7)]
    assert contents(killed) == contents(tmp_path / "whole")


def test_the_last_leftovers_are_swept(tmp_path):
    """A finished run saves no more; what a crash in its last save left goes when it is opened again."""
    go_on(tmp_path)
    (tmp_path / "checkpoints" / ".writing-step-000000002-removed").mkdir()
    go_on(tmp_path)
    assert not list((tmp_path / "checkpoints").glob(".writing-*"))


def test_a_run_says_so_and_others_are_refused(tmp_path):
    go_on(tmp_path / "run")
    assert kind_of(tmp_path / "run") == "run"
    with pytest.raises(
        MismatchError, match=r"the run in .* was started with seed = 1, now it is 2: go on with the same"
    ):
        RunFolder(tmp_path / "run", 2).latest(SETTINGS | {"seed": "2"})
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000000006"
    with pytest.raises(MismatchError, match=r"is a checkpoint made by 'train' or fit, not a run"):
        RunFolder(checkpoint, 2).latest(SETTINGS)
    Artefact.claim(tmp_path / "claimed", RUN, {"network": "mine"})
    go_on(tmp_path / "claimed")  # what its maker has entered stays
    assert Artefact.open(tmp_path / "claimed", RUN).body == {"network": "mine"}


def test_a_run_of_an_earlier_version_is_answered(tmp_path):
    go_on(tmp_path)
    for path in tmp_path.glob("checkpoints/*/artefact.json"):
        path.rename(path.with_name("manifest.json"))
    with pytest.raises(MismatchError, match=r"an earlier version .* Start the run again in a new folder"):
        go_on(tmp_path)


def test_a_damaged_history_is_named(tmp_path):
    expected = go_on(tmp_path)
    for _ in flipped(tmp_path / "history.jsonl", every=7):
        try:
            assert go_on(tmp_path) == expected  # the text means the same
        except DamagedError as error:
            assert "history.jsonl is damaged: line " in str(error)
    for _ in flipped(tmp_path / "artefact.json", every=7):
        try:
            assert go_on(tmp_path) == expected  # the text means the same
        except DamagedError as error:
            assert "artefact.json is damaged" in str(error)
