"""Responses of several kinds for a linear predictor."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Seed = int | Sequence[int] | np.random.SeedSequence
Response = Literal["gaussian", "student", "classes", "counts"]

RESPONSES = ("gaussian", "student", "classes", "counts")
LARGEST = 30.0  # log of the largest mean of a count
FREEDOM = 4.0  # degrees of freedom of noise with outliers


def respond(
    linear: Array, response: Response, *, noise: float = 1.0, degrees: float = FREEDOM, seed: Seed = 0
) -> Array:
    r"""Draw a response for each value of a linear predictor.

    - ``"gaussian"``: linear + noise N(0, 1)
    - ``"student"``: linear + noise t, with Student's t of so many ``degrees`` of freedom: noise with outliers
    - ``"classes"``: 1 with the probability 1/(1 + exp(-linear)), else 0
    - ``"counts"``: Poisson with the mean exp(linear)
    """
    check(noise > 0, "noise must be positive", noise)
    check(degrees > 0, "degrees must be positive", degrees)
    return draw(np.asarray(linear, dtype=float), response, noise, np.random.default_rng(seed), degrees)


def draw(linear: Array, response: str, noise: float, rng: np.random.Generator, degrees: float = FREEDOM) -> Array:
    """Draw responses as `respond` does, with a generator."""
    check(response in RESPONSES, f"response must be one of {', '.join(RESPONSES)}", response)
    if response == "gaussian":
        return linear + noise * rng.standard_normal(linear.shape)
    if response == "student":
        return linear + noise * rng.standard_t(degrees, linear.shape)
    if response == "classes":
        return (rng.logistic(size=linear.shape) < linear).astype(float)
    highest = float(linear.max(initial=0.0))
    check(highest < LARGEST, f"counts need a linear predictor below {LARGEST:g}: choose smaller effects", highest)
    return rng.poisson(np.exp(linear)).astype(float)


def check(sound: bool, rule: str, value: object) -> None:
    """Refuse a value that breaks a rule, which is said together with the value."""
    if not sound:
        raise ValueError(f"{rule}, got {value!r}")
