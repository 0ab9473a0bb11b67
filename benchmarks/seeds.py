"""The examples of the README and of the guide on ten seeds: ``python -m benchmarks.seeds [--seeds 10]``.

None may collapse (every weight of a layer in the spike) or diverge, also not at the step that `suggest_step_size`
advises. The code is taken from the pages as it stands; only seeds are put in. What came out is recorded in
results/seeds.json, and the exit code is 1 if any of it is bad.
"""

import argparse
import json
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn

from sparse_langevin import (
    Batches,
    ChainWarning,
    GaussianLikelihood,
    PosteriorBank,
    Sampler,
    fit,
    psgld_sa,
    sgld,
    sgld_sa,
    suggest_step_size,
)
from sparse_langevin.storage.files import write_atomically

ROOT = Path(__file__).parents[1]
Names = dict[str, Any]

PREAMBLE = """
import math
import torch
from torch import nn
from sparse_langevin import *

x = torch.randn(400, 20)
y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] + 0.1 * torch.randn(400, 1)
x_val, y_val, x_test, y_test = x[300:350], y[300:350], x[350:], y[350:]
x, y = x[:300], y[:300]
loader, train = Batches(x, y, batch_size=50), x
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
"""
"""What the guide takes for granted."""


def code_blocks(text: str) -> list[str]:
    """Return the Python code of a page."""
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def seeded(code: str, seed: int) -> str:
    """Give every sampler a seed."""
    code = re.sub(r"seed=0\b", "", code).replace(", )", ")").replace(", ,", ",")
    return re.sub(r"(step_size=[^,)\n]+)", rf"\1, seed={seed}", code)


def section(title: str) -> str:
    """Return the code of a section of the guide."""
    page = (ROOT / "docs" / "guide.md").read_text()
    start = page.index(f"## {title}\n")
    end = page.find("\n## ", start + 1)
    return "\n".join(code_blocks(page[start : end if end > 0 else None]))


def run(code: str, seed: int) -> Names:
    """Run code from a page."""
    torch.manual_seed(seed)
    names: Names = {}
    exec(compile(seeded(code, seed), "example", "exec"), names)
    return names


def readme(seed: int) -> Names:
    """The network of the README."""
    names = run(code_blocks((ROOT / "README.md").read_text())[0], seed)
    error = (names["prediction"].mean - names["y"]).square().mean().item()
    return {"sigma": names["sampler"].sigma, "mse": error, "good": error < 0.05}


def stepping(seed: int) -> Names:
    """The first sampler of the guide, for 40 epochs, then the advice."""
    code = PREAMBLE + section("A sampler, not an optimiser").replace(
        "for x, y in loader", "for x, y in list(loader) * 40"
    )
    names = run(code + "\n" + section("Step sizes"), seed)
    sampler = names["sampler"]
    return {"sigma": sampler.sigma, "advised": names["advice"].step_size, "good": sampler.sigma < 0.5}


def surviving(seed: int) -> Names:
    """The guide's run that resumes, its predictions and verdict."""
    code = PREAMBLE + section("A sampler, not an optimiser").partition("for")[0]
    names = run(code + "history = " + section("Runs that survive").strip(), seed)
    first, *_, last = names["history"]
    return {"sigma": names["sampler"].sigma, "loss": last["loss"], "good": last["loss"] < 0.5 * first["loss"]}


def student(seed: int) -> Names:
    """The guide's likelihood with heavy tails, for 2000 steps."""
    code = section("Your own likelihood").replace("sampler.step", "for _ in range(2000):\n    info = sampler.step")
    names = run(PREAMBLE + code, seed)
    return {"loss": names["info"].loss, "good": math.isfinite(names["info"].loss)}


def classes(seed: int) -> Names:
    """The guide's digits."""
    scores = run(section("Classification"), seed)["scores"]
    return {"accuracy": scores.accuracy, "ece": scores.ece, "good": scores.accuracy > 0.9}


def chains(seed: int) -> Names:
    """The guide's four chains."""
    names = run(PREAMBLE + section("Several chains"), seed)
    error = (names["prediction"].mean - names["y_test"]).square().mean().item()
    return {"mse": error, "good": error < 0.2}


def ladder(seed: int) -> Names:
    """The guide's ladder of temperatures."""
    names = run(PREAMBLE + section("Several modes"), seed)
    sampler = names["ladder"].target
    return {"sigma": sampler.sigma, "acceptance": names["ladder"].acceptance, "good": sampler.sigma < 0.6}


def advised(method: Callable[..., Sampler], step: float) -> Callable[[int], Names]:
    """A linear model and a network, warmed up at a step and then sampled at the advised one."""

    def check(seed: int) -> Names:
        torch.manual_seed(seed)
        x = torch.randn(300, 20)
        y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] + 0.1 * torch.randn(300, 1)
        found: Names = {"good": True}
        for name in ("linear", "network"):
            torch.manual_seed(seed)
            layers = [nn.Linear(20, 1)] if name == "linear" else [nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 1)]
            model, loader = nn.Sequential(*layers), Batches(x, y, batch_size=50, seed=seed)
            options = {"num_data": 300, "momentum": 0.9, "seed": seed}
            before = method(model, GaussianLikelihood(), step_size=step, **options)
            fit(before, loader, steps=3000)
            size = suggest_step_size(before, loader, error=0.05).step_size
            after = method(model, GaussianLikelihood(sigma=before.sigma), step_size=size, **options)
            history = fit(after, loader, epochs=330, bank=PosteriorBank(thin=20, burn_in=1000))
            first, last = (mean(r["loss"] for r in part) for part in (history[:10], history[-10:]))  # of ten epochs
            found |= {f"{name} step": size, f"{name} loss": last, f"{name} sigma": after.sigma}
            found["good"] &= last < 1.5 * first  # a diverging chain grows by orders of magnitude
        return found

    return check


CHECKS: dict[str, Callable[[int], Names]] = {
    "README, network": readme,
    "guide, first steps and advice": stepping,
    "guide, runs that survive": surviving,
    "guide, own likelihood": student,
    "guide, classification": classes,
    "guide, several chains": chains,
    "guide, several modes": ladder,
    "advised step, sgld": advised(sgld, 1e-5),
    "advised step, sgld_sa": advised(sgld_sa, 1e-5),
    "advised step, psgld_sa": advised(psgld_sa, 1e-3),
}


def check(name: str, seed: int) -> Names:
    """Run one example, and say what came out and what it warned of."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = CHECKS[name](seed)
        except FloatingPointError as error:
            found = {"good": False, "failed": str(error)}
    told = [str(w.message) for w in caught if issubclass(w.category, ChainWarning)]
    ruined = [text for text in told if "in the spike" in text or "diverged" in text]
    return found | {"good": bool(found["good"]) and not ruined, "warnings": [" ".join(t.split())[:90] for t in told]}


def main(words: list[str] | None = None) -> int:
    """Run all examples on all seeds, and record them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "seeds.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    known: dict[str, list[Names]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.only:
        known[name] = [check(name, seed) for seed in range(options.seeds)]
        write_atomically(options.out, json.dumps(known, indent=1).encode())
        bad = [seed for seed, found in enumerate(known[name]) if not found["good"]]
        print(f"{name}: {'bad at seeds ' + str(bad) if bad else 'good on all seeds'}", flush=True)
    return int(any(not found["good"] for name in options.only for found in known[name]))


if __name__ == "__main__":
    sys.exit(main())
