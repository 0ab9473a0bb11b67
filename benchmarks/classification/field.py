"""The field: who takes part, with which share of the budget, and the settings that were tried for each.

For each share of zeros every contender has the same number of trials. Their settings were chosen by hand, the later
ones with the results of the earlier ones in view, and judged by the NLL on the validation images alone. The ensemble
with five times the budget has no trials, but the settings of its members, which have their own.
"""

from dataclasses import dataclass
from typing import Any

from benchmarks.classification.contenders import Train, adam, dropout, ensemble, ours, sghmc

MEMBERS = 5
SHARES = (0.0, 0.9)  # of zeros


@dataclass(frozen=True)
class Contender:
    """One who takes part.

    ``train`` is run for the table. Each network that it trains gets ``budget`` times the CPU time of the reference. An
    ensemble consists of networks of another contender, its ``member``: trials train only one, and steps cost the same.
    """

    title: str
    train: Train
    budget: float = 1.0
    member: str | None = None


CONTENDERS = {
    "adam": Contender("Adam", adam),
    "ensemble": Contender("5 networks, a fifth of the budget each", ensemble(adam, MEMBERS), 1 / MEMBERS, "adam"),
    "ensemble-full": Contender("5 networks, 5 times the budget", ensemble(adam, MEMBERS), member="adam"),
    "dropout": Contender("MC dropout", dropout),
    "sghmc": Contender("posteriors SGHMC", sghmc),
    "ours": Contender("sparse-langevin", ours),
}

REFERENCE: dict[str, Any] = {"step_size": 1e-3, "batch_size": 100, "weight_decay": 0.0}
"""Settings of the Adam run whose CPU time is the budget; 6 epochs of it."""


