"""Fits whose warnings are collected, in the words of the command, so that they can be told once and in the report."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

from sparse_langevin.linear.base import LONGER
from sparse_langevin.linear.tables.cells import Values

ADVICE = "Longer chains may settle (--max-steps), and another --seed shows how much the results depend on chance."


def fitted_quietly(model: Any, x: Values, y: Any, lines: Sequence[int] = ()) -> tuple[Any, list[str]]:
    """Return the fitted model, and what it warned about; ``lines`` are those of the rows in the file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y)
    return model, [in_words_of_the_command(str(warning.message), lines) for warning in caught]


def in_words_of_the_command(text: str, lines: Sequence[int]) -> str:
    """Name lines of the file and options of the command instead of rows and parameters of an estimator."""
    if lines:
        text = re.sub(r"^observation (\d+)", lambda found: f"the target in line {lines[int(found[1])]}", text)
    return text.replace(LONGER, ADVICE).replace("choose noise='student'", "take --family student")
