"""The search behind examples/digits_recipes.py: ``python -m benchmarks.recipes [cnn] [resnet] [transformer]``.

Every trial trains or samples on the training part of two splits and is judged by the mean NLL on their validation
parts; the test parts have no part in it. Trials are recorded in results/recipes.jsonl, and a command that was stopped
goes on. At the end it says which settings won, and fails if the example has others.
"""

import argparse
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from benchmarks.classification.records import Records
from sparse_langevin import ChainWarning
from sparse_langevin.posterior import classification
from sparse_langevin.runtime.memory import keep_memory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import digits_recipes as example  # noqa: E402, in a folder that is no package

SEEDS = (100, 101)  # of splits and initial weights; those of the example's tables are small numbers

_ADAM = [{"step_size": s, "weight_decay": w} for s in (1e-3, 3e-3, 1e-2) for w in (0.01, 0.1)]
TRIALS: dict[str, list[dict[str, Any]]] = {
    "dense": [*_ADAM, *({"step_size": 3e-3, "weight_decay": w} for w in (0.0, 0.3, 1.0)), {"step_size": 5e-3}],
    "pruned": [*_ADAM, *({"step_size": 3e-3, "pruned_by": p} for p in (0.4, 0.6, 0.7, 0.8))],
    "sampled": [
        {},
        {"tau": 100.0},
        {"tau": 1000.0},
        {"tau": 100.0, "v0": 0.3},
        {"tau": 100.0, "v0": 1.0},
        {"tau": 100.0, "v0": 0.03},
        {"tau": 100.0, "v1": 1000.0},
        {"tau": 100.0, "v1": 10.0},
        {"tau": 100.0, "step_size": 3e-3},
        {"tau": 100.0, "step_size": 1e-2},
        {"tau": 100.0, "v1": 1e4},
        {"tau": 100.0, "v1": 1e4, "v0": 0.3},
        {"tau": 100.0, "v1": 1e4, "v0": 1.0},
        {"tau": 100.0, "v1": 1e4, "v0": 0.3, "chains": 2},
        {"tau": 1000.0, "v1": 1e4, "v0": 0.3},
        {"tau": 1000.0, "v1": 1e5, "v0": 1.0},
        {"tau": 100.0, "v0": 0.01},
        {"tau": 100.0, "v0": 0.03, "v1": 1000.0},
        {"tau": 100.0, "v0": 0.01, "v1": 1000.0},
        {"tau": 100.0, "v0": 0.03, "step_size": 1e-2},
        {"tau": 100.0, "v0": 0.03, "pruned_by": 0.6, "noise_from": 0.7},
        {"tau": 100.0, "v0": 0.03, "chains": 2},
        {"tau": 100.0, "v0": 0.03, "noise_from": 0.8},
        {"tau": 100.0, "v0": 0.03, "noise_from": 0.8, "final": 0.02},
        {"tau": 1000.0, "v0": 0.03, "noise_from": 0.8, "final": 0.02},
        {"tau": 100.0, "v0": 0.03, "noise_from": 0.8, "final": 0.02, "step_size": 1e-2},
        {"tau": 100.0, "v0": 0.03, "v1": 1000.0, "noise_from": 0.8, "final": 0.02},
        {"tau": 1000.0, "v0": 0.03, "noise_from": 0.8, "final": 0.02, "pruned_by": 0.7},
        {"tau": 1000.0, "v0": 0.03, "noise_from": 0.8, "final": 0.02, "chains": 2},
    ],
}
LATER = {"transformer": 16}
"""Networks that were searched after the others, and how many trials of the sampler, far from where those had arrived,
they leave out."""
DEFAULTS = {"dense": example.AdamRecipe(), "pruned": example.AdamRecipe(), "sampled": example.Recipe()}
CHOSEN = {"dense": example.DENSE, "pruned": example.PRUNED, "sampled": example.RECIPES}


def validate(name: str, way: str, settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Train or sample once, and return the scores on the validation part."""
    data = example.load(seed)
    x, y = data["validation"]
    recipe = type(DEFAULTS[way])(**settings)
    try:
        if isinstance(recipe, example.Recipe):
            found = example.sampled(name, recipe, data["train"], [x], seed)[0].probabilities
        else:
            (found,) = example.trained(name, recipe, data["train"], [x], seed, zeros=way == "pruned")
    except (FloatingPointError, ValueError) as error:  # a trial that diverges is lost
        return {"failed": str(error)}  # type: ignore[dict-item]
    scores = classification.assess(found, y)
    return {"accuracy": scores.accuracy, "nll": scores.nll, "ece": scores.ece}


def search(records: Records, name: str, way: str) -> dict[str, Any]:
    """Run the trials of one way to train that are not recorded yet, and return the settings with the lowest NLL."""
    judged = []
    for trial in TRIALS[way][LATER.get(name, 0) if way == "sampled" else 0 :]:
        settings = asdict(DEFAULTS[way]) | trial
        runs = []
        for seed in SEEDS:
            key = {"network": name, "way": way, "settings": settings, "seed": seed}
            runs.append(records.known(key, lambda s=settings, n=seed: validate(name, way, s, n)))  # type: ignore[misc]
        if any("failed" in run for run in runs):
            print(f"{name}, {way}: failed, {trial}", flush=True)
            continue
        scores = {n: mean(run[n] for run in runs) for n in ("accuracy", "nll", "ece")}
        judged.append((scores["nll"], settings))
        print(f"{name}, {way}: {', '.join(f'{n} {v:.4f}' for n, v in scores.items())}, {trial}", flush=True)
    return min(judged, key=lambda pair: pair[0])[1]


def main(words: list[str] | None = None) -> int:
    """Search, and compare with the example; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help=", ".join(example.RECIPES))
    parser.add_argument("--ways", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "recipes.jsonl", help="file of the records")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    keep_memory()
    warnings.simplefilter("ignore", ChainWarning)
    records, differ = Records(options.out), 0
    for name in options.names or list(example.RECIPES):
        for way in options.ways:
            best = search(records, name, way)
            here = asdict(CHOSEN[way][name])
            differ += best != here
            print(f"{name}, {way}: best {best}" + ("" if best == here else f"; the example has {here}"), flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
