"""The field: who takes part, with which share of the budget, and the settings that were tried for each.

Every contender has the same number of trials. Their settings were chosen by hand, the later ones with the results of
the earlier ones in view, and judged by the NLL on the validation images alone. The ensemble with five times the budget
has no trials, but the settings of its members, which have their own.
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

_GLOBAL = {"scope": "global"}

TRIALS: dict[tuple[str, float], list[dict[str, Any]]] = {
    ("adam", 0.0): _vary(
        _ADAM,
        {"step_size": 3e-3},
        {"step_size": 2e-3, "weight_decay": 0.1},
        {"step_size": 4e-3, "weight_decay": 0.1},
        {"step_size": 3e-3, "batch_size": 50, "weight_decay": 0.1},
    ),
    ("adam", 0.9): _vary(
        _ADAM | {"step_size": 3e-3, "pruned_by": 0.6},
        {"step_size": 5e-3},
        _GLOBAL | {"step_size": 3e-3},
        _GLOBAL | {"step_size": 5e-3},
        _GLOBAL | {"batch_size": 50},
    ),
    ("ensemble", 0.0): _vary(
        _ADAM | {"step_size": 3e-3},
        {"step_size": 5e-3},
        {"step_size": 2e-3, "batch_size": 50},
        {"batch_size": 50},
        {"step_size": 5e-3, "batch_size": 50},
    ),
    ("ensemble", 0.9): _vary(
        _ADAM | {"step_size": 3e-3, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"step_size": 5e-3},
        _GLOBAL | {"batch_size": 50},
        _GLOBAL | {"step_size": 5e-3, "pruned_by": 0.8},
    ),
    ("dropout", 0.0): _vary(
        _DROPOUT, {"rate": 0.1}, {"rate": 0.4}, {"step_size": 2e-3}, {"rate": 0.1, "batch_size": 50}
    ),
    ("dropout", 0.9): _vary(
        _DROPOUT | {"rate": 0.1, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"rate": 0.05},
        _GLOBAL | {"rate": 0.2},
        _GLOBAL | {"step_size": 5e-3},
    ),
    ("sghmc", 0.0): _vary(
        _SGHMC,
        {"step_size": 0.2},
        {"step_size": 0.2, "temperature": 0.1},
        {"step_size": 0.3, "temperature": 0.01},
        {"step_size": 0.3, "temperature": 0.01, "sigma0": 0.3, "noise_from": 0.7, "sampled_from": 0.8},
    ),
    ("sghmc", 0.9): _vary(
        _SGHMC | {"step_size": 0.2, "pruned_by": 0.6},
        _GLOBAL,
        _GLOBAL | {"step_size": 0.1, "temperature": 0.1, "sigma0": 0.3},
        _GLOBAL | {"step_size": 0.15, "temperature": 0.01, "sigma0": 0.3},
        _GLOBAL | {"temperature": 0.01, "sigma0": 0.3, "noise_from": 0.7, "sampled_from": 0.8},
    ),
    ("ours", 0.0): _vary(
        _OURS | {"sigma0": 0.1},
        {"tau": 10.0},
        {"step_size": 1e-3},
        _COLD | {"sigma0": 0.3},
        _COLD | {"sigma0": 0.3, "step_size": 8e-3},
    ),
    ("ours", 0.9): _vary(
        _OURS | {"step_size": 3e-3, "tau": 10.0, "v0": 0.1, "v1": 10.0, "pruned_by": 0.5},
        _COLD | {"v1": 100.0},
        _COLD | _GLOBAL | {"v1": 100.0},
        _COLD | _GLOBAL | {"v1": 100.0, "step_size": 8e-3},
        _COLD | _GLOBAL | {"v1": 100.0, "step_size": 8e-3, "final": 0.1, "sampled_from": 0.7, "batch_size": 100},
    ),
}
"""What the search tries, by contender and share of zeros."""
