"""The code in the README and on the pages about Darcy flow and selection runs as printed, without a warning."""

import re
from pathlib import Path

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
