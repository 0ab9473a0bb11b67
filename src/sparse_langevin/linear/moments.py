r"""Sufficient statistics of a Gaussian linear model, collected in pieces.

Means and centred second moments are updated by the formulas of Chan, Golub and LeVeque (1983). From them come rows Z, t
with Z'Z = X'X and Z't = X'y for standardised X and y: at most p of them, however many observations there were.
"""

from dataclasses import dataclass

import numpy as np

from sparse_langevin.linear.gaussian import Array, Data

BLOCK = 1 << 16  # rows of data that are centred at a time


@dataclass
class Moments:
    """Of predictors and response together, the response last."""

    size: int
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, x: Array, y: Array) -> "Moments":
        """Moments of some rows."""
        total = cls(0, np.zeros(x.shape[1] + 1), np.zeros((x.shape[1] + 1,) * 2))
        for start in range(0, len(x), BLOCK):
            rows = np.column_stack([x[start : start + BLOCK], y[start : start + BLOCK]])
            mean = rows.mean(0)
            rows -= mean
            total.add(cls(len(rows), mean, rows.T @ rows))
        return total

    def add(self, other: "Moments") -> None:
        """Take in more rows."""
        size = self.size + other.size
        change = other.mean - self.mean
        self.scatter = self.scatter + other.scatter + np.outer(change, change) * (self.size * other.size / size)
        self.mean = self.mean + change * (other.size / size)
        self.size = size


@dataclass(frozen=True)
class Scale:
    """Location and scale of predictors and response; ``used`` marks the predictors that vary."""

    size: int
    x_mean: Array
    x_std: Array
    y_mean: float
    y_std: float

    @property
    def used(self) -> np.ndarray:
        """Predictors that are not constant, up to rounding."""
        return self.x_std > 1e-10 * np.maximum(np.abs(self.x_mean), 1e-290)


def standardise(x: Array, y: Array) -> tuple[Data | None, Scale]:
    """Standardised data, as rows or through their moments, whichever is smaller; None if nothing varies."""
    if len(x) > x.shape[1]:
        return from_moments(Moments.of(x, y))
    scale = Scale(len(y), x.mean(0), x.std(0), float(y.mean()), float(y.std()))
    if not scale.used.any() or not _varies(scale):
        return None, scale
    z = np.asfortranarray((x[:, scale.used] - scale.x_mean[scale.used]) / scale.x_std[scale.used])
    target = (y - scale.y_mean) / scale.y_std
    return Data(z, target, np.einsum("ij,ij->j", z, z), 0.0, float(len(y))), scale


def from_moments(moments: Moments) -> tuple[Data | None, Scale]:
    """Rows with the same X'X and X'y as the standardised data; None if nothing varies."""
    deviation = np.sqrt(np.diag(moments.scatter) / moments.size)
    scale = Scale(moments.size, moments.mean[:-1], deviation[:-1], float(moments.mean[-1]), float(deviation[-1]))
    if not scale.used.any() or not _varies(scale):
        return None, scale
    kept = np.append(scale.used, True)
    correlation = moments.scatter[np.ix_(kept, kept)] / np.outer(deviation[kept], deviation[kept])
    gram, target = correlation[:-1, :-1], correlation[:-1, -1]
    values, vectors = np.linalg.eigh(gram)
    good = values > values[-1] * len(values) * np.finfo(float).eps
    root = np.sqrt(values[good])
    z = np.asfortranarray(root[:, None] * vectors[:, good].T)
    rows = vectors[:, good].T @ target / root
    rest = max(float(correlation[-1, -1] - rows @ rows), 0.0)
    return Data(z, rows, np.ascontiguousarray(np.diag(gram)), rest, float(moments.size)), scale


def _varies(scale: Scale) -> bool:
    """Whether the response is not constant, up to rounding."""
    return scale.y_std > 1e-12 * max(abs(scale.y_mean), 1e-290)
