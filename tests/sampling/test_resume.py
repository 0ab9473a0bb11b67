"""Runs that are killed and resumed end with the same bytes as runs that are not."""

import random
import signal
from collections import Counter

import pytest

from sparse_langevin.storage.checkpoint import checkpoints, load_checkpoint
from tests.processes import processes
from tests.sampling.resume_worker import ALGORITHMS, STEPS, run_to_end

FILES = {"artefact.json", "state.safetensors", "history.jsonl", "sample", "base", "mask"}
BUDGET = 3600  # bytes: the twelve samples would need twice that


def launch(folder, name, **options):
    """Run in a process of its own and return how it ended."""
    process = processes.Process(target=run_to_end, args=(str(folder), name), kwargs=options)
    process.start()
    process.join()
    return process.exitcode


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_killed_at_twenty_random_steps(name, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert launch(whole, name) == 0
    for step in sorted(random.Random(name).sample(range(1, STEPS), 20)):
        assert launch(killed, name, stop_at=step) == -signal.SIGKILL
    assert launch(killed, name) == 0
    assert contents(killed) == contents(whole)
    kinds = Counter(name.split("/")[-1].split("-")[0] for name in contents(whole))
    assert (kinds["sample"], kinds["base"], kinds["history.jsonl"]) == (12, 1, 1)
    assert kinds["state.safetensors"] == 2 and kinds["artefact.json"] == 4  # also of the run and of its bank
    assert 1 <= kinds["mask"] <= 12 and set(kinds) == FILES


def test_killed_inside_the_save(tmp_path):
    """Whatever disk operation is the last, the latest checkpoint is readable and the run goes on as if nothing was."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert launch(whole, "psgld-sa") == 0
    generator = random.Random(1)
    kills = 0
    for n in [*range(1, 21), *(generator.randrange(1, 60) for _ in range(20))]:
        ended = launch(killed, "psgld-sa", kill_at_io=n)
        assert ended in (-signal.SIGKILL, 0)
        kills += ended != 0
        for path in checkpoints(killed / "checkpoints"):
            load_checkpoint(path)
    assert kills >= 20
    assert launch(killed, "psgld-sa") == 0
    assert contents(killed) == contents(whole)


def test_killed_while_the_bank_thins_itself(tmp_path):
    """A bank that drops samples twice to stay within its budget ends with the same files, whenever it was killed."""
    whole = tmp_path / "whole"
    assert launch(whole, "psgld-sa", budget=BUDGET) == 0
    # It thins itself at the disk operations 285 to 295 and 464 to 472 of 545.
    for n in (275, 285, 288, 291, 295, 298, 464, 468, 472):
        killed = tmp_path / str(n)
        assert launch(killed, "psgld-sa", budget=BUDGET, kill_at_io=n) == -signal.SIGKILL
        assert launch(killed, "psgld-sa", budget=BUDGET) == 0
        assert contents(killed) == contents(whole)
    steps = sorted(int(p.stem.split("-")[2]) for p in (whole / "samples").glob("sample-*"))
    assert steps == [120, 180, 240]


def test_torch_loader_resumes_too(tmp_path):
    """A DataLoader that shuffles with torch's global generator, and dropout that draws from it."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert launch(whole, "psgld-sa", loader="torch") == 0
    for step in (33, 34, 100, 201):
        assert launch(killed, "psgld-sa", loader="torch", stop_at=step) == -signal.SIGKILL
    assert launch(killed, "psgld-sa", loader="torch") == 0
    assert contents(killed) == contents(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_polite_signals_save_and_exit_with_their_own_code(number, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert launch(whole, "sgld-sa") == 0
    assert launch(stopped, "sgld-sa", stop_at=50, number=number) == 75
    assert load_checkpoint(checkpoints(stopped / "checkpoints")[-1]).step == 50
    assert launch(stopped, "sgld-sa", stop_at=51, number=number) == 75
    assert launch(stopped, "sgld-sa") == 0
    assert contents(stopped) == contents(whole)
