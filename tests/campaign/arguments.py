"""Bad arguments, made from what the commands declare: a new option is tried without a line here.

Each trial takes a call that is right, and spoils one thing: a value that the type of an option does not allow or that
makes no sense, an option twice, one of another command, one that is missing. The command must refuse it in one line
and leave the folder as it was; or take it, if the value has a meaning, and write numbers that are finite.
"""

import itertools
import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args, get_origin

import h5py
import numpy as np
import safetensors.numpy
import typer
from PIL import Image

from sparse_langevin.cli import app
from sparse_langevin.storage.artefact import kind_of
from tests.campaign.command import Command, in_session
from tests.campaign.trials import Broken, Trial, require

PART = "bad arguments"
NUMBER = 1000
SECONDS, MEGABYTES = 20.0, 500.0
AT_WORK = 4.0  # seconds after which a command that may work for years is stopped
SMALL = {"--samples": "4", "--nx": "5", "--ny": "4", "--workers": "0"}
MLP = {"--network": "mlp", "--network-option": "width=4"}
# One right call of each command, or more; arguments have the names that the command gives them.
CALLS: list[tuple[str, dict[str, str]]] = [
    ("generate kle", {"--out": "new", "--terms": "2", **SMALL}),
    ("generate channels", {"--out": "new", "--width": "0.3", **SMALL}),
    ("generate image", {"--out": "new", "--image": "facies.png", **SMALL}),
    ("import", {"--inputs": "x.npy", "--outputs": "y.npy", "--out": "new"}),
    ("import", {"file": "kappa.npy", "--out": "new", "--test-share": "0.5", "--workers": "0"}),
    ("info", {"data": "data/kle", "--code": "2"}),
    ("info", {"data": "data/mine"}),
    ("show", {"data": "data/kle", "--out": "new.png"}),
    ("convert", {"data": "data/kle", "--out": "new.npz"}),
    ("convert", {"data": "data/kle", "--out": "new.vti", "--sample": "1"}),
    ("demo", {"--out": "new", "--samples": "20", "--cells": "8", "--epochs": "1"}),
    ("train", {"--data": "data/mine", "--run": "new", "--epochs": "2", "--samples": "1", **MLP}),
    (
        "train",
        {"--data": "data/mine", "--run": "new", "--epochs": "2", "--sparsity": "0.5", "--method": "sgld-sa", **MLP},
    ),
    ("evaluate", {"run": "runs/mine", "--out": "new.csv"}),
    ("predict", {"run": "runs/mine", "--input": "x.npy", "--out": "new.npz"}),
    ("predict", {"run": "runs/kle", "--input": "kappa.npy", "--out": "new.vti", "--sample": "1"}),
    ("predict", {"run": "small", "--input": "x.npy", "--out": "new.npz"}),
    ("report", {"runs": "runs/mine", "--out": "new.html", "--sample": "1"}),
    ("export", {"run": "runs/mine", "--out": "new"}),
    ("select", {"file": "table.csv", "--target": "y", "--out": "new.html"}),
    (
        "reproduce regression",
        {"--out": "new", "--replicates": "1", "--test": "1", "--only": "oracle", "--workers": "0"},
    ),
    ("reproduce kle", {"--out": "new", "--workers": "1"}),
    ("reproduce channels", {"--out": "new", "--workers": "1"}),
    ("reproduce search", {"--out": "new", "--workers": "1"}),
    ("reproduce uncertainty", {"--out": "new", "--workers": "1"}),
]
LONG = ("reproduce kle", "reproduce channels", "reproduce search", "reproduce uncertainty")
WORK = ("--epochs", "--chains", "--replicates")  # a large number is not wrong, only much
GROUND = ("data/kle", "data/mine", "runs/mine", "runs/kle", "small", "x.npy", "y.npy", "kappa.npy", "table.csv")

