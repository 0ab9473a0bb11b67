"""SHA-256 of the chains of every algorithm, so that a change of the code can be shown to change no chain.

    python -m benchmarks.fingerprints chains.json             # write them
    python -m benchmarks.fingerprints chains.json --compare   # compare with what was written

Machine code and BLAS depend on the processor: record and compare on one machine. Only public names are used, so that
the same script runs against an older source tree (``PYTHONPATH=old/src``).
"""

import argparse
import hashlib
import itertools
import json
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import sparse_langevin as sl

STEPS, ROWS = 40, 96
ALGORITHMS = {"sgld": sl.sgld, "psgld": sl.psgld, "sgld_sa": sl.sgld_sa, "psgld_sa": sl.psgld_sa}
ENGINES, DTYPES = ("native", "reference"), (torch.float32, torch.float64)


def chain(
    name: str,
    engine: str,
    dtype: torch.dtype,
    *,
    momentum: float = 0.0,
    pruned: bool = False,
    gamma: str | None = None,
    categorical: bool = False,
    linear: bool = False,
    latents: str = "averaged",
) -> str:
    """Digest of all weights, latent variables and masks of one chain, every tenth step."""
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(33, 5) if linear else nn.Sequential(nn.Linear(33, 71), nn.Tanh(), nn.Linear(71, 5))
    model = model.to(dtype)
    x = torch.randn(ROWS, 33, dtype=torch.float64).to(dtype)
    y = torch.randint(5, (ROWS,)) if categorical else torch.randn(ROWS, 5, dtype=torch.float64).to(dtype)
    preconditioned = name.startswith("psgld")
    options: dict[str, Any] = {"momentum": momentum, "engine": engine, "seed": 3, "chain": 1}
    if pruned:
        options["pruning"] = sl.Pruning(0.6, end=25, every=7)
    if preconditioned:
        corrected = sl.RMSprop(alpha=0.0, eta=1.0, correction=gamma) if gamma else None
        options["preconditioner"] = corrected or sl.RMSprop.as_printed(alpha=0.9)
    if name.endswith("_sa"):
        options["prior"] = sl.SpikeSlab(latents=latents)
    likelihood = sl.CategoricalLikelihood() if categorical else sl.GaussianLikelihood(1.0)
    step_size = sl.Polynomial(1e-2 if preconditioned else 1e-4, 5.0, 0.3)
    sampler = ALGORITHMS[name](model, likelihood, num_data=ROWS, step_size=step_size, **options)
    digest = hashlib.sha256()
    for k in range(STEPS):
        rows = torch.arange(17 * k, 17 * k + 30) % ROWS
        info = sampler.step(x[rows], y[rows])
        if k % 10 == 9:
            digest.update(sampler.flat.vector.numpy().tobytes())
            digest.update(repr((info, sampler.sigma, sorted(sampler.delta.items()))).encode())
            for layer in sampler.inclusion().values():
                digest.update(layer.numpy().tobytes())
    return digest.hexdigest()


def samplers() -> dict[str, str]:
    """Every algorithm as printed, with and without momentum, pruning and Gamma, in both engines and precisions."""
    found = {}
    for name, engine, dtype in itertools.product(ALGORITHMS, ENGINES, DTYPES):
        cases: list[dict[str, Any]] = [
            {"momentum": m, "pruned": p} for m, p in itertools.product((0.0, 0.9), (False, True))
        ]
        cases += [{"categorical": True}, {"linear": True}]
        if name.startswith("psgld"):
            cases += [{"gamma": "hutchinson"}, {"gamma": "exact", "linear": True}]
        if name.endswith("_sa"):
            cases += [{"latents": "summed"}, {"latents": "summed", "momentum": 0.9, "pruned": True}]
        for case in cases:
            words = [f"{key}={value}" for key, value in case.items() if value]
            found[" ".join([name, engine, str(dtype).removeprefix("torch."), *words])] = chain(
                name, engine, dtype, **case
            )
    return found


def estimators() -> dict[str, str]:
    """The linear models' chains."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 90))
    y = x[:, 3] - x[:, 7] + rng.standard_normal(60)
    short = {"burn_in": 300, "max_steps": 600, "random_state": 0, "n_chains": 2}
    found = {}
    for method in ("sgld", "psgld", "sgld-sa", "psgld-sa"):
        regressor = sl.SparseBayesRegressor(method, **short).fit(x, y)
        found[f"regressor {method}"] = hashlib.sha256(regressor.coef_samples_.tobytes()).hexdigest()
        classifier = sl.SparseBayesClassifier(method, **short).fit(x, y > 0)
        found[f"classifier {method}"] = hashlib.sha256(classifier.coef_samples_.tobytes()).hexdigest()
    return found


def main() -> None:
    """Write or compare the digests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = samplers() | estimators()
    if not arguments.compare:
        about = {"machine": platform.machine(), "torch": torch.__version__, "chains": found}
        arguments.file.write_text(json.dumps(about, indent=1) + "\n")
        print(f"{len(found)} chains in {arguments.file}")
        return
    before = json.loads(arguments.file.read_text())["chains"]
    changed = sorted(name for name in before if found.get(name) != before[name])
    for name in changed:
        print(f"changed: {name}")
    print(f"{len(before) - len(changed)} of {len(before)} chains are the same")
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
