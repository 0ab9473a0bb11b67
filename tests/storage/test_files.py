"""Locks, and lines with checksums; also as they are on another operating system."""

import errno
import importlib.util
import json
import multiprocessing
import os
import sys
import types

import numpy as np
import pytest

from sparse_langevin.storage import files
from sparse_langevin.storage.archive import write_npz
from sparse_langevin.storage.errors import DamagedError, LockedError
from sparse_langevin.storage.files import Hold, locked
from sparse_langevin.storage.lines import read_lines, write_line
from tests.storage.crashes import flipped

processes = multiprocessing.get_context("spawn")
RECORDS = [{"step": 1, "loss": 0.1 + 0.2}, {"step": 2, "loss": 1e-300, "e1": 3.5}, {"step": 30, "loss": float("inf")}]


def try_to_lock(folder, answers, shared=False):
    try:
        with locked(folder):
            answers.put("held")
    except LockedError as error:
        answers.put(str(error))


def elsewhere(folder):
    """What another process says when it wants the folder."""
    answers = processes.Queue()
    process = processes.Process(target=try_to_lock, args=(folder, answers))
    process.start()
    answer = answers.get(timeout=60)
    process.join()
    return answer


def test_one_process_at_a_time_and_only_its_owner_sweeps(tmp_path):
    folder = tmp_path / "deep" / "folder"
    with locked(folder):
        (folder / ".writing-live").write_bytes(b"half")
        assert "another process is running in" in elsewhere(folder)
        with pytest.raises(LockedError), locked(folder):
            pass
        assert (folder / ".writing-live").exists()
    (folder / ".writing-step").mkdir()
    (folder / ".writing-step" / "state").write_bytes(b"half")
    (folder / "kept").touch()
    assert elsewhere(folder) == "held"
    assert [p.name for p in folder.iterdir()] == ["kept"]


def test_a_hold_is_shared_in_a_process_and_ends_with_its_last_owner(tmp_path):
    first, second = Hold.of(tmp_path), Hold.of(tmp_path / "." / "")
    assert first is second
    del first
    assert "another process" in elsewhere(tmp_path)
    del second
    assert elsewhere(tmp_path) == "held"


def test_where_folders_cannot_be_locked_or_synchronised(tmp_path, monkeypatch):
    """Windows, as far as it can be had here: its module, its name, and folders that cannot be opened."""
    held = []

    def locking(descriptor, mode, count):
        if held:
            raise PermissionError(errno.EACCES, "Permission denied")
        held.append(descriptor)

    def open_file(path, flags, *more):
        assert not os.path.isdir(path), "Windows does not open folders"
        return opened(path, flags, *more)

    opened = os.open
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "open", open_file)
    spec = importlib.util.spec_from_file_location("files_on_windows", files.__file__)
    windows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(windows)
    with windows.locked(tmp_path):
        windows.write_atomically(tmp_path / "a", b"text")
        with pytest.raises(LockedError, match="another process is running in"), windows.locked(tmp_path):
            pass
    held.clear()
    with windows.locked(tmp_path):
        assert (tmp_path / "a").read_bytes() == b"text"


def test_lines_are_plain_and_exact(tmp_path):
    path = tmp_path / "history.jsonl"
    assert read_lines(path) == []
    path.write_bytes(b"".join(map(write_line, RECORDS)))
    assert read_lines(path) == RECORDS
    plain = [json.loads(line) for line in path.read_text().splitlines()]
    assert [list(line)[-1] for line in plain] == ["crc"] * 3
    assert [{k: v for k, v in line.items() if k != "crc"} for line in plain] == RECORDS
    with open(path, "ab") as file:
        file.write(write_line({"step": 4})[:-3])  # being written
    assert read_lines(path) == RECORDS
    assert read_lines(path, len(write_line(RECORDS[0]))) == RECORDS[:1]


def test_every_single_bit_of_a_line_is_covered(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(map(write_line, RECORDS)))
    last = len(path.read_bytes()) * 8 - 8
    for position in flipped(path):
        try:
            found = read_lines(path)
        except DamagedError as error:
            assert "history.jsonl is damaged: line " in str(error)
            continue
        # Without its end the last line is one that is being written; how long a history is, its checkpoint knows.
        assert found == (RECORDS if position < last else RECORDS[:2])


def test_the_damaged_line_is_named(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_bytes(write_line(RECORDS[0]) + b'{"step": 2}\n')
    with pytest.raises(DamagedError, match="line 2: it has no checksum"):
        read_lines(path)
    for line in (b"[]\n", b"1\n", b"\n", b'{"crc": 1}\n', b"\xff\n"):
        path.write_bytes(line)
        with pytest.raises(DamagedError, match="line 1"):
            read_lines(path)


@pytest.mark.parametrize(
    "write",
    [lambda path: files.write_new(path, b"whole"), lambda path: write_npz(path, [{"x": np.zeros(3)}])],
    ids=["whole", "in pieces"],
)
def test_what_a_killed_process_left_of_a_users_file_goes_with_the_next_try(write, tmp_path):
    leftover, others = tmp_path / ".writing-12ab-a.csv", tmp_path / ".writing-34cd-b.csv"
    leftover.write_bytes(b"half")
    others.write_bytes(b"half")
    with open(tmp_path / ".writing-56ef-a.csv", "wb") as held:
        files._lock_descriptor(held.fileno())  # somebody writes it now
        write(tmp_path / "a.csv")
        assert sorted(p.name for p in tmp_path.iterdir()) == [".writing-34cd-b.csv", ".writing-56ef-a.csv", "a.csv"]
