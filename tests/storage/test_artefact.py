"""Artefacts: a folder says what it is, and is whole or refused."""

import os
import pickle
from dataclasses import replace

import pytest

from sparse_langevin.storage import artefact
from sparse_langevin.storage.artefact import MANIFEST, Artefact, Kind, kind_of
from sparse_langevin.storage.errors import DamagedError, MismatchError, MissingError, StorageError
from sparse_langevin.storage.files import locked
from tests.storage.crashes import contents, crash_everywhere, flipped

CAKE = Kind("cake", 3, "'bake'", "Bake it again", ("numpy",))
TART = Kind("tart", 1, "'roll'", "Roll it again")
BODY = {"eggs": 3, "icing": {"colour": "white", "layers": [1, 2]}, "grams": 0.1 + 0.2}


@pytest.fixture
def cake(tmp_path):
    made = Artefact.claim(tmp_path / "cake", CAKE, BODY)
    for name in "ab":
        (made.folder / name).write_bytes(name.encode() * 100)
    return made.seal("ab")


def test_what_is_claimed_and_sealed_is_found_again(cake):
    found = Artefact.open(cake.folder, CAKE, finished=True)
    assert found == cake and found.body == BODY and set(found.versions) == {"sparse-langevin", "numpy"}
    assert kind_of(cake.folder) == "cake" and kind_of(cake.folder.parent) is None
    assert found.read("a") == b"a" * 100 and found.path("b") == cake.folder / "b" and not found.lost()
    assert Artefact.claim(cake.folder, CAKE, BODY) == Artefact.claim(cake.folder, CAKE) == cake
    found.verify()


def test_a_folder_that_is_not_what_was_asked_for(cake, tmp_path):
    with pytest.raises(MismatchError, match=r"cake is a cake made by 'bake', not a tart"):
        Artefact.open(cake.folder, TART)
    with pytest.raises(MismatchError, match="not a tart"):
        Artefact.claim(cake.folder, TART, shared=True)
    with pytest.raises(
        MismatchError, match=r"the cake in .* has format 3, this version reads 4: use sparse-langevin \d"
    ):
        Artefact.open(cake.folder, replace(CAKE, format=4))
    for folder in (tmp_path / "nowhere", tmp_path, cake.folder / "a"):
        with pytest.raises(MissingError, match=r"there is no cake in .*: it has no artefact.json"):
            Artefact.open(folder, CAKE)
    Artefact.claim(tmp_path / "begun", CAKE, BODY)
    with pytest.raises(MismatchError, match="begun but not finished: run the same command again"):
        Artefact.open(tmp_path / "begun", CAKE, finished=True)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "manifest.json").write_text("{}")
    for refuse in (Artefact.open, Artefact.claim):
        with pytest.raises(
            MismatchError, match=r"has a manifest.json but no artefact.json: an earlier version.*Bake it"
        ):
            refuse(tmp_path / "old", CAKE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eggs": 4}, "started with eggs = 3, now it is 4"),
        ({"icing": {"colour": "white", "layers": [1]}}, r"icing.layers = \[1, 2\], now it is \[1\]"),
        ({"icing": None}, r"icing = \{.*\}, now it is None"),
        ({"salt": 1}, "salt = None, now it is 1"),
        ({"grams": 0.3}, "grams = 0.30000000000000004, now it is 0.3"),
    ],
)
def test_another_setting_is_named(cake, change, words):
    before = contents(cake.folder)
    with pytest.raises(MismatchError, match=f"the cake in .* was {words}|{words}: go on with the same settings"):
        Artefact.claim(cake.folder, CAKE, BODY | change)
    assert contents(cake.folder) == before


def test_folders_of_others_are_left_alone(tmp_path):
    (tmp_path / ".writing-1234-artefact.json").write_bytes(b"half")
    assert Artefact.claim(tmp_path, CAKE).files is None
    (tmp_path / "artefact.json").unlink()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(MismatchError, match="exists and is not a cake of ours: choose another folder"):
        Artefact.claim(tmp_path, CAKE)
    assert not (tmp_path / "artefact.json").exists()
    Artefact.claim(tmp_path, CAKE, shared=True).abandon()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".writing-1234-artefact.json", "notes.txt"]


def test_every_single_bit_of_a_manifest_is_covered(cake):
    """No flipped bit goes unnoticed, unless the text still means the same."""
    noticed = same = 0
    for _ in flipped(cake.folder / "artefact.json"):
        try:
            assert Artefact.open(cake.folder, CAKE) == cake
            same += 1
        except DamagedError as error:
            assert "artefact.json is damaged" in str(error) and "Bake it again" in str(error)
            noticed += 1
    assert same < 0.05 * noticed


def test_every_single_bit_of_a_file_is_covered(cake):
    for _ in flipped(cake.folder / "a", every=3):
        for look in (cake.read, cake.path):
            with pytest.raises(DamagedError, match=r"a is damaged: it does not match its SHA-256. Bake it again"):
                look("a")
    cake.verify()


