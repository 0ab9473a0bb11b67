"""What determines the training of a surrogate, and the defaults of each method.

The defaults were chosen on validation data; ``sparse-langevin reproduce search`` compares them with their neighbours.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from sparse_langevin.sampling.methods import Method, method_named

ADAM = Method("adam", preconditioned=True, selects=False)  # the baseline: its steps are distances, too
# Names of networks in records of earlier versions.
RENAMED = {
    "sparse_langevin.darcy.network:EncoderDecoder": "",
    "sparse_langevin.darcy.network:DarcyEncoderDecoder": "darcy-encoder-decoder",
    "sparse_langevin.darcy:EncoderDecoder": "",
    "sparse_langevin.darcy:DarcyEncoderDecoder": "darcy-encoder-decoder",
}
MOVED = ("sparse_langevin.experiments", "sparse_langevin.studies")


@dataclass(frozen=True)
class Settings:
    """One training run, up to its data.

    Parameters
    ----------
    method
        ``"sgld"``, ``"psgld"``, ``"sgld-sa"``, ``"psgld-sa"``, or ``"adam"``, the baseline.
    sparsity
        Share of zeros in the sparse layers of the finished network, in [0, 1); 0 prunes nothing.
    seed
        Seed of the initial weights, the order of the data and the noise.
    chain
        Number of the chain; chains of one seed are independent.
    epochs
        Passes over the training data.
    batch_size
        Examples in a step.
    step_size
        The first one. It follows half a cosine down to ``final_step`` times itself at the end of ``burn_in``, and stays
        there while samples are taken. With a preconditioner, and with Adam, it is about the distance that a weight
        moves in a step; without one it acts on the gradient of the *mean* over examples and outputs.
    final_step
        Where the cosine ends, as a share of ``step_size``.
    warmup
        Part of the run in which the step grows to its full size.
    momentum
        Memory of the running average of steps by which the weights of a sampler move, in [0, 1); 0 is the paper's
        algorithm. Adam has its own.
    tau
        Inverse temperature; 1 is the posterior.
    noise_from
        Part of the run, or of every cycle, after which the noise of the Langevin steps sets in, in [0, 1); 0 is the
        paper's algorithm. At large steps it carries weights far off; at most ``burn_in``, where samples begin.
    v0
        Scale of the spike, for the two methods with a spike and slab.
    v1
        Variance of the slab, for the same two.
    sigma0
        Standard deviation of the Gaussian prior of all other weights.
    prune_end
        Part of the run, or of its first cycle, after which the zeros are fixed.
    samples
        Posterior samples kept on disk, evenly over the part of the run, or of its cycles, after ``burn_in``; 0 keeps
        none.
    burn_in
        Part of the run, or of every cycle, before the first sample.
    cycles
        How often the step size starts anew, which lets a chain visit several modes. With more than one it falls until
        the end of each cycle instead of the end of the burn-in.
    validation
        Share of the training data that is set apart, to choose settings with.
    network
        One of the problem's networks by name, or ``module:Class`` of your own; the problem's default if empty.
    network_options
        Keyword arguments of the network's class.
    """

    method: str = "psgld-sa"
    sparsity: float = 0.0
    seed: int = 0
    chain: int = 0
    epochs: int = 60
    batch_size: int = 16
    step_size: float = 1e-3
    final_step: float = 0.02
    warmup: float = 0.1
    momentum: float = 0.0
    tau: float = 1.0
    noise_from: float = 0.0
    v0: float = 0.25
    v1: float = 10.0
    sigma0: float = 1.0
    prune_end: float = 0.5
    samples: int = 20
    burn_in: float = 0.85
    cycles: int = 1
    validation: float = 0.0
    network: str = ""
    network_options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", RENAMED.get(self.network, self.network.replace(*MOVED)))
        self.algorithm  # raises if there is no such method  # noqa: B018
        try:
            options = json.loads(json.dumps(dict(self.network_options)))  # as a file has them: no tuples
        except TypeError as error:
            raise ValueError(f"network_options must be something that JSON can hold: {error}") from error
        object.__setattr__(self, "network_options", options)
        for one in fields(self):
            value, whole = getattr(self, one.name), one.type is int
            if one.type not in (int, float):
                continue
            if not isinstance(value, int | float | np.integer | np.floating) or (whole and value % 1):
                raise ValueError(f"{one.name} must be a {'whole ' * whole}number, got {value!r}")
            object.__setattr__(self, one.name, int(value) if whole else float(value))  # NumPy's are not for JSON
        for name in ("sparsity", "validation", "burn_in", "warmup", "momentum", "noise_from"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is a share in [0, 1), got {getattr(self, name)!r} (70 % is 0.7)")
        for name in ("epochs", "batch_size", "cycles"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        for name in ("step_size", "tau", "v0", "v1", "sigma0"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)!r}")
        for name in ("final_step", "prune_end"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share in (0, 1], got {getattr(self, name)!r}")
        for name in ("samples", "seed", "chain"):
            if not 0 <= getattr(self, name) < 2**63:
                raise ValueError(f"{name} must be a number from 0 to 2^63 - 1, got {getattr(self, name)!r}")
        if self.samples and self.noise_from > self.burn_in:
            raise ValueError(
                f"noise_from is {self.noise_from!r}, but samples are taken from burn_in = {self.burn_in!r} on: without "
                "noise they would not be samples; let the noise set in no later"
            )

        if self.bayesian and self.cycles == 1 and self.warmup > self.burn_in:
            raise ValueError(
                f"warmup is {self.warmup!r}, but steps fall until burn_in = {self.burn_in!r}: let them grow no longer"
            )

    @classmethod
    def of(cls, method: str, **changes: Any) -> "Settings":
        """The defaults of a method, with changes; None stands for the default."""
        given = {name: value for name, value in changes.items() if value is not None}
        made = cls(method, **(PLAIN if given.get("momentum") == 0 else DEFAULTS).get(method, {}))
        if "burn_in" in given:
            made = replace(made, **{n: min(getattr(made, n), given["burn_in"]) for n in ("noise_from", "warmup")})
        return replace(made, **given)

    @property
    def algorithm(self) -> Method:
        """What the method is."""
        return method_named(self.method, also=(ADAM,))

    @property
    def bayesian(self) -> bool:
        """Whether the method samples from a posterior."""
        return self.algorithm != ADAM

    @property
    def chain_seed(self) -> int:
        """Seed of the chain's first weights and of the order of its data; chain 0 takes the seed as it is."""
        if not self.chain:
            return self.seed
        return int(np.random.SeedSequence([self.seed, self.chain]).generate_state(1)[0])

    def held(self, rows: int) -> int:
        """How many of so many training samples, the first ones, are set apart."""
        return round(self.validation * rows)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return asdict(self) | {"network_options": dict(self.network_options)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """Settings from `as_json`."""
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown setting {sorted(unknown)[0]!r}: made by another version?")
        return cls(**values)

    def differences(self, other: "Settings") -> list[str]:
        """Names of the settings in which two runs differ."""
        mine, theirs = self.as_json(), other.as_json()
        return [name for name in mine if mine[name] != theirs[name]]


# Chosen on validation data, see `experiments.darcy_search`; SGLD's step of 1.0 was given up after a run of the table.
DEFAULTS: dict[str, dict[str, Any]] = {
    "adam": {"step_size": 1e-3, "final_step": 1e-3, "warmup": 0.0},
    "sgld": {"momentum": 0.9, "step_size": 0.5},
    "sgld-sa": {"momentum": 0.9, "step_size": 1.0},
    "psgld": {"momentum": 0.9, "step_size": 2e-3, "final_step": 0.1, "noise_from": 0.5},
    "psgld-sa": {"momentum": 0.9, "step_size": 2e-3, "final_step": 0.1, "noise_from": 0.5},
}
# Without momentum: as in the paper.
PLAIN: dict[str, dict[str, Any]] = {
    "adam": DEFAULTS["adam"],
    "sgld": {"step_size": 1.0},
    "sgld-sa": {"step_size": 1.0},
}
