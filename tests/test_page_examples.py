"""Code on the pages runs on any seed, and the recipes of the examples are those that their search chose."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import recipes, seeds

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["guide, first steps and advice", "guide, own likelihood", "guide, several modes"])
def test_the_guide_on_a_seed_of_its_own(name):
    found = seeds.check(name, seed=11)
    assert found["good"], found


def test_seeds_are_put_in():
    assert seeds.seeded("a(step_size=1e-3)", 4) == "a(step_size=1e-3, seed=4)"
    assert seeds.seeded("a(step_size=1e-3, seed=0)", 4) == "a(step_size=1e-3, seed=4)"
    assert seeds.seeded("a(step_size=1e-3, seed=0, chain=chain)", 4) == "a(step_size=1e-3, seed=4, chain=chain)"


def test_records_of_ten_seeds_are_good():
    records = json.loads((ROOT / "results" / "seeds.json").read_text())
    assert records.keys() == seeds.CHECKS.keys()
    assert all(len(found) >= 10 and all(one["good"] for one in found) for found in records.values())


def test_recipes_are_those_of_the_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("a trial is not recorded: run python -m benchmarks.recipes")

    monkeypatch.setattr(recipes, "validate", refuse)
    assert recipes.main([]) == 0


def test_digits_recipes(tmp_path, monkeypatch):
    example = importlib.import_module("digits_recipes")
    monkeypatch.setattr(example, "RECIPES", {"resnet": replace(example.RECIPES["resnet"], steps=900)})
    monkeypatch.setattr(example, "DENSE", {"resnet": replace(example.DENSE["resnet"], steps=200)})
    monkeypatch.setattr(example, "PRUNED", {"resnet": replace(example.PRUNED["resnet"], steps=200)})
    table = example.main(["resnet"], [0], tmp_path)
    assert table["resnet", "psgld_sa, pruned"]["accuracy"] > 0.9
    assert "turned by 90 degrees" in (tmp_path / "report-resnet.html").read_text()
