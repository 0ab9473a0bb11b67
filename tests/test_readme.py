"""The README is true: its code runs, and that of pages about flow, selection and classes; its errors have records."""

import json
import re
from dataclasses import replace
from pathlib import Path

import torch

from sparse_langevin.studies.darcy_algorithms import VARIANTS, Algorithm, algorithms, errors, mean
from sparse_langevin.studies.darcy_cells import FIELDS, PAPER
from sparse_langevin.surrogates import Settings

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


def test_the_table_of_errors_is_made_of_the_records():
    """If not, the message has the table to paste."""
    table = "\n".join(error_table())
    assert table in (ROOT / "README.md").read_text(), f"README.md should have\n\n{table}\n"


def error_table():
    """e1 of every finished cell, one row a method, one algorithm a field."""
    fields = {field.name: study for study, group in FIELDS.items() for field in group}
    records = [r for s in FIELDS for r in json.loads((ROOT / "results" / s / "table.json").read_text())]
    shown = [name for name in fields if any(r["field"]["name"] == name for r in records)]
    rows = [(algorithm, variant, "e1") for variant in VARIANTS for algorithm in algorithms("channels")]
    rows.append((Algorithm("psgld-sa", 0.7), "", "e1_last"))
    yield f"| e1 %, in brackets the paper's | {' | '.join(shown)} |"
    yield "|---" * (len(shown) + 1) + "|"
    for words, key, digits in (("training mean", "baseline_e1", 1), ("first order", "first_order_e1", 2)):
        known = [next(r[key] for r in records if r["e1"] and r["field"]["name"] == name) for name in shown]
        yield f"| {words} | {' | '.join(f'{error:.{digits}f}' for error in known)} |"
    for plain, variant, measure in rows:
        algorithm = replace(plain, variant=variant)
        cells = []
        for name in shown:
            found = errors(records, name, algorithm, measure)
            e1 = mean(found)
            text = f"{e1:.2f}" if e1 is not None else "diverged" * bool(found)
            paper = PAPER.get((name, algorithm.method, algorithm.sparsity))
            cells.append(f"{text} ({paper[0]:.2f})" if text and paper and not variant and measure == "e1" else text)
        if any(cells):
            yield f"| {algorithm}{' (last sample alone)' * (measure == 'e1_last')} | {' | '.join(cells)} |"


def test_darcy_page():
    names = {}
    (block,) = code_blocks(ROOT / "docs" / "darcy.md")
    exec(block, names)
    assert names["x"].shape == names["y"].shape == (30, 60) and names["solution"].mass_residual < 1e-10


def test_selection_page():
    names = {}
    first, second = code_blocks(ROOT / "docs" / "selection.md")
    exec(first, names)
    assert list(names["model"].get_support(indices=True)) == [3, 7]
    exec(second, names)
    assert sorted(sorted(found.members) for found in names["model"].credible_sets_) == [[3, 1000], [7]]
    assert abs(names["model"].inclusion_probability_[[3, 1000]] - 0.5).max() < 0.1


def test_classification_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names, page = {}, (ROOT / "docs" / "guide.md").read_text()
    section = page[page.index("## Classification") : page.index("## Have the chains converged?")]
    (block,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    exec(block, names)
    assert names["scores"].count == 797 and names["scores"].accuracy > 0.9 and names["scores"].ece < 0.06
    scores = [names[name].mutual_information for name in ("made", "noise")]
    assert names["classification"].auroc(*scores) > 0.95
    assert (tmp_path / "reliability.png").stat().st_size > 10_000


def test_defaults_of_training():
    page = (ROOT / "docs" / "surrogates.md").read_text()
    names, _, *rows = page[page.index("| | sgld |") :].split("\n\n")[0].splitlines()
    methods = [Settings.of(name.strip()) for name in names.split("|")[2:-1]]
    stated = {}
    for row in rows:
        option, *values = [cell.strip(" `") for cell in row.split("|")[1:-1]]
        stated[option[2:].replace("-", "_")] = [float(value) for value in values]
    line = page[page.index("and where they do not:") :].split(". Adam has")[0]
    for option, value in re.findall(r"`--([a-z0-9-]+)` ([0-9.]+)", line):
        stated[option.replace("-", "_")] = [float(value)] * len(methods)
    assert stated == {name: [getattr(m, name) for m in methods] for name in stated}
    numbers = {name for name, value in methods[0].as_json().items() if isinstance(value, int | float)}
    assert stated.keys() == numbers - {"seed", "chain"}