def test_missing_and_unreadable_files(cake, monkeypatch):
    (cake.folder / "a").unlink()
    assert cake.lost() == ["a"]
    with pytest.raises(DamagedError, match=r"a is damaged: it is missing. Bake it again"):
        cake.verify()

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(artefact, "sha256_of_file", refuse)
    with pytest.raises(StorageError, match="b cannot be read: Permission denied"):
        cake.path("b")


def test_a_file_is_verified_once_in_a_process_and_again_when_it_changes(cake, monkeypatch):
    seen = []
    original = artefact.sha256_of_file
    monkeypatch.setattr(artefact, "sha256_of_file", lambda path: seen.append(path.name) or original(path))
    cake.path("a")
    cake.path("a")
    assert seen == ["a", "a"]  # just written: a change could have the same time
    for name in "ab":
        os.utime(cake.folder / name, ns=(10**18, 10**18))
    for _ in range(3):
        Artefact.open(cake.folder, CAKE).verify()
    assert seen == ["a", "a", "a", "b"]
    (cake.folder / "a").write_bytes(b"a" * 99 + b"b")
    os.utime(cake.folder / "a", ns=(10**18, 10**18 + 1))
    with pytest.raises(DamagedError):
        cake.path("a")


def test_crashes_while_claiming_and_sealing(tmp_path):
    folder, clean = tmp_path / "cake", Artefact.claim(tmp_path / "clean", CAKE, BODY)
    for place in (folder, clean.folder):
        place.mkdir(exist_ok=True)

    def claim():
        with locked(folder):
            Artefact.claim(folder, CAKE, BODY)

    def unclaimed_or_claimed():
        assert kind_of(folder) in (None, "cake")
        if kind_of(folder):
            assert Artefact.open(folder, CAKE).body == BODY
            (folder / "artefact.json").unlink()

    assert crash_everywhere(claim, unclaimed_or_claimed) >= 7
    claim()
    for place in (folder, clean.folder):
        (place / "a").write_bytes(b"a" * 100)
    clean.seal("a")

    def seal():
        with locked(folder):
            Artefact.open(folder, CAKE).seal("a")

    def begun_or_finished():
        assert Artefact.open(folder, CAKE).files in (None, Artefact.open(clean.folder, CAKE).files)

    assert crash_everywhere(seal, begun_or_finished) >= 7
    assert contents(folder) == contents(clean.folder)


@pytest.mark.parametrize("dead", [True, False])
def test_crashes_while_one_is_replaced(dead, tmp_path):
    old, new = {"x": b"old" * 50}, {"y": b"new" * 50}
    Artefact.write(tmp_path, CAKE, {"age": "old"}, old)

    def replaced():
        with locked(tmp_path):
            Artefact.write(tmp_path, CAKE, {"age": "new"}, new)

    def old_or_new():
        found = Artefact.open(tmp_path, CAKE, finished=True)
        assert {name: found.read(name) for name in found.files} == (old if found.body == {"age": "old"} else new)
        assert dead or contents(tmp_path).keys() <= {MANIFEST, "x", *found.files}  # nothing is left to clean up

    assert crash_everywhere(replaced, old_or_new, dead=dead) >= 14
    assert Artefact.open(tmp_path, CAKE).body == {"age": "new"}
    assert not list(tmp_path.glob(".writing-*"))


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(DamagedError("a/b", "it is cut off", "Restore it")))
    assert str(error) == "a/b is damaged: it is cut off. Restore it" and error.reason == "it is cut off"


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/b", ".."])
def test_a_manifest_names_files_of_its_folder_only(name, tmp_path):
    """Somebody has made it up, and its digest is right."""
    made = Artefact.write(tmp_path / "cake", CAKE, {}, {"x": b"text"})
    replace(made, files={name: made.files["x"]})._enter()
    with pytest.raises(
        DamagedError, match=rf"artefact.json is damaged: it names '{name}', which is not a file of this"
    ):
        Artefact.open(tmp_path / "cake", CAKE)


def test_a_body_that_makes_no_sense_is_blamed_on_the_manifest(tmp_path):
    found = Artefact.write(tmp_path, CAKE, {"age": 3}, {})
    senseless = pytest.raises(DamagedError, match=r"makes no sense \(KeyError\('name'\)\)\. Bake it again")
    with senseless, found.understood():
        found.body["name"]
    with pytest.raises(ValueError, match="mine"), found.understood():
        raise ValueError("mine")


def test_pipes_and_devices_are_not_read(cake, tmp_path):
    (cake.folder / "a").unlink()
    os.mkfifo(cake.folder / "a")
    for read in (cake.read, cake.path):
        with pytest.raises(StorageError, match="a cannot be read: it is a folder, a pipe or a device, not a file"):
            read("a")
    (tmp_path / "tart").mkdir()
    (tmp_path / "tart" / MANIFEST).symlink_to("/dev/zero")
    with pytest.raises(StorageError, match="a pipe or a device, not a file"):
        Artefact.open(tmp_path / "tart", TART)