ENDLESS = ("nan", "inf", "-inf", "1e400")
NUMBERS = (
    *(*ENDLESS, "-1", "0", "1e308", "-1e308", "1e-320", str(10**30), str(10**12), "", "word", "½", "١٢", "1_0", "0x10"),
    *(" ", "-0.0", "True", "1,5", "2.5", "1e3", "--", "\0", "1\n2", "\udc80"),
)
PATHS = (
    *("missing{}", "folder{}", "empty{}", "text{}", "text/below{}", "closed{}", "dangling{}", "loop{}", "", ".", ".."),
    *("no/such/folder{}", "long" * 80 + "{}", "deep/" * 1500 + "new{}", "/proc/none{}", "nul\0{}", "two\nlines{}"),
    *("stray\udc80{}", "new.pkl", "tab\t{}", "%s{{}}{}", "-{}", "[red]{}", "fünf{}"),
)
WORDS = ("", "nothing", " ", "\0", "two\nlines", "\udc80", "½", "../x", "a" * 10_000, "[red]", "$x^", "-1", "nan")
TEXTS = {
    "WIDTHxHEIGHT": (
        *("x", "3", "3x", "x2", "nanx1", "1xinf", "-1x1", "0x0", "1e308x1e308", "1x1x1", "½x1", "1e-320x1", "1e9x1e-9"),
        *("1e200x1e-200", "0.1X5"),
    ),
    "CONDITION": (
        *("pressure", "flow", "flow nan", "pressure inf", "flow -inf", "flow 1e308", "temperature 1", "pressure 1 2"),
        *("flow=1", "pressure 1e-320", "Pressure 1", "pressure  ", "flow 1e400"),
    ),
    "NAME=VALUE": (
        *("width", "=3", "width=", "width=0", "width=-1", "width=1000000000", "width=nan", "width=1e9", "width=[1,2]"),
        *("width=" + "[" * 100_000, "nothing=1", "depth=1000000000", "depth=-1", "1a=2", 'width="a"', "width=true"),
        *("problem=1", "self=1", "width=null", "width=" + "9" * 400, "width=1e400", "__class__=1"),
    ),
    "--network": (
        *(
            "no_such:Class",
            ":",
            "a:",
            ":b",
            "torch.nn:Linear",
            "json:loads",
            "os:nothing",
            "..:x",
            "torch:zeros",
            "a:b:c",
        ),
        *("sparse_langevin:Nothing", "sparse_langevin.cli:main", "os.path:join", "encoder", "darcy-encoder-decoder"),
    ),
    "--device": ("cuda", "cuda:99", "meta", "cpu:7", "mps", "xla", "CPU"),
    "layout": ("q", "vv", "cyxx", "v ", "V", "x", "yx", "czyx"),
    "array": ("x.npy:", "x.npy:name", ":", "missing.npz:x", "data", "runs/mine", "table.csv", "kappa.npy"),
    "--target": ("a", "A"),
}


def trials(random):
    """So many spoiled calls, as evenly spread over the options as possible."""
    commands = dict(_commands(typer.main.get_command(app)))
    assert {name for name, _ in CALLS} == commands.keys(), "CALLS needs a call of each command"
    every = sorted({parameter.opts[0] for command in commands.values() for parameter in command.params})
    heaps = []
    for number, (name, call) in enumerate(CALLS):
        heaps.append(_misuses(number, name, call, commands[name], every))
        for parameter in commands[name].params:
            heaps.append([_spoiled(number, name, call, parameter, value) for value in _values(parameter, call)])
    for heap in heaps:
        random.shuffle(heap)
    random.shuffle(heaps)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*heaps))
    named = {trial.name: trial for trial in turns if trial is not None}
    return list(named.values())[:NUMBER]


def attempt(ground, scratch, trial):
    """Give the arguments to the command, and look at what it did."""
    words, number, option, value = trial.facts
    name, call = CALLS[number]
    folder = scratch / "work"
    folder.mkdir()
    ground.copy(folder, *GROUND)
    _lay_out(folder, {Path(v).suffix for k, v in call.items() if "." in v} | {""})
    before = _listing(scratch)
    much = name in LONG or (option in WORK and value in (str(10**12), str(10**30)))
    outcome = run_watched(words, folder, AT_WORK if much else SECONDS)
    require("Traceback" not in outcome.err, f"a traceback: {outcome.line}")
    require(outcome.grown < MEGABYTES, f"it took {outcome.grown:.0f} MB of memory")
    if outcome.code is None:
        require(much and value not in ENDLESS, f"it was still running after {outcome.seconds:.0f} s")
        return "set to work"
    require(outcome.code in (0, 2), f"exit code {outcome.code}: {outcome.err[-500:]}")
    if outcome.code == 0:
        _require_sense(option, value, outcome, folder, before, scratch)
        return "accepted"
    require(outcome.refused, f"more or less than one line: {outcome.err[-1000:]!r}")
    if name == "train" and re.match(r"error: step \d+: ", outcome.line):  # the run began, and its folder is a run's
        require(kind_of(folder / call["--run"]) == "run", "a run that has diverged is not a run")
        return "diverged"
    left = _listing(scratch) - before
    require(not left, f"it left {sorted(left)[:5]} after {outcome.line[:300]!r}")
    return "refused"


