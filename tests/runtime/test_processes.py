"""Jobs in processes: order, failures, and stopping."""

import os
import time

import pytest

from sparse_langevin.runtime.interrupts import EXIT_CODE
from sparse_langevin.runtime.processes import run_in_processes


def write(path, text):
    path.write_text(text)


def fail(text):
    raise KeyError(text)


def leave(code):
    os._exit(code)


def wait(path):
    path.write_text("begun")
    time.sleep(60)


def test_all_others_run_before_a_failure_is_raised(tmp_path):
    done = []
    jobs = {
        "bad": (fail, ("thing",)),
        "dead": (leave, (9,)),
        "stopped": (leave, (EXIT_CODE,)),
        "good": (write, (tmp_path / "a", "text")),
    }
    with pytest.raises(ValueError) as error:
        run_in_processes(jobs, 2, done=done.append)
    assert sorted(str(error.value).split("; ")) == ["bad failed: KeyError: 'thing'", "dead failed: exit code 9"]
    assert done == ["good"] and (tmp_path / "a").read_text() == "text"


def refuse(text):
    raise ValueError(text)


def test_an_error_that_says_all_comes_without_a_traceback(capfd):
    with pytest.raises(ValueError, match="bad failed: ValueError: give more"):
        run_in_processes({"bad": (refuse, ("give more",))}, 1)
    assert "Traceback" not in capfd.readouterr().err


def test_stop_ends_what_runs_and_begins_nothing_more(tmp_path):
    jobs = {name: (wait, (tmp_path / name,)) for name in "ab"}
    seen = set()
    begin = time.monotonic()
    run_in_processes(jobs, 1, tick=lambda running: seen.update(running), stop=(tmp_path / "a").exists)
    assert time.monotonic() - begin < 50
    assert seen <= {"a"} and not (tmp_path / "b").exists()
