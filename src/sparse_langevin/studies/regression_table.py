"""The table of the regression study, with one row per test and contender."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sparse_langevin.studies.regression import Records
from sparse_langevin.studies.regression_contenders import LABELS, Record
from sparse_langevin.studies.regression_data import EFFECTS

Row = dict[str, Any]
Mean = tuple[float | None, float | None]

RIVALS = ("lasso-cv", "ard", "emvs")
MOST_FALSE = 1  # the number of false predictors that a good selection may have


def make_table(records: Records) -> list[Row]:
    """The rows of all tests and contenders that have records, in the order of the contenders."""
    tests = sorted({test for test, _ in records})
    return [_row(records, test, name) for test in tests for name in LABELS if of(records, test, name)]


def of(records: Records, test: int, name: str) -> dict[int, Record]:
    """The records of one contender, by replicate."""
    return {cell[1]: found[name] for cell, found in sorted(records.items()) if cell[0] == test and name in found}


def paired(first: dict[int, Record], second: dict[int, Record]) -> list[tuple[Record, Record]]:
    """Pairs of records of two contenders on the same data."""
    return [(record, second[replicate]) for replicate, record in first.items() if replicate in second]


def mean_and_error(values: Iterable[float]) -> Mean:
    """The mean and its standard error; each is None if there are too few values."""
    array = np.array(list(values))
    if not len(array):
        return None, None
    return float(array.mean()), float(array.std(ddof=1)) / math.sqrt(len(array)) if len(array) > 1 else None


def is_good(record: Record) -> bool:
    """Whether both true predictors were chosen, and at most one false one."""
    return bool(record["chosen_true"] == len(EFFECTS) and record["chosen_false"] <= MOST_FALSE)


def _row(records: Records, test: int, name: str) -> Row:
    found = of(records, test, name)
    some = next(iter(found.values()))
    row: Row = {"test": test, "contender": name, "replicates": len(found)}
    selects = some["chosen_true"] is not None
    row["good"] = sum(map(is_good, found.values())) if selects else None
    row["mean_false"] = mean_and_error(r["chosen_false"] for r in found.values())[0] if selects else None
    for i in range(len(EFFECTS)):
        covered = None if some["effects"] is None else sum(r["effects"][i]["covers"] for r in found.values())
        row[f"covered_beta_{i + 1}"] = covered
    _enter(row, "mse", mean_and_error(r["mse"] for r in found.values()))
    _enter(row, "mae", mean_and_error(r["mae"] for r in found.values()))
    oracle = paired(found, of(records, test, "oracle"))
    _enter(row, "mse_over_oracle", mean_and_error(a["mse"] / b["mse"] for a, b in oracle))
    for rival in RIVALS:
        pairs = paired(found, of(records, test, rival)) if rival != name else []
        _enter(row, f"mse_minus_{rival}", mean_and_error(a["mse"] - b["mse"] for a, b in pairs))
    row["mean_seconds"] = mean_and_error(r["seconds"] for r in found.values())[0]
    row["worst_rhat"] = _over(found, "rhat", np.max)
    row["median_ess"] = _over(found, "ess", np.median)
    return row


def _over(found: dict[int, Record], name: str, statistic: Callable[[list[float]], Any]) -> float | None:
    """A statistic over the replicates; None if a contender has no chains, or a chain that cannot be judged."""
    values = [record[name] for record in found.values()]
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    return float(statistic(values))


def _enter(row: Row, name: str, mean: Mean) -> None:
    row[name], row[f"{name}_se"] = mean