def _commands(command, path=()):
    """All commands that do something, by their names with those of their groups."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))
    if path and not hasattr(command, "commands"):
        yield " ".join(path), command


def _values(parameter, call):
    """Values that an option or an argument should not get, or only if they mean something."""
    kind = parameter.type_descriptor.annotation
    name, usual = parameter.opts[0], call.get(parameter.opts[0])
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if kind is bool:
        return ()
    if get_origin(kind) is Literal:
        return (*WORDS, get_args(kind)[0].upper(), get_args(kind)[0][:-1])
    if kind in (int, float):
        return NUMBERS
    if kind is Path or name in ("--inputs", "--outputs", "--low"):
        suffix = Path(usual or "new").suffix
        array = TEXTS["array"] if kind is str else ()
        return (*(text.format(suffix) for text in PATHS), *array)
    about = parameter.metavar if parameter.metavar in TEXTS else "layout" if name.endswith("layout") else name
    return (*WORDS, *TEXTS.get(about, ()))


def _spoiled(number, name, call, parameter, value):
    words = _words(name, {**call, parameter.opts[0]: value})
    return _trial(number, name, words, parameter.opts[0], value)


def _misuses(number, name, call, command, every):
    """Calls with an option twice, one too many or one too few, a flag with a value, and so on."""
    words, made = _words(name, call), []
    own = {option for parameter in command.params for option in parameter.opts}
    for parameter in command.params:
        option = parameter.opts[0]
        if option in call:
            made.append(_words(name, {k: v for k, v in call.items() if k != option}))
        if not option.startswith("-"):
            continue
        if option in call:
            made += [[*words, option, call[option]], [*words, option, "nothing"], [*words, option]]
        made += [[*words, f"{option}s"], [*words, option[:-1]], [*words, option.replace("--", "-")]]
        if parameter.type_descriptor.annotation is bool:
            made += [[*words, f"{option}=1"], [*words, option, "yes"], [*words, option, option]]
    made += [[*words, option, "1"] for option in every if option not in own and option.startswith("-")]
    made += [[*words, "more"], [*words, "--unknown"], [*words, "-x"], [*words, "--=1"], ["--bad", *words]]
    made += [words[1:], name.split()[:-1], [*name.split(), "nothing", *words[1:]], [name, *words[1:]]]
    return [_trial(number, name, given) for given in made if given]


def _words(name, call):
    named = [word for option, value in call.items() if option.startswith("-") for word in (option, value)]
    return [*name.split(), *(value for option, value in call.items() if not option.startswith("-")), *named]


def _trial(number, name, words, option="", value=""):
    shown = " ".join(word if len(word) < 60 else f"{word[:20]}...({len(word)})" for word in words)
    group = name.split()[0]
    return Trial(ascii(f"{shown}  [{option} {value[:20]}]")[1:-1], group, (tuple(words), number, option, value))


def _lay_out(folder, suffixes):
    """Put into the folder what paths may point to."""
    facies = np.random.default_rng(0).integers(0, 2, (30, 30), dtype=np.uint8)
    Image.fromarray(255 * facies).save(folder / "facies.png")
    for suffix in suffixes:
        (folder / f"folder{suffix}").mkdir()
        (folder / f"empty{suffix}").touch()
        (folder / f"text{suffix}").write_text("This is a text.\nIt has lines,\nand nothing else.\n")
        (folder / f"closed{suffix}").write_text("Not for you.\n")
        (folder / f"closed{suffix}").chmod(0)
        (folder / f"dangling{suffix}").symlink_to("nowhere")
        (folder / f"loop{suffix}").symlink_to(f"loop{suffix}")


def run_watched(words, folder, seconds):
    """Run the command; if it has to be stopped, say how much memory it had, and stop what it has started, too."""
    with Command(words, folder) as command:
        first = _memory(command.process.pid)
        command.process.join(seconds)
        last = _memory(command.process.pid) if command.process.exitcode is None else first
        outcome = command.wait(0.0)
    for number in in_session(command.process.pid):
        _end(number)
    return outcome if outcome.code is not None else type(outcome)(None, outcome.out, outcome.err, seconds, last - first)


def _memory(process):
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def _end(process):
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _listing(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _require_sense(option, value, outcome, folder, before, scratch):
    """An accepted value must have a meaning: what was written and printed is finite."""
    require(value not in ENDLESS, f"{option} {value} was accepted")
    require(
        not re.search(r"\b(nan|inf)\b", outcome.out, re.IGNORECASE) or "nan" in value, f"it printed {outcome.out!r}"
    )
    for name in sorted(_listing(scratch) - before):
        path = scratch / name
        if path.is_file():
            for array in _numbers(path):
                require(np.isfinite(array).all(), f"{option} {value[:50]!r} was accepted, and {name} is not finite")


def _numbers(path):
    """All numbers in a file that a command has written; formats that have none must at least not be empty."""
    if path.suffix == ".npy":
        yield np.load(path)
    elif path.suffix == ".npz":
        with np.load(path) as file:
            yield from (file[name] for name in file)
    elif path.suffix == ".h5":
        with h5py.File(path) as file:
            yield from (file[name][...] for name in file)
    elif path.suffix == ".safetensors":
        yield from (a for a in safetensors.numpy.load_file(path).values() if a.dtype.kind == "f")
    elif path.suffix == ".json":
        json.loads(path.read_text(), parse_constant=lambda word: _refuse(path, word))
    elif path.suffix == ".csv":
        yield np.genfromtxt(path, delimiter=",", skip_header=1)
    elif path.name != "history.jsonl":
        require(path.stat().st_size > 0 or path.name.startswith("."), f"{path.name} is empty")


def _refuse(path, word):
    raise Broken(f"{path.name} has {word}")
