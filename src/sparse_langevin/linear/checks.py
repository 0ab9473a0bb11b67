"""What values the parameters of the estimators may have, and what weights and levels."""

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight

from sparse_langevin.linear.choices import CHOICES
from sparse_langevin.linear.gaussian import Array


def check_level(level: float) -> None:
    """Raise an error unless ``level`` is a probability strictly between 0 and 1."""
    if not (_is_number(level) and 0 < level < 1):
        raise ValueError(f"level must be between 0 and 1, for example 0.95, got {level!r}")


def checked_weights(sample_weight: Any, x: Any) -> Array:
    """Return weights in double precision; raise an error if there is a bad one, or nothing but zeros."""
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if not (np.isfinite(weight).all() and weight.min() >= 0 and weight.max() > 0):
        raise ValueError(
            f"sample_weight must be finite and at least 0, and not all zero: got {weight.min():g} to {weight.max():g}"
        )
    found: Array = weight
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_number_of_jobs(value: Any) -> bool:
    return value is None or (isinstance(value, Integral) and not isinstance(value, bool) and int(value) != 0)


def _is_true_or_false(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


POSITIVE = "a positive, finite number"
COUNT = "a whole number of at least 1"
# For each parameter, a check of its value and the description of what is allowed.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "expected_effects": (_is_positive, POSITIVE),
    "expected_r2": (lambda value: _is_number(value) and 0 < value < 1, "between 0 and 1, both excluded"),
    "v0": (lambda value: value is None or _is_positive(value), f"{POSITIVE}, or None"),
    "v1": (lambda value: value is None or _is_positive(value), f"{POSITIVE}, or None"),
    "threshold": (
        lambda value: value is None or (_is_number(value) and 0 <= value < 1),
        "at least 0 and below 1, or None",
    ),
    "selection": (lambda value: value in CHOICES, f"one of {', '.join(CHOICES)}"),
    "pfer": (_is_positive, POSITIVE),
    "fdr": (lambda value: _is_number(value) and 0 < value < 1, "between 0 and 1, both excluded"),
    "fit_intercept": (_is_true_or_false, "True or False"),
    "warm_start": (_is_true_or_false, "True or False"),
    "positive": (_is_true_or_false, "True or False"),
    "verbose": (lambda value: isinstance(value, (Integral, np.bool_)) and int(value) >= 0, "True, False or a number"),
    "noise": (lambda value: value in ("normal", "student"), "'normal' or 'student'"),
    "n_chains": (_is_count, COUNT),
    "burn_in": (lambda value: value is None or _is_count(value), f"{COUNT}, or None"),
    "max_steps": (lambda value: value is None or _is_count(value), f"{COUNT}, or None"),
    "target_rhat": (_is_positive, POSITIVE),
    "target_ess": (_is_positive, POSITIVE),
    "batch_size": (lambda value: value is None or _is_count(value), f"{COUNT}, or None for all observations"),
    "n_jobs": (_is_number_of_jobs, "None, -1 for all cores, or a number of jobs"),
}
