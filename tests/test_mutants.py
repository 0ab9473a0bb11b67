"""The runner of seeded faults, on a toy package with one fault that its test notices and one that it does not."""

import json
from dataclasses import replace

import pytest

from tests.faults import Fault
from tests.mutants import Project, main

CAUGHT = Fault("minus for plus", "room/sums.py", "a + b", "a - b")
SURVIVES = Fault("another word", "room/sums.py", '"sum"', '"total"')


@pytest.fixture
def toy(tmp_path):
    package, tests = tmp_path / "src" / "toy", tmp_path / "tests" / "room"
    (package / "room").mkdir(parents=True)
    tests.mkdir(parents=True)
    (package / "room" / "sums.py").write_text('NAME = "sum"\n\n\ndef add(a, b):\n    return a + b\n')
    (tests / "test_sums.py").write_text(
        "import pytest\nfrom toy.room.sums import NAME, add\n\n\n"
        '@pytest.mark.parametrize("b", [0, 2], ids=["no thing", "two"])\n'
        "def test_add(b):\n    assert add(1, b) == 1 + b\n"
    )
    return Project(tmp_path, "toy", [CAUGHT, SURVIVES])


def records(toy):
    return {record["fault"]: record for record in json.loads(toy.records.read_text())}


def test_one_is_caught_and_one_survives(toy, capsys):
    assert main([], toy) == 1
    caught, survived = records(toy)[CAUGHT.label], records(toy)[SURVIVES.label]
    assert (caught["file"], caught["test"]) == (CAUGHT.file, "tests/room/test_sums.py::test_add[two]")
    assert survived["test"] is None and caught["seconds"] > 0
    text = capsys.readouterr().out
    assert "1 of 2 faults caught, 0 of them known" in text and f"SURVIVED: {SURVIVES.label}" in text
    assert '"sum"' in (toy.source / "toy" / "room" / "sums.py").read_text()


def test_a_second_run_tries_only_what_is_not_known(toy, capsys):
    assert main(["minus"], toy) == 0
    first = toy.records.read_bytes()
    assert main(["minus"], toy) == 0
    assert "1 of 1 faults caught, 1 of them known" in capsys.readouterr().out and toy.records.read_bytes() == first
    assert main([], toy) == 1  # goes on with the other one
    assert "[  1/1] SURVIVED" in capsys.readouterr().out
    assert records(toy)[CAUGHT.label] == json.loads(first)[0]
    assert main(["minus", "--again"], toy) == 0
    assert "0 of them known" in capsys.readouterr().out


@pytest.mark.parametrize("change", ["source", "fault"])
def test_a_record_is_stale_after_a_change(change, toy, capsys):
    assert main(["minus"], toy) == 0
    old = records(toy)[CAUGHT.label]["digest"]
    if change == "source":
        path = toy.source / "toy" / "room" / "sums.py"
        path.write_text(path.read_text() + "\n\nTWO = 2\n")
    else:
        toy = replace(toy, faults=[replace(CAUGHT, new="a * b")])
    assert main(["minus"], toy) == 0
    assert "0 of them known" in capsys.readouterr().out and records(toy)[CAUGHT.label]["digest"] != old


def test_a_record_outlives_other_words(toy, capsys):
    assert main(["minus"], toy) == 0
    path = toy.source / "toy" / "room" / "sums.py"
    path.write_text('"""Sums."""\n\n' + path.read_text().replace("(a, b):", '(a, b):\n    """Add."""  # two'))
    assert main(["minus"], toy) == 0
    assert "1 of 1 faults caught, 1 of them known" in capsys.readouterr().out


def test_a_test_that_was_renamed_is_looked_for_among_the_others(toy):
    assert main(["minus"], toy) == 0
    path = toy.root / "tests" / "room" / "test_sums.py"
    path.write_text(path.read_text().replace("test_add", "test_plus"))
    assert main(["minus", "--share", "1"], toy) == 0


def test_a_random_share_ignores_what_is_known_and_leaves_it(toy, capsys):
    assert main(["minus"], toy) == 0
    first = toy.records.read_bytes()
    tried = {main(["--share", "0.5", "--seed", str(seed)], toy) for seed in (0, 4)}
    assert tried == {0, 1}  # now the one, now the other
    text = capsys.readouterr().out
    assert "1 faults, chosen with --seed 0" in text and toy.records.read_bytes() == first


def test_nothing_begins_when_time_is_up(toy, capsys):
    assert main(["--minutes", "0"], toy) == 0
    assert "0 of 2 faults caught" in (text := capsys.readouterr().out) and "2 not tried for lack of time" in text


def test_a_fault_whose_line_is_gone_is_refused(toy):
    toy = replace(toy, faults=[CAUGHT, Fault("gone", "room/sums.py", "a / b", "a")])
    with pytest.raises(ValueError, match=r"'gone': 'a / b' is no longer in room/sums\.py; update tests/faults\.py"):
        main([], toy)
    assert not toy.records.exists()


def test_a_test_that_fails_without_the_fault_is_no_evidence(toy):
    path = toy.root / "tests" / "room" / "test_sums.py"
    path.write_text(path.read_text().replace("1 + b", "b"))
    with pytest.raises(RuntimeError, match=r"test_add\[no thing\] fails without any fault"):
        main(["another"], toy)
    assert not toy.records.exists()
