"""What holds for the source as a whole: dependencies point one way, seeded faults have a line to break."""

import ast
import graphlib
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sparse_langevin
from tests.faults import FAULTS

ROOT = Path(sparse_langevin.__file__).parent
# A room may import only from rooms above its own line.
LAYERS = [
    {"runtime"},
    {"storage"},
    {"reports"},
    {"sampling"},
    {"posterior"},
    {"linear", "deploy"},
    {"surrogates"},
    {"problems"},
    {"studies"},
    {"cli"},
    {"__main__"},
]
OLD_NAMES = {"darcy"}  # kept for a release


def modules():
    """Every module of the package, by dotted name below it."""
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and name not in OLD_NAMES:
            yield name, path


def imports(path, everywhere=True):
    """Dotted names of what a file imports from the package; without ``everywhere`` only what it needs to be loaded."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everywhere else tree.body
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparse_langevin"):
            module = node.module.removeprefix("sparse_langevin").removeprefix(".")
            yield module
            yield from (f"{module}.{alias.name}".removeprefix(".") for alias in node.names)


def test_every_module_is_in_a_room():
    assert {name.split(".")[0] for name, _ in modules()} == set().union(*LAYERS)


def test_imports_point_to_lower_rooms():
    level = {room: i for i, layer in enumerate(LAYERS) for room in layer}
    for name, path in modules():
        room = name.split(".")[0]
        for other in imports(path):
            there = other.split(".")[0]
            assert there == room or there not in level or level[there] < level[room], f"{name} imports {other}"


def test_no_modules_import_each_other():
    known = dict(modules())
    graph = {name: {other for other in imports(path, False) if other in known} - {name} for name, path in known.items()}
    list(graphlib.TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    "module", ["cli", "problems.darcy", "problems.arrays", "linear.regressor", "linear.classifier"]
)
def test_what_need_not_wait_for_torch(module):
    code = f"import sys, sparse_langevin.{module}; assert 'torch' not in sys.modules; sparse_langevin.Cosine"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "package",
    ["sparse_langevin", "sparse_langevin.problems.darcy", "sparse_langevin.posterior", "sparse_langevin.surrogates"],
)
def test_names_that_are_loaded_late(package):
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'psgdl'"):
        module.psgdl  # noqa: B018


def test_no_device_is_named():
    for path in ROOT.rglob("*.py"):
        assert not re.search(r'"(cuda|cpu)[":]', path.read_text()), path


def test_seeded_faults_match_the_source():
    for fault in FAULTS:
        assert fault.old in (ROOT / fault.file).read_text(), (
            f"{fault.label}: {fault.file} has changed, update tests/faults.py"
        )


def test_files_and_functions_are_not_too_large():
    """A file is one idea; a call with nine arguments in a row cannot be read."""
    for name, path in modules():
        text = path.read_text()
        assert text.count("\n") <= 350, f"{name} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                given = [a.arg for a in (*node.args.posonlyargs, *node.args.args) if a.arg not in ("self", "cls")]
                assert len(given) <= 8, f"{name}.{node.name} has {len(given)} positional parameters"
