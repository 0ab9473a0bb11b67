"""Jobs in processes: order, failures, and stopping."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from sparse_langevin.runtime import processes
from sparse_langevin.runtime.interrupts import EXIT_CODE
from sparse_langevin.runtime.processes import Workers, each, run_in_processes


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


def kill_once(path):
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def tell(seconds=0.0):
    time.sleep(seconds)
    return multiprocessing.get_start_method(), signal.getsignal(signal.SIGINT), os.getppid()


def test_workers_are_not_forked_and_ignore_the_keyboard():
    others = set(multiprocessing.active_children())
    with Workers(2) as pool:
        method, handler, parent = pool.submit(tell).result()
        assert handler is signal.SIG_IGN and parent == os.getpid()
    assert method == "spawn" and set(multiprocessing.active_children()) <= others


def test_an_interrupt_reaches_the_parent_alone():
    """Ctrl-C goes to every process of a terminal, also to workers that are still starting."""
    code = (
        "import os, signal; from concurrent.futures import wait\n"
        "from sparse_langevin.runtime.processes import Workers\n"
        "signal.signal(signal.SIGINT, lambda *_: print('parent'))\n"
        "with Workers(2) as pool:\n"
        "    jobs = [pool.submit(abs, -i) for i in range(4)]\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "    print(sorted(job.result() for job in jobs))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, start_new_session=True)
    assert (result.stdout, result.stderr) == ("parent\n[0, 1, 2, 3]\n", "")


def test_a_worker_that_dies_is_replaced(tmp_path, caplog):
    with Workers(2) as pool:
        jobs = [pool.submit(kill_once, tmp_path / name) for name in "abc"]
        assert all(job.result(timeout=60) != os.getpid() for job in jobs)
    assert "a worker process died" in caplog.text
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(int)


def wait_once(path):
    if not path.exists():
        wait(path)


def kill_once_begun(path, begun):
    wait_for(begun.exists)
    kill_once(path)


def test_a_worker_that_dies_takes_the_others_along(tmp_path):
    """What they had in work is done anew, so none may go on with it."""
    others = set(multiprocessing.active_children())
    with Workers(2) as pool:
        dies = pool.submit(kill_once_begun, tmp_path / "killed", tmp_path / "long")
        long = pool.submit(wait_once, tmp_path / "long")
        first = set(multiprocessing.active_children()) - others
        pool.submit(int)  # the pool looks at the processes of all jobs before this one
        dies.result(timeout=50)
        long.result(timeout=50)
        assert len(first) == 2
        wait_for(lambda: not first & set(multiprocessing.active_children()), 30)


def test_workers_that_only_die(caplog, monkeypatch):
    monkeypatch.setattr(processes, "DEATHS", 1)
    with Workers(1) as pool:
        jobs = [pool.submit(leave, 9) for _ in range(2)]
        for job in jobs:
            with pytest.raises(BrokenProcessPool):
                job.result(timeout=60)
    assert caplog.text.count("died 2 times in a row") == 1 and "workers=0 does without them" in caplog.text


@pytest.mark.parametrize("workers", [0, 2])
def test_each(workers, tmp_path):
    assert sorted(each(divmod, [(7, 2), (9, 4)], workers)) == [(2, 1), (3, 1)]
    assert list(each(divmod, [], workers)) == []
    with pytest.raises(ZeroDivisionError):
        list(each(divmod, [(1, 0)], workers))
    begun = each(write, [(tmp_path / str(i), "text") for i in range(50)], workers)
    next(begun)
    begun.close()  # those that have begun are finished, others are not begun
    assert 1 <= len(list(tmp_path.iterdir())) < 50


def test_cancelled_jobs_are_told():
    with Workers(1) as pool:
        jobs = [pool.submit(tell, 0.2) for _ in range(20)]
        jobs[0].result()
        pool.shutdown(cancel_futures=True)
        assert jobs[-1].cancelled() and all(job.done() for job in jobs)


@pytest.mark.parametrize("how", ["pool", "long jobs"])
def test_nothing_outlives_a_parent_that_was_killed(how, tmp_path):
    work = {
        "pool": "jobs = [Workers(2).submit(note, folder, i) for i in range(2)]; [job.result() for job in jobs]",
        "long jobs": "run_in_processes({str(i): (note, (folder, i)) for i in range(2)}, 2)",
    }
    code = (
        "import pathlib, sys; from tests.runtime.test_processes import note\n"
        "from sparse_langevin.runtime.processes import Workers, run_in_processes\n"
        f"folder = pathlib.Path(sys.argv[1])\n{work[how]}\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    children = wait_for(lambda: len(files := list(tmp_path.glob("*.pid"))) == 2 and [int(p.stem) for p in files])
    assert all(map(alive, children))
    parent.kill()
    parent.wait()
    wait_for(lambda: not any(map(alive, children)))


def note(folder, number):
    """Say who one is, and never end."""
    (folder / f"{os.getpid()}.pid").write_text(str(number))
    time.sleep(600)


def alive(pid):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def test_a_signal_to_all_processes_is_no_failure(tmp_path):
    """A job that is ended by the signal that stops its parent, before it can answer, is not reported."""
    stopped = [False]

    def end_all(running):
        if (tmp_path / "a").exists():
            stopped[0] = True

    run_in_processes({"a": (end_oneself, (tmp_path / "a",))}, 1, tick=end_all, stop=lambda: stopped[0])
    assert stopped[0]


def end_oneself(path):
    path.touch()
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_answers_signals_from_its_first_line_on(number):
    """While libraries are loaded, and while the command runs, also where a library turns the answer into an error."""
    code = (
        "import os, sys; from sparse_langevin import __main__ as command, cli\n"
        "def load(purpose): os.kill(os.getpid(), {number})\n"
        "def run(**options):\n    try: load('')\n    except BaseException: raise ImportError('something else')\n"
        "if sys.argv[1] == 'load': command.expect_surrogates = load\n"
        "cli.app = run\n"
        "command.main()\n"
    )
    for when in ("load", "run"):
        words = [sys.executable, "-c", code.format(number=int(number)), when]
        result = subprocess.run(words, capture_output=True, text=True)
        assert result.returncode == EXIT_CODE, result
        assert result.stderr == f"{number.name}: stopped; run the same again to go on\n"
