r"""What a Gaussian linear model needs to know about its observations, which may arrive in parts.

While there are no more observations than predictors, `Rows` keeps them as they are. Beyond that, `Moments` keeps means
and second moments about them, which are updated by the formulas of Chan, Golub and LeVeque (1983). They determine rows
Z, t with Z'Z = X'X and Z't = X'y for standardised X and y: at most p of them, however many observations there were.
Either way, at most (p + 1) x (p + 1) numbers are kept for p predictors. A weight says how often an observation is
there; identical observations are one, with the sum of their weights.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear.columns import mean_and_std, orthogonal_rows
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.gaussian import Array, Data

BLOCK = 1 << 22  # numbers in rows that are centred at a time
FEW = 1000  # predictors up to which moments are kept of sparse ones
COMPARED = 20_000  # observations that are compared with each other


class Observations(Protocol):
    """The observations so far; they are immutable, so that a fit that fails neither loses nor adds any."""

    def plus(self, x: Any, y: Array, weight: Array | None = None) -> "Observations":
        """Return these observations together with more."""

    def standardised(self) -> tuple[Data | None, "Scale"]:
        """Return standardised data, or rows with the same X'X and X'y; None if nothing varies."""

    def design(self, centred: bool = True, like: Design | None = None) -> tuple[Design, Array, float, "Scale"]:
        """Return the same without a copy: predictors, response, residual sum of squares that is left, scale.

        ``like`` is the design of another response to the same predictors, if there is one.
        """

    def response(self, index: int, count: int) -> "Observations":
        """Return the observations of one response out of several."""


@dataclass(frozen=True)
class Scale:
    """Location and scale of predictors and response; ``used`` marks the predictors that vary."""

    size: float
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
        """Whether the response and at least one predictor are not constant, up to rounding; an error if it is unknown.

        Weights say how often rows count: all together make up one observation at least.
        """
        if not np.isfinite(self.x_std).all() or not np.isfinite(self.y_std):
            raise ValueError("the squares of predictors or responses are larger than any number: choose larger units")
        if self.size < 1:
            raise ValueError(
                f"sample_weight adds up to {self.size:g}, less than one observation: weights say how often each row "
                "counts, so multiply them by a number"
            )
        return bool(self.used.any()) and self.y_std > 1e-12 * max(abs(self.y_mean), 1e-290)


def observed(x: Any, y: Array, weight: Array | None = None, rows: bool = False) -> Observations:
    """Keep observations as they are, or through their moments, whichever is smaller.

    Those of many sparse predictors stay sparse. With ``rows`` they are kept as they are in any case.
    """
    x, y, weight = distinct(x, y, np.ones(len(y)) if weight is None else weight)
    if not rows and weight.sum() > x.shape[1] and (x.shape[1] <= FEW or not sparse.issparse(x)):
        return Moments.of(x, y, weight)
    return Rows(x, y, weight, rows)


def distinct(x: Any, y: Any, weight: Array) -> tuple[Any, Any, Array]:
    """Return copies in which identical observations are one, those of weight zero are left out, and order is fixed.

    What follows depends neither on the order of observations nor on how they are repeated. Of more than
    ``COMPARED`` observations the order is kept, and repetitions are not looked for.
    """
    some = np.flatnonzero(weight)
    by_row = x.tocsr() if sparse.issparse(x) else x
    if len(some) <= COMPARED:
        if sparse.issparse(by_row):
            by_row.sort_indices()
        places: dict[bytes, list[int]] = {}
        for i in map(int, some):
            places.setdefault(_bytes(by_row, i) + y[i].tobytes(), []).append(i)
        groups = [places[key] for key in sorted(places)]
        some = np.array([group[0] for group in groups])
        weight = np.array([weight[group].sum() for group in groups])
    else:
        weight = weight[some]
    found = by_row[some]
    return (found.tocsc() if sparse.issparse(x) else found), y[some], weight


def _bytes(x: Any, i: int) -> bytes:
    """Return a row as bytes."""
    if not sparse.issparse(x):
        return bytes(x[i].tobytes())
    part = slice(x.indptr[i], x.indptr[i + 1])
    return bytes(x.indices[part].astype(np.int64).tobytes() + x.data[part].tobytes())


@dataclass(frozen=True)
class Rows:
    """The observations themselves."""

    x: Any
    """An array, or a sparse matrix by columns."""
    y: NDArray[Any]
    weight: Array
    rows: bool = False
    """Whether they are kept however many there are."""

    @classmethod
    def of(cls, x: Any, y: NDArray[Any], weight: Array | None = None) -> "Rows":
        """Keep observations as they are, however many there are."""
        return cls(*distinct(x, y, np.ones(len(y)) if weight is None else weight), rows=True)

    def together(self, x: Any, y: NDArray[Any], weight: Array | None = None) -> tuple[Any, NDArray[Any], Array]:
        """Return these observations and more, one after the other."""
        thin = sparse.issparse(x) or sparse.issparse(self.x)
        both = sparse.vstack([self.x, x]) if thin else np.vstack([self.x, x])
        weights = np.concatenate([self.weight, np.ones(len(y)) if weight is None else weight])
        return both, np.concatenate([self.y, y]), weights

    def plus(self, x: Any, y: Array, weight: Array | None = None) -> Observations:
        """Return these observations together with more."""
        return observed(*self.together(x, y, weight), self.rows)

    def response(self, index: int, count: int) -> "Rows":
        """Return the observations of one response out of several."""
        return replace(self, y=np.ascontiguousarray(self.y[:, index]))

    def design(self, centred: bool = True, like: Design | None = None) -> tuple[Design, Array, float, Scale]:
        """Return the predictors as they are, the standardised response, nothing that is left, and the scale."""
        scale = self.scale(centred)
        response = (self.y - scale.y_mean) / (scale.y_std or 1.0)
        design = self.unweighted(scale)
        if (self.weight == 1).all():
            return design, response, 0.0, scale
        root = np.sqrt(self.weight)
        return replace(design, root=root), root * response, 0.0, scale

    def unweighted(self, scale: Scale) -> Design:
        """Return the predictors as they are, without the weights of the rows."""
        used = scale.used
        index = None if used.all() else np.flatnonzero(used)
        return Design(self.x, scale.x_mean[used], scale.x_std[used], index)

    def scale(self, centred: bool = True) -> Scale:
        """Return means and standard deviations; about zero unless ``centred``."""
        y_mean, y_std = mean_and_std(self.y[:, None], self.weight, centred)
        return replace(self.of_predictors(centred), y_mean=float(y_mean[0]), y_std=float(y_std[0]))

    def of_predictors(self, centred: bool = True) -> Scale:
        """Return the same of the predictors alone, for a response that has no unit."""
        x_mean, x_std = mean_and_std(self.x, self.weight, centred)
        return Scale(float(self.weight.sum()), x_mean, x_std, 0.0, 1.0)

    def standardised(self) -> tuple[Data | None, Scale]:
        """Return the standardised rows; None if nothing varies."""
        design, target, _, scale = self.design()
        if not scale.varies:
            return None, scale
        z = np.asfortranarray(design.columns(np.arange(design.size)))
        return Data(z, target, np.einsum("ij,ij->j", z, z), 0.0, scale.size), scale


@dataclass(frozen=True)
class Moments:
    """Mean and centred second moments of predictors and response together; the response is the last column.

    Of several responses, each has a column behind those of the predictors.
    """

    size: float
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, x: Any, y: Array, weight: Array | None = None) -> "Moments":
        """Return the moments of some rows."""
        thin, step = sparse.issparse(x), max(1, BLOCK // x.shape[1])
        x = x.tocsr() if thin else x
        weight = np.ones(len(y)) if weight is None else weight
        columns = x.shape[1] + (1 if y.ndim == 1 else y.shape[1])
        total = cls(0.0, np.zeros(columns), np.zeros((columns, columns)))
        for start in range(0, len(y), step):
            part, w = slice(start, start + step), weight[start : start + step, None]
            if not w.any():
                continue
            rows = np.column_stack([x[part].toarray() if thin else x[part], y[part]])
            mean = rows.mean(0) if (w == 1).all() else (w * rows).sum(0) / w.sum()
            rows -= mean
            rows *= np.sqrt(w)  # a product of a matrix with itself takes half the operations
            total = total._joined(cls(float(w.sum()), mean, rows.T @ rows))
        return total

    def plus(self, x: Any, y: Array, weight: Array | None = None) -> "Moments":
        """Return the moments of these observations together with more."""
        return self._joined(Moments.of(x, y, weight))

    def response(self, index: int, count: int) -> "Moments":
        """Return the moments of one response out of several."""
        p = len(self.mean) - count
        kept = np.append(np.arange(p), p + index)
        return Moments(self.size, self.mean[kept], self.scatter[np.ix_(kept, kept)])

    def standardised(self, centred: bool = True, rows: Array | None = None) -> tuple[Data | None, Scale]:
        """Return rows with the same X'X and X'y as the standardised data; None if nothing varies.

        ``rows`` are those with the same X'X, if they are known.
        """
        scatter = self.scatter if centred else self.scatter + self.size * np.outer(self.mean, self.mean)
        mean = self.mean if centred else np.zeros(len(self.mean))
        deviation = np.sqrt(np.diag(scatter) / self.size)
        scale = Scale(self.size, mean[:-1], deviation[:-1], float(mean[-1]), float(deviation[-1]))
        if not scale.varies:
            return None, scale
        kept = np.append(scale.used, True)
        correlation = scatter[np.ix_(kept, kept)] / np.outer(deviation[kept], deviation[kept])
        gram, target = correlation[:-1, :-1], correlation[:-1, -1]
        z = orthogonal_rows(gram) if rows is None else rows
        response = z @ target / np.einsum("ij,ij->i", z, z)
        rest = max(float(correlation[-1, -1] - response @ response), 0.0)
        return Data(z, response, np.ascontiguousarray(np.diag(gram)), rest, float(self.size)), scale

    def design(self, centred: bool = True, like: Design | None = None) -> tuple[Design, Array, float, Scale]:
        """Return rows with the same X'X and X'y, their response, the residual sum of squares left, and the scale."""
        data, scale = self.standardised(centred, None if like is None else like.x)
        if data is None:
            return Design(np.zeros((0, 0)), np.zeros(0), np.zeros(0), None), np.zeros(0), 0.0, scale
        p = data.x.shape[1]
        return Design(data.x, np.zeros(p), np.ones(p), None), data.y, data.rest, scale

    def _joined(self, other: "Moments") -> "Moments":
        size = self.size + other.size
        change = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(change, change) * (self.size * other.size / size)
        return Moments(size, self.mean + change * (other.size / size), scatter)
