r"""What a Gaussian linear model needs to know about its observations, which may arrive in parts.

While there are no more observations than predictors, `Rows` keeps them as they are. Beyond that, `Moments` keeps means
and centred second moments, which are updated by the formulas of Chan, Golub and LeVeque (1983). They determine rows
Z, t with Z'Z = X'X and Z't = X'y for standardised X and y: at most p of them, however many observations there were.
Either way, at most (p + 1) x (p + 1) numbers are kept for p predictors.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from sparse_langevin.linear.design import Design
from sparse_langevin.linear.gaussian import Array, Data

BLOCK = 1 << 16  # number of rows that are centred at a time


class Observations(Protocol):
    """The observations so far; they are immutable, so that a fit that fails neither loses nor adds any."""

    def plus(self, x: Any, y: Array) -> "Observations":
        """Return these observations together with more."""

    def standardised(self) -> tuple[Data | None, "Scale"]:
        """Return standardised data, or rows with the same X'X and X'y; None if nothing varies."""

    def design(self) -> tuple[Design, Array, float, "Scale"]:
        """Return the same without a copy: predictors, response, residual sum of squares that is left, scale."""


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

    @property
    def varies(self) -> bool:
        """Whether the response and at least one predictor are not constant, up to rounding."""
        return bool(self.used.any()) and self.y_std > 1e-12 * max(abs(self.y_mean), 1e-290)


def observed(x: Any, y: Array) -> Observations:
    """Keep observations as they are, or through their moments, whichever is smaller; sparse ones stay sparse."""
    if sparse.issparse(x):
        return Rows(x.tocsc(copy=True), y.copy())
    return Rows(x.copy(order="K"), y.copy()) if len(x) <= x.shape[1] else Moments.of(x, y)


@dataclass(frozen=True)
class Rows:
    """The observations themselves."""

    x: Any
    """An array, or a sparse matrix by columns."""
    y: Array

    def plus(self, x: Any, y: Array) -> Observations:
        """Return these observations together with more."""
        both = sparse.vstack([self.x, x]) if sparse.issparse(x) else np.vstack([self.x, x])
        return observed(both, np.concatenate([self.y, y]))

    def design(self) -> tuple[Design, Array, float, Scale]:
        """Return the predictors as they are, the standardised response, nothing that is left, and the scale."""
        mean, std = _mean_and_std(self.x)
        scale = Scale(len(self.y), mean, std, float(self.y.mean()), float(self.y.std()))
        used = scale.used
        design = Design(self.x, mean[used], std[used], None if used.all() else np.flatnonzero(used))
        return design, (self.y - scale.y_mean) / (scale.y_std or 1.0), 0.0, scale

    def standardised(self) -> tuple[Data | None, Scale]:
        """Return the standardised rows; None if nothing varies."""
        x, y = self.x, self.y
        scale = Scale(len(y), x.mean(0), x.std(0), float(y.mean()), float(y.std()))
        if not scale.varies:
            return None, scale
        z = np.asfortranarray((x[:, scale.used] - scale.x_mean[scale.used]) / scale.x_std[scale.used])
        target = (y - scale.y_mean) / scale.y_std
        return Data(z, target, np.einsum("ij,ij->j", z, z), 0.0, float(len(y))), scale


@dataclass(frozen=True)
class Moments:
    """Mean and centred second moments of predictors and response together; the response is the last column."""

    size: int
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, x: Array, y: Array) -> "Moments":
        """Return the moments of some rows."""
        total = cls(0, np.zeros(x.shape[1] + 1), np.zeros((x.shape[1] + 1,) * 2))
        for start in range(0, len(x), BLOCK):
            rows = np.column_stack([x[start : start + BLOCK], y[start : start + BLOCK]])
            mean = rows.mean(0)
            rows -= mean
            total = total._joined(cls(len(rows), mean, rows.T @ rows))
        return total

    def plus(self, x: Array, y: Array) -> "Moments":
        """Return the moments of these observations together with more."""
        return self._joined(Moments.of(x, y))

    def standardised(self) -> tuple[Data | None, Scale]:
        """Return rows with the same X'X and X'y as the standardised data; None if nothing varies."""
        deviation = np.sqrt(np.diag(self.scatter) / self.size)
        scale = Scale(self.size, self.mean[:-1], deviation[:-1], float(self.mean[-1]), float(deviation[-1]))
        if not scale.varies:
            return None, scale
        kept = np.append(scale.used, True)
        correlation = self.scatter[np.ix_(kept, kept)] / np.outer(deviation[kept], deviation[kept])
        gram, target = correlation[:-1, :-1], correlation[:-1, -1]
        values, vectors = np.linalg.eigh(gram)
        good = values > values[-1] * len(values) * np.finfo(float).eps
        root = np.sqrt(values[good])
        z = np.asfortranarray(root[:, None] * vectors[:, good].T)
        rows = vectors[:, good].T @ target / root
        rest = max(float(correlation[-1, -1] - rows @ rows), 0.0)
        return Data(z, rows, np.ascontiguousarray(np.diag(gram)), rest, float(self.size)), scale

    def design(self) -> tuple[Design, Array, float, Scale]:
        """Return rows with the same X'X and X'y, their response, the residual sum of squares left, and the scale."""
        data, scale = self.standardised()
        if data is None:
            return Design(np.zeros((0, 0)), np.zeros(0), np.zeros(0), None), np.zeros(0), 0.0, scale
        p = data.x.shape[1]
        return Design(data.x, np.zeros(p), np.ones(p), None), data.y, data.rest, scale

    def _joined(self, other: "Moments") -> "Moments":
        size = self.size + other.size
        change = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(change, change) * (self.size * other.size / size)
        return Moments(size, self.mean + change * (other.size / size), scatter)


def _mean_and_std(x: Any) -> tuple[Array, Array]:
    """Return means and standard deviations of columns in double precision, some columns at a time."""
    if sparse.issparse(x):
        mean, variance = mean_variance_axis(x, axis=0)
        return mean.astype(float), np.sqrt(variance.astype(float))
    mean, std = np.empty(x.shape[1]), np.empty(x.shape[1])
    width = max(1, (1 << 22) // len(x))
    for start in range(0, x.shape[1], width):
        block = x[:, start : start + width].astype(float)
        mean[start : start + width], std[start : start + width] = block.mean(0), block.std(0)
    return mean, std
