"""The README's code runs as printed, without a warning."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_code_blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(block.replace("samples=1500", "samples=20"), names)
    assert names["prediction"].mean.shape == (500, 1)
    assert names["inclusion"].shape == (64, 20)
    assert int((names["model"][0].weight == 0).sum()) == round(0.7 * 1280)
    error = (names["prediction"].mean - names["y"]).square().mean().item()
    assert error < 0.05  # the noise has variance 0.01
    assert names["solution"].velocity.shape == (5100,) and len(names["data"]) == 20
