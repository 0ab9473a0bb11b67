"""The README is true: its code, and that of the pages about Darcy flow and selection, runs; its errors have records."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sparse_langevin.experiments.darcy_cells import FIELDS, PAPER
from sparse_langevin.experiments.darcy_report import VARIANTS, Column, mean_e1

ROOT = Path(__file__).parents[1]


def code_blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(ROOT / "README.md")
    network, regression, flow = ({}, {}, {})
    for block, names in zip(blocks, (network, regression, flow), strict=True):
        exec(block.replace("samples=1500", "samples=20"), names)
    assert network["prediction"].mean.shape == (500, 1)
    assert network["inclusion"].shape == (64, 20)
    assert int((network["model"][0].weight == 0).sum()) == round(0.7 * 1280)
    error = (network["prediction"].mean - network["y"]).square().mean().item()
    assert error < 0.05  # the noise has variance 0.01
    assert list(regression["regressor"].get_support(indices=True)) == [3, 7]
    assert flow["solution"].velocity.shape == (5100,) and len(flow["data"]) == 20


def test_the_errors_of_surrogates_are_those_of_the_records():
    columns = [Column("psgld-sa", 0.7), Column("psgld-sa", 0.5), Column("psgld")]
    columns += [Column("sgld-sa", 0.7), Column("sgld-sa", 0.5), Column("sgld"), Column("adam"), Column("adam", 0.7)]
    studies = {field.name: study for study, fields in FIELDS.items() for field in fields}
    field, checked = "", 0
    for line in (ROOT / "README.md").read_text().splitlines():
        name, *cells = [cell.strip(" *") for cell in line.split("|")[1:-1]] or [""]
        first, _, part = name.partition(", ")
        if first in studies:
            field = first
            found = json.loads((ROOT / "results" / studies[field] / "table.json").read_text())
            measure = "e1_last" if part == "last sample alone" else "e1"
            variant = next((key for key, words in VARIANTS.items() if words == part), "")
            wanted = [mean_e1(found, field, replace(c, variant=variant), measure) for c in columns]
        elif first == "the paper":
            wanted = [PAPER.get((field, c.method, c.sparsity), (None,))[0] for c in columns]
        else:
            continue
        for cell, value, column in zip(cells, wanted, columns, strict=True):
            if cell == "diverged":
                assert any(r["e1"] is None for r in found if r["cell"].startswith(f"{field}-{column.method}-")), name
            elif cell:
                assert float(cell) == pytest.approx(value, abs=0.00501), (name, column)
            checked += bool(cell)
    assert checked > 40


def test_darcy_page():
    names = {}
    (block,) = code_blocks(ROOT / "docs" / "darcy.md")
    exec(block, names)
    assert names["x"].shape == names["y"].shape == (30, 60) and names["solution"].mass_residual < 1e-10


def test_selection_page():
    names = {}
    (block,) = code_blocks(ROOT / "docs" / "selection.md")
    exec(block, names)
    assert list(names["model"].get_support(indices=True)) == [3, 7]