def _vary(base: dict[str, Any], *changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [base, *(base | change for change in changes)]


_ADAM = {"step_size": 1e-3, "batch_size": 100, "weight_decay": 0.0}
_DROPOUT = {"step_size": 3e-3, "batch_size": 100, "weight_decay": 0.0, "rate": 0.25}
_SGHMC = {"step_size": 0.1, "batch_size": 50, "sigma0": 0.1, "temperature": 1.0, "noise_from": 0.5}
_SGHMC |= {"final": 0.1, "sampled_from": 0.7, "samples": 20}
_OURS = {"step_size": 2e-3, "final": 0.1, "momentum": 0.9, "batch_size": 50, "tau": 1.0, "noise_from": 0.6}
_OURS |= {"sampled_from": 0.7, "samples": 20}
_COLD = {"step_size": 5e-3, "final": 0.05, "tau": 100.0, "noise_from": 0.7, "sampled_from": 0.8}

_SLOW = _OURS | _COLD | {"sigma0": 0.3}
_WARM = _SLOW | {"final": 0.1, "noise_from": 0.7, "sampled_from": 0.7}
_HOT = _WARM | {"step_size": 8e-3, "batch_size": 100, "final": 0.3, "noise_from": 0.6, "sampled_from": 0.6, "eta": 10.0}

_GLOBAL = {"scope": "global"}
_SMALL = _GLOBAL | {"step_size": 4e-3, "weight_decay": 0.1, "batch_size": 50}
_COOL = {"temperature": 0.01, "sigma0": 0.3, "noise_from": 0.6, "sampled_from": 0.7}
_LARGE = _COLD | _GLOBAL | {"v1": 100.0, "step_size": 8e-3, "final": 0.1, "sampled_from": 0.7, "batch_size": 100}
_FLAT = _LARGE | {"final": 0.3, "sampled_from": 0.6, "noise_from": 0.6}
_THIN = _FLAT | {"v0": 0.01}
_DENSE = _OURS | {"step_size": 8e-3, "final": 0.3, "tau": 100.0, "noise_from": 0.65, "sampled_from": 0.65}
_DENSE |= {"batch_size": 100, "v0": 0.01, "v1": 100.0}

TRIALS: dict[tuple[str, float], list[dict[str, Any]]] = {
    ("adam", 0.0): _vary(
        _ADAM,
        {"step_size": 3e-3},
        {"step_size": 2e-3, "weight_decay": 0.1},
        {"step_size": 4e-3, "weight_decay": 0.1},
        {"step_size": 3e-3, "batch_size": 50, "weight_decay": 0.1},
        *({"step_size": size, "weight_decay": 0.1} for size in (5e-3, 6e-3)),
        *({"step_size": 4e-3, "weight_decay": decay} for decay in (0.3, 1.0)),
        {"step_size": 5e-3, "weight_decay": 0.3},
        *({"step_size": 4e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.1, 0.2, 0.3)),
        *({"step_size": 3e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.05, 0.3)),
        *({"step_size": size, "batch_size": 50, "weight_decay": 0.1} for size in (5e-3, 6e-3)),
        {"step_size": 4e-3, "batch_size": 50, "weight_decay": 0.05},
        {"step_size": 6e-3, "weight_decay": 0.05},
        {"step_size": 8e-3, "weight_decay": 0.1},
        *({"step_size": 5e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.05, 0.2)),
        {"step_size": 6e-3, "batch_size": 50, "weight_decay": 0.2},
        {"step_size": 8e-3, "weight_decay": 0.05},
        {"step_size": 1e-2, "weight_decay": 0.1},
        *({"step_size": size, "batch_size": 50, "weight_decay": 0.1} for size in (7e-3, 8e-3)),
        {"step_size": 6e-3, "batch_size": 50, "weight_decay": 0.15},
        *({"step_size": size, "batch_size": 25, "weight_decay": 0.1} for size in (4e-3, 6e-3)),
    ),
    ("adam", 0.9): _vary(
        _ADAM | {"step_size": 3e-3, "pruned_by": 0.6},
        {"step_size": 5e-3},
        _GLOBAL | {"step_size": 3e-3},
        _GLOBAL | {"step_size": 5e-3},
        _GLOBAL | {"batch_size": 50},
        *(_GLOBAL | {"step_size": size, "weight_decay": 0.1} for size in (4e-3, 5e-3, 8e-3)),
        *(_GLOBAL | {"step_size": 5e-3, "weight_decay": decay} for decay in (0.03, 0.3, 1.0)),
        *(_GLOBAL | {"step_size": 5e-3, "pruned_by": end} for end in (0.4, 0.5, 0.75)),
        *(_GLOBAL | {"step_size": 5e-3, "pruned_by": end, "weight_decay": 0.1} for end in (0.4, 0.5, 0.75)),
        _GLOBAL | {"step_size": 8e-3},
        *(_GLOBAL | {"step_size": size, "weight_decay": 0.1, "batch_size": 50} for size in (3e-3, 4e-3)),
        *(_SMALL | {"step_size": size} for size in (5e-3, 6e-3)),
        *(_SMALL | {"weight_decay": decay} for decay in (0.0, 0.05, 0.2)),
        *(_SMALL | {"pruned_by": end} for end in (0.5, 0.75, 0.9)),
        *(_SMALL | {"step_size": 5e-3, "pruned_by": 0.75, "weight_decay": decay} for decay in (0.05, 0.1)),
    ),
    ("ensemble", 0.0): _vary(
        _ADAM | {"step_size": 3e-3},
        {"step_size": 5e-3},
        {"step_size": 2e-3, "batch_size": 50},
        {"batch_size": 50},
        {"step_size": 5e-3, "batch_size": 50},
        *({"step_size": size, "batch_size": 50} for size in (6e-3, 8e-3, 1e-2)),
        *({"step_size": size, "batch_size": 25} for size in (3e-3, 4e-3, 5e-3)),
        *({"step_size": 5e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.1, 0.3)),
        {"step_size": 8e-3, "batch_size": 50, "weight_decay": 0.1},
        {"step_size": 8e-3},
        {"step_size": 7e-3, "batch_size": 50},
        *({"step_size": size, "batch_size": 50, "weight_decay": 0.03} for size in (6e-3, 8e-3)),
        *({"step_size": size, "batch_size": 25} for size in (6e-3, 8e-3)),
        {"step_size": 9e-3, "batch_size": 50},
        {"step_size": 7e-3, "batch_size": 25},
        {"step_size": 7e-3, "batch_size": 50, "weight_decay": 0.03},
        {"step_size": 8e-3, "batch_size": 50, "weight_decay": 0.01},
        {"step_size": 1e-2},
        *({"step_size": size, "batch_size": 25, "weight_decay": 0.03} for size in (5e-3, 6e-3, 8e-3)),
        *({"step_size": size, "batch_size": 40} for size in (6e-3, 8e-3)),
    ),
    ("ensemble", 0.9): _vary(
        _ADAM | {"step_size": 3e-3, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"step_size": 5e-3},
        _GLOBAL | {"batch_size": 50},
        _GLOBAL | {"step_size": 5e-3, "pruned_by": 0.8},
        *(_GLOBAL | {"step_size": size, "batch_size": 50} for size in (4e-3, 5e-3, 8e-3)),
        *(_GLOBAL | {"step_size": size, "batch_size": 25} for size in (2e-3, 3e-3, 5e-3)),
        *(_GLOBAL | {"step_size": 5e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.03, 0.1, 0.3)),
        *(_GLOBAL | {"step_size": 5e-3, "batch_size": 50, "pruned_by": end} for end in (0.5, 0.7, 0.8, 0.9)),
        *(_GLOBAL | {"step_size": 3e-3, "batch_size": 50, "pruned_by": end} for end in (0.7, 0.8)),
        *(_GLOBAL | {"step_size": 8e-3, "batch_size": 50, "pruned_by": end} for end in (0.5, 0.7, 0.8, 0.9)),
        *(_GLOBAL | {"step_size": size, "batch_size": 50} for size in (6e-3, 1e-2)),
        *(_GLOBAL | {"step_size": 8e-3, "batch_size": 50, "weight_decay": decay} for decay in (0.03, 0.1)),
        *(_GLOBAL | {"step_size": size, "batch_size": 100} for size in (8e-3, 1e-2)),
    ),
    ("dropout", 0.0): _vary(
        _DROPOUT,
        {"rate": 0.1},
        {"rate": 0.4},
        {"step_size": 2e-3},
        {"rate": 0.1, "batch_size": 50},
        *({"rate": rate, "batch_size": 50} for rate in (0.02, 0.05)),
        *({"rate": rate, "batch_size": 50, "step_size": 4e-3} for rate in (0.05, 0.1)),
        {"rate": 0.1, "batch_size": 50, "step_size": 5e-3},
        *({"rate": rate, "step_size": 5e-3} for rate in (0.05, 0.1)),
        *({"rate": 0.1, "batch_size": 50, "weight_decay": decay} for decay in (0.1, 0.3)),
        {"rate": 0.05, "batch_size": 50, "step_size": 4e-3, "weight_decay": 0.1},
        *({"rate": rate, "batch_size": 50, "step_size": 5e-3, "weight_decay": 0.1} for rate in (0.05, 0.1)),
        *({"rate": 0.05, "batch_size": 50, "step_size": 5e-3, "weight_decay": decay} for decay in (0.0, 0.05)),
        {"rate": 0.1, "batch_size": 50, "step_size": 6e-3},
        {"rate": 0.05, "batch_size": 50, "step_size": 6e-3, "weight_decay": 0.1},
        {"rate": 0.1, "batch_size": 50, "step_size": 6e-3, "weight_decay": 0.05},
        {"rate": 0.05, "batch_size": 50, "step_size": 4e-3, "weight_decay": 0.05},
        {"rate": 0.1, "batch_size": 50, "step_size": 4e-3, "weight_decay": 0.1},
        {"rate": 0.05, "step_size": 6e-3, "weight_decay": 0.1},
        *({"rate": 0.02, "batch_size": 50, "step_size": size, "weight_decay": 0.1} for size in (4e-3, 5e-3)),
        *({"rate": 0.05, "batch_size": 50, "step_size": size, "weight_decay": 0.15} for size in (4e-3, 5e-3)),
        {"rate": 0.1, "batch_size": 50, "step_size": 5e-3, "weight_decay": 0.05},
    ),
    ("dropout", 0.9): _vary(
        _DROPOUT | {"rate": 0.1, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"rate": 0.05},
        _GLOBAL | {"rate": 0.2},
        _GLOBAL | {"step_size": 5e-3},
        *(_GLOBAL | {"step_size": 5e-3, "rate": rate} for rate in (0.02, 0.05, 0.2)),
        *(_GLOBAL | {"step_size": size, "rate": 0.05, "batch_size": 50} for size in (3e-3, 4e-3, 5e-3)),
        *(_GLOBAL | {"step_size": 5e-3, "rate": 0.05, "weight_decay": decay} for decay in (0.03, 0.1, 0.3)),
        *(_GLOBAL | {"step_size": 5e-3, "rate": 0.05, "pruned_by": end} for end in (0.4, 0.5, 0.75)),
        *(_GLOBAL | {"step_size": 8e-3, "rate": rate} for rate in (0.02, 0.05, 0.1)),
        *(_SMALL | {"rate": rate} for rate in (0.02, 0.05, 0.1)),
        *(_SMALL | {"rate": 0.05, "step_size": size} for size in (3e-3, 5e-3)),
        *(_SMALL | {"rate": 0.05, "weight_decay": decay} for decay in (0.03, 0.3)),
        *(_SMALL | {"rate": 0.05, "pruned_by": end} for end in (0.5, 0.75, 0.9)),
    ),
    ("sghmc", 0.0): _vary(
        _SGHMC,
        {"step_size": 0.2},
        {"step_size": 0.2, "temperature": 0.1},
        {"step_size": 0.3, "temperature": 0.01},
        {"step_size": 0.3, "temperature": 0.01, "sigma0": 0.3, "noise_from": 0.7, "sampled_from": 0.8},
        *(_COOL | {"step_size": size} for size in (0.05, 0.1)),
        *(_COOL | {"step_size": size, "batch_size": 100} for size in (0.15, 0.2)),
        *(_COOL | {"step_size": size, "temperature": 0.001} for size in (0.05, 0.1, 0.15)),
        _COOL | {"step_size": 0.1, "temperature": 0.1},
        _COOL | {"step_size": 0.1, "temperature": 0.001, "sigma0": 1.0},
        _COOL | {"step_size": 0.1, "temperature": 0.001, "final": 0.03},
        *(_COOL | {"step_size": size, "temperature": 0.001} for size in (0.07, 0.2)),
        _COOL | {"step_size": 0.1, "temperature": 1e-4},
        _COOL | {"step_size": 0.15, "temperature": 0.001, "sigma0": 1.0},
        _COOL | {"step_size": 0.15, "temperature": 0.001, "final": 0.3},
        *(_COOL | {"step_size": size, "temperature": 0.001} for size in (0.18, 0.25)),
        _COOL | {"step_size": 0.2},
        _COOL | {"step_size": 0.2, "temperature": 0.001, "sigma0": 1.0},
        _COOL | {"step_size": 0.2, "temperature": 0.001, "final": 0.03},
        *(_COOL | {"step_size": size, "temperature": 0.001, "batch_size": 25} for size in (0.1, 0.15)),
        *(
            _COOL | {"step_size": size, "temperature": 0.001, "noise_from": 0.7, "sampled_from": 0.8}
            for size in (0.15, 0.2)
        ),
        _COOL | {"step_size": 0.15, "temperature": 0.001, "sigma0": 0.2},
    ),
    ("sghmc", 0.9): _vary(
        _SGHMC | {"step_size": 0.2, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"step_size": 0.1, "temperature": 0.1, "sigma0": 0.3},
        _GLOBAL | {"step_size": 0.15, "temperature": 0.01, "sigma0": 0.3},
        _GLOBAL | {"temperature": 0.01, "sigma0": 0.3, "noise_from": 0.7, "sampled_from": 0.8},
        *(_COOL | _GLOBAL | {"step_size": size, "batch_size": 100} for size in (0.1, 0.15, 0.2, 0.3)),
        *(_COOL | _GLOBAL | {"step_size": size} for size in (0.05, 0.1, 0.15)),
        *(_COOL | _GLOBAL | {"step_size": 0.1, "temperature": temperature} for temperature in (0.1, 0.001)),
        *(_COOL | _GLOBAL | {"step_size": 0.1, "sigma0": sigma0} for sigma0 in (0.1, 1.0)),
        *(_COOL | _GLOBAL | {"step_size": 0.1, "final": final} for final in (0.03, 0.3)),
        *(_COOL | _GLOBAL | {"step_size": 0.1, "pruned_by": end} for end in (0.4, 0.5)),
        *(_COOL | _GLOBAL | {"step_size": size, "sigma0": 1.0} for size in (0.07, 0.15, 0.2)),
        *(_COOL | _GLOBAL | {"step_size": size, "temperature": 0.001} for size in (0.07, 0.15, 0.2)),
        *(_COOL | _GLOBAL | {"step_size": size, "temperature": 0.001, "sigma0": 1.0} for size in (0.1, 0.15)),
        *(_COOL | _GLOBAL | {"step_size": 0.15, "temperature": 0.001, "final": final} for final in (0.03, 0.3)),
    ),
    ("ours", 0.0): [
        *(_OURS | {"sigma0": 0.1} | change for change in ({}, {"tau": 10.0}, {"step_size": 1e-3})),
        _SLOW,
        _SLOW | {"step_size": 8e-3},
        _SLOW | {"step_size": 8e-3, "batch_size": 100},
        *(_SLOW | {"sigma0": sigma0} for sigma0 in (0.15, 1.0)),
        _WARM,
        _WARM | {"final": 0.2},
        _WARM | {"step_size": 8e-3, "batch_size": 100, "final": 0.3},
        _SLOW | {"step_size": 4e-3},
        _SLOW | {"noise_from": 0.6, "sampled_from": 0.7},
        _SLOW | {"tau": 1000.0},
        _SLOW | {"step_size": 6e-3, "final": 0.02},
        _HOT,
        _HOT | {"final": 0.1},
        _HOT | {"eta": 100.0},
        _HOT | {"batch_size": 50, "step_size": 5e-3, "final": 0.2},
        _HOT | {"eta": 100.0, "batch_size": 50, "final": 0.2},
        _HOT | {"eta": 100.0, "step_size": 12e-3},
        _HOT | {"eta": 300.0, "step_size": 16e-3},
        _HOT | {"eta": 100.0, "final": 0.5},
        _HOT | {"eta": 100.0, "tau": 10.0},
        _HOT | {"eta": 30.0, "batch_size": 50, "step_size": 6e-3},
        _DENSE,
        _DENSE | {"batch_size": 50, "step_size": 5e-3},
        _DENSE | {"final": 0.1},
        _DENSE | {"tau": 10.0},
        _DENSE | {"v1": 30.0},
    ],
    ("ours", 0.9): _vary(
        _OURS | {"step_size": 3e-3, "tau": 10.0, "v0": 0.1, "v1": 10.0, "pruned_by": 0.5},
        _COLD | {"v1": 100.0},
        _COLD | _GLOBAL | {"v1": 100.0},
        _COLD | _GLOBAL | {"v1": 100.0, "step_size": 8e-3},
        _LARGE,
        _LARGE | {"final": 0.2},
        _FLAT,
        _LARGE | {"v1": 10.0},
        _LARGE | {"step_size": 12e-3},
        _LARGE | {"tau": 1000.0},
        _FLAT | {"v1": 1000.0},
        _FLAT | {"v1": 1000.0, "v0": 1.0},
        _FLAT | {"v1": 1000.0, "step_size": 5e-3},
        _FLAT | {"v0": 0.03},
        _THIN,
        _FLAT | {"v0": 0.03, "batch_size": 50, "step_size": 5e-3},
        _FLAT | {"v0": 0.003},
        _FLAT | {"v0": 0.001},
        _FLAT | {"v0": 0.003, "final": 0.2, "sampled_from": 0.65},
        _FLAT | {"v0": 0.003, "step_size": 6e-3},
        _THIN | {"pruned_by": 0.6, "sampled_from": 0.65, "noise_from": 0.65},
        _THIN | {"pruned_by": 0.7, "sampled_from": 0.75, "noise_from": 0.75},
        *(_THIN | {"batch_size": 50, "step_size": size} for size in (5e-3, 8e-3)),
        *(_THIN | {"v1": v1} for v1 in (30.0, 300.0)),
        _THIN | {"v0": 0.02},
        _THIN | {"final": 0.1},
        _THIN | {"tau": 10.0},
        _THIN | {"momentum": 0.95},
    ),
}
"""What the search tries, by contender and share of zeros."""
