"""Settings of the training of a surrogate, and the defaults of each method.

The defaults were chosen on validation data; ``sparse-langevin reproduce search`` compares them with their neighbours.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from sparse_langevin.sampling.methods import Method, method_named

ADAM = Method("adam", preconditioned=True, selects=False)  # the baseline, whose steps are distances, too
# Names of networks in records of earlier versions.
RENAMED = {
    "sparse_langevin.darcy.network:EncoderDecoder": "",
    "sparse_langevin.darcy.network:DarcyEncoderDecoder": "darcy-encoder-decoder",
    "sparse_langevin.darcy:EncoderDecoder": "",
    "sparse_langevin.darcy:DarcyEncoderDecoder": "darcy-encoder-decoder",
}
MOVED = ("sparse_langevin.experiments", "sparse_langevin.studies")


def _number(value: Any) -> Any:
    """A number, also of a NumPy type; text and truth values are refused."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, got {value!r}")
    return float(value)


def _whole(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1:
        raise ValueError(f"must be a whole number, got {value!r}")
    return int(value)


def _checked(holds: Callable[[float], bool], words: str, hint: str = "") -> AfterValidator:
    """A condition on a setting, and the words that follow its name in the error if it does not hold."""

    def check(value: float) -> float:
        if not holds(value):
            raise ValueError(f"{words}, got {value!r}{hint}")
        return value

    return AfterValidator(check)


Number = Annotated[float, BeforeValidator(_number)]
Whole = Annotated[int, BeforeValidator(_whole)]
Share = Annotated[Number, _checked(lambda v: 0 <= v < 1, "is a share in [0, 1)", " (70 % is 0.7)")]
Part = Annotated[Number, _checked(lambda v: 0 < v <= 1, "is a share in (0, 1]")]
Positive = Annotated[Number, _checked(lambda v: 0 < v < math.inf, "must be positive and finite")]
Count = Annotated[Whole, _checked(lambda v: v >= 1, "must be at least 1")]
Seed = Annotated[Whole, _checked(lambda v: 0 <= v < 2**63, "must be a number from 0 to 2^63 - 1")]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Settings:
    """Settings of one training run, from which the options of ``sparse-langevin train`` are made.

    `Settings.of` gives the defaults of a method.
    """

    method: str = Field("psgld-sa", description="sgld, psgld, sgld-sa or psgld-sa; or adam, the baseline.")
    sparsity: Share = Field(0.0, description="Share of zeros in the sparse layers, in [0, 1); 0 prunes nothing.")
    seed: Seed = Field(0, description="Seed of the initial weights, the order of the data and the noise.")
    chain: Seed = Field(0, description="Number of the chain; chains of one seed are independent.")
    epochs: Count = Field(60, description="Number of passes over the training data.")
    batch_size: Count = Field(16, description="Number of training examples in a step.")
    step_size: Positive = Field(
        1e-3,
        description="Initial step size. It falls along half a cosine to final_step times itself at the end of burn_in, "
        "and stays there while samples are taken. With a preconditioner, and with Adam, it is about the distance that "
        "a weight moves in a step; without one it multiplies the gradient of the mean over examples and outputs.",
    )
    final_step: Part = Field(0.02, description="Step size at the end of the cosine, as a share of the initial one.")
    warmup: Share = Field(0.1, description="Part of the run in which the step size grows to its full value.")
    momentum: Share = Field(
        0.0,
        description="Momentum of a sampler, in [0, 1): weights move by a running average of steps with this memory. 0 "
        "is the paper's algorithm. Adam has its own momentum.",
    )
    tau: Positive = Field(1.0, description="Inverse temperature; 1 is the posterior.")
    noise_from: Share = Field(
        0.0,
        description="Part of the run, or of every cycle, after which the noise of the Langevin steps sets in; 0 is the "
        "paper's algorithm. While steps are large, noise carries weights far away.",
    )
    v0: Positive = Field(0.25, description="Scale of the spike, for the methods with a spike and slab.")
    v1: Positive = Field(10.0, description="Variance of the slab, for the methods with a spike and slab.")
    sigma0: Positive = Field(1.0, description="Standard deviation of the Gaussian prior of all other weights.")
    prune_end: Part = Field(0.5, description="Part of the run, or of its first cycle, after which the zeros are fixed.")
    samples: Seed = Field(
        20,
        description="Number of posterior samples to keep, spread evenly over the part of the run, or of its cycles, "
        "after burn_in.",
    )
    burn_in: Share = Field(0.85, description="Part of the run, or of every cycle, before the first posterior sample.")
    cycles: Count = Field(
        1,
        description="Number of times that the step size starts from its full value, which lets a chain visit several "
        "modes. With more than one it falls until the end of each cycle instead of the end of the burn-in.",
    )
    validation: Share = Field(
        0.0, description="Share of the training data to set apart and watch instead of the test data."
    )
    network: str = Field(
        "", description="One of the problem's networks, or module:Class of your own; empty for the problem's default."
    )
    network_options: dict[str, Any] = Field(
        default_factory=dict, description="Keyword arguments of the network's class."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "network", RENAMED.get(self.network, self.network.replace(*MOVED)))
        self.algorithm  # raises if there is no such method  # noqa: B018
        try:
            options = json.loads(json.dumps(self.network_options))  # as they are read from a file, without tuples
        except TypeError as error:
            raise ValueError(f"network_options must be values that JSON can hold: {error}") from error
        object.__setattr__(self, "network_options", options)
        if self.samples and self.noise_from > self.burn_in:
            raise ValueError(
                f"noise_from is {self.noise_from!r}, but samples are taken from burn_in = {self.burn_in!r} on: without "
                "noise they would not be samples; choose a smaller noise_from"
            )
        if self.bayesian and self.cycles == 1 and self.warmup > self.burn_in:
            raise ValueError(
                f"warmup is {self.warmup!r}, but steps fall until burn_in = {self.burn_in!r}: choose a shorter warmup"
            )

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_json(), sort_keys=True))

    @classmethod
    def of(cls, method: str, **changes: Any) -> "Settings":
        """The defaults of a method, with changes; a change to None keeps the default."""
        given = {name: value for name, value in changes.items() if value is not None}
        made = cls(method, **(PLAIN if given.get("momentum") == 0 else DEFAULTS).get(method, {}))
        if "burn_in" in given:
            made = replace(made, **{n: min(getattr(made, n), given["burn_in"]) for n in ("noise_from", "warmup")})
        return replace(made, **given)

    @property
    def algorithm(self) -> Method:
        """Properties of the method."""
        return method_named(self.method, also=(ADAM,))

    @property
    def bayesian(self) -> bool:
        """Whether the method samples from a posterior."""
        return self.algorithm != ADAM

    @property
    def chain_seed(self) -> int:
        """Seed of the chain's initial weights and of the order of its data; that of chain 0 is ``seed`` itself."""
        if not self.chain:
            return self.seed
        return int(np.random.SeedSequence([self.seed, self.chain]).generate_state(1)[0])

    def held(self, rows: int) -> int:
        """Number of training samples, of so many, that are set apart for validation: the first ones."""
        return round(self.validation * rows)

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON."""
        return asdict(self) | {"network_options": dict(self.network_options)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """The settings that `as_json` described."""
        unknown = values.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown setting {sorted(unknown)[0]!r}, perhaps of another version of sparse-langevin")
        return cls(**values)

    def differences(self, other: "Settings") -> list[str]:
        """Names of the settings in which two runs differ."""
        mine, theirs = self.as_json(), other.as_json()
        return [name for name in mine if mine[name] != theirs[name]]


# Chosen on validation data, see `studies.darcy_search`; SGLD's step of 1.0 was given up after a run of the table.
DEFAULTS: dict[str, dict[str, Any]] = {
    "adam": {"step_size": 1e-3, "final_step": 1e-3, "warmup": 0.0},
    "sgld": {"momentum": 0.9, "step_size": 0.5},
    "sgld-sa": {"momentum": 0.9, "step_size": 1.0},
    "psgld": {"momentum": 0.9, "step_size": 2e-3, "final_step": 0.1, "noise_from": 0.5},
    "psgld-sa": {"momentum": 0.9, "step_size": 2e-3, "final_step": 0.1, "noise_from": 0.5},
}
# Without momentum, as in the paper.
PLAIN: dict[str, dict[str, Any]] = {
    "adam": DEFAULTS["adam"],
    "sgld": {"step_size": 1.0},
    "sgld-sa": {"step_size": 1.0},
}


def _one_line(build: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of pydantic into one line: the setting, what is wrong with it, and the value seen."""

    def init(self: Settings, *args: Any, **settings: Any) -> None:
        try:
            build(self, *args, **settings)
        except ValidationError as error:
            first = error.errors()[0]
            message = first["msg"].removeprefix("Value error, ")
            if first["type"] == "unexpected_keyword_argument":
                message = "is not a setting of this version"
            name = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{name} {message}".strip()) from None

    return init


Settings.__init__ = _one_line(Settings.__init__)  # type: ignore[method-assign]
