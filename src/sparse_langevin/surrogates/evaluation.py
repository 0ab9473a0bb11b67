"""How good predictions are: errors of each example, their quantiles, and rivals that need no network.

The rivals depend on the data set alone: they are computed once and kept in its folder, until their code changes.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.storage.lines import read_lines, write_line
from sparse_langevin.surrogates.problem import Array, Baseline, DataSet, Errors, Measure, Split

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BASELINES = "baselines-{}.jsonl"


@dataclass(frozen=True)
class Evaluation:
    """Errors of a surrogate over one part of a data set, one number per example and measure."""

    split: Split
    measures: tuple[Measure, ...]
    errors: Errors
    baselines: list[Baseline]
    """Rivals that know only the training part of the same data set."""

    def __len__(self) -> int:
        return len(self.errors[self.measures[0].name])

    def mean(self, measure: str) -> float:
        """Mean error over the examples."""
        return float(np.mean(self.errors[measure]))

    def shown(self, measure: Measure) -> float:
        """Mean error over the examples, in the unit that tables show."""
        return measure.factor * self.mean(measure.name)

    def quantiles(self, measure: str) -> dict[float, float]:
        """The quantiles `QUANTILES` over the examples."""
        return dict(zip(QUANTILES, np.quantile(self.errors[measure], QUANTILES).tolist(), strict=True))


def evaluate(predict: Callable[[Array], Array], data: DataSet, split: Split = "test") -> Evaluation:
    """Compare predictions with true outputs, in physical units and double precision.

    Parameters
    ----------
    predict
        Function from inputs to outputs, such as ``lambda x: surrogate.predict(x).numpy()``.
    data
        Data set to predict.
    split
        Which part of it to predict.
    """
    inputs, outputs = data.inputs(split), data.outputs(split)
    if not len(inputs):
        raise ValueError(f"{data.folder} has no samples in its {split} part: make it with another test share")
    predicted = np.asarray(predict(inputs), dtype=float)
    errors = data.problem.errors(predicted, outputs, inputs)
    return Evaluation(split, data.problem.measures, errors, baselines(data, split))


def baselines(data: DataSet, split: Split = "test") -> list[Baseline]:
    """Rivals with their errors on a part of a data set; read from its folder if they are kept there."""
    path = data.folder / BASELINES.format(split)
    key = {"data": data.fingerprint, "version": data.problem.baselines_version}
    with contextlib.suppress(OSError, DamagedError, KeyError, TypeError, ValueError):  # it can be computed again
        (kept,) = read_lines(path)  # one line, because of several the last could be cut off without notice
        if all(kept[name] == value for name, value in key.items()):
            return [Baseline(**one) for one in kept["baselines"]]
    found = data.problem.baselines(data, split)
    with contextlib.suppress(OSError):  # the folder may be somebody else's
        write_atomically(path, write_line(key | {"baselines": [one._asdict() for one in found]}))
    return found
