"""The wheel: what is in it, what it asks for, and that it works with its core dependencies alone."""

import itertools
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import sparse_langevin
from sparse_langevin import deploy, posterior
from sparse_langevin.runtime.extras import SURROGATES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {"pillow": "PIL"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


def test_contents(wheel):
    files = (path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    expected = {path.relative_to(ROOT / "src").as_posix() for path in files}
    assert {"sparse_langevin/py.typed", "sparse_langevin/reports/templates/report.html"} < expected
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert found == expected


def test_dependencies_are_ranges_and_what_is_tested_lies_in_them():
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    wanted = itertools.chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for requirement in map(Requirement, wanted):
        assert not any(part.operator in ("==", "===") for part in requirement.specifier), requirement
        if requirement.name != "sparse-langevin":
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_the_command_looks_for_what_its_extra_brings():
    names = [Requirement(text).name for text in PROJECT["optional-dependencies"]["surrogates"]]
    assert sorted(IMPORTED_AS.get(name, name) for name in names) == sorted(SURROGATES)


def test_core_dependencies_are_enough(wheel, tmp_path):
    python = environment(tmp_path, wheel, PROJECT["dependencies"])
    run(python, "-W", "error", ROOT / "tests" / "core_only.py", ROOT / "README.md")


def test_the_extra_brings_all_that_the_command_needs(wheel, tmp_path):
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["surrogates"]
    python = environment(tmp_path, wheel, wanted)
    walk = "import pkgutil; list(map(pkgutil.resolve_name, %s))"
    files = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py") and "/darcy.py" not in name)
    run(python, "-c", walk % [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files])
    run(python, "-m", "sparse_langevin", "--version")


def environment(folder, wheel, requirements):
    """Python of a new environment with the wheel, these requirements, and what they need in turn."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    for name in needed(requirements):
        link(name, site)
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    return python


def run(python, *arguments):
    """Run Python isolated, so that no PYTHONPATH lets the source in."""
    alone = os.environ | {"OMP_NUM_THREADS": "1"}  # threads that wait for each other crawl on a busy machine
    result = subprocess.run([python, "-I", *arguments], cwd=python.parent, env=alone, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def needed(requirements):
    """Names of installed distributions: these requirements, and what they need in turn."""
    found, waiting = set(), list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += distribution(name).requires or []
    return found


def link(name, site):
    """Make an installed distribution visible in another environment; copies of torch would take long."""
    home = distribution(name)
    for top in {Path(file).parts[0] for file in home.files} - {"..", "__pycache__"}:
        (site / top).symlink_to(home.locate_file(top))


def test_every_page_is_in_the_menu():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_api_page_has_every_public_name_at_its_place():
    listed = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    for package in (sparse_langevin, deploy, posterior):
        names = {f"{package.__name__}.{name}" for name in package.__all__} - {"sparse_langevin.PosteriorBank"}
        assert names <= set(listed), f"docs/api.md lacks {sorted(names - set(listed))}"
    for name in listed:
        pkgutil.resolve_name(name)


def test_threads_where_there_is_no_fork():
    code = "import os; del os.register_at_fork; import sparse_langevin.runtime.threads"
    subprocess.run([sys.executable, "-c", code], check=True)
