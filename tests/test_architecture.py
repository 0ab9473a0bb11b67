"""What holds for the source as a whole: dependencies point one way, seeded faults have a line to break."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sparse_langevin
from tests.mutants import FAULTS

ROOT = Path(sparse_langevin.__file__).parent
# A module may import only from layers above its own line.
LAYERS = [
    {"lazy", "jit", "extras"},
    {"allocator", "schedules", "flat", "noise", "batches", "interrupts", "files", "evaluation", "progress", "report"},
    {"checkpoint", "darcy", "processes"},
    {"runs"},
    {"tensorboard", "likelihoods", "priors", "preconditioners", "pruning"},
    {"curvature", "checks", "health", "closed_form"},
    {"kernels"},
    {"sampler", "deploy"},
    {"algorithms", "posterior"},
    {"linear"},
    {"estimators"},
    {"training", "selection"},
    {"surrogates"},
    {"experiments"},
    {"cli"},
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparse_langevin"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]


def test_every_module_has_a_layer():
    modules = {
        p.stem if p.is_file() else p.name for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()
    }
    assert modules - {"__init__"} == set().union(*LAYERS)


def test_imports_point_to_lower_layers():
    level = {module: i for i, layer in enumerate(LAYERS) for module in layer}
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        for other in imports(path):
            assert other == module or level[other] < level[module], f"{path.name} imports {other}"


@pytest.mark.parametrize("module", ["cli", "darcy", "estimators"])
def test_what_need_not_wait_for_torch(module):
    code = f"import sys, sparse_langevin.{module}; assert 'torch' not in sys.modules; sparse_langevin.schedules.Cosine"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", ["sparse_langevin", "sparse_langevin.darcy", "sparse_langevin.posterior"])
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
            f"{fault.label}: {fault.file} has changed, update mutants.py"
        )
