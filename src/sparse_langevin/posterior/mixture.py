r"""Mixtures of normal distributions, one for each output: what a set of posterior samples predicts.

At each output, p(y) = sum_s w_s N(y; mu_s, sigma_s^2), with one component per posterior sample. A mixture of one
component is a normal distribution; one with sigma = 0 is an ensemble of points. The first dimension of an array counts
the components: means (S, ...).

    quantile   solves F(x) = p by Newton's method within a bracket; for points, the smallest with cumulative weight p
    crps       sum_s w_s A(y - mu_s, sigma_s^2) - 1/2 sum_st w_s w_t A(mu_s - mu_t, sigma_s^2 + sigma_t^2) with
               A(m, s^2) = 2 s phi(m/s) + m (2 Phi(m/s) - 1)  (Grimit, Gneiting, Berrocal and Johnson, 2006)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

Array = NDArray[np.float64]
SLAB = 2**18  # numbers in a working array: it stays in the cache
TOLERANCE = 1e-10  # of a quantile, in units of the widest component


@dataclass(frozen=True)
class Mixture:
    """Mixtures with the same weights at every output; `of` and `normal` create them."""

    means: NDArray[Any]
    """Means of the components, of shape (S, ...)."""
    stds: NDArray[Any]
    """Their standard deviations, of shape (S,) or that of the means."""
    weights: Array
    """Their weights, of shape (S,), with sum 1."""

    def __post_init__(self) -> None:
        shapes = self.means.shape, self.stds.shape, self.weights.shape
        if not len(self.means) or shapes[2] != shapes[0][:1] or shapes[1] not in (shapes[0], shapes[2]):
            raise ValueError(
                f"a mixture needs means (S, ...), stds (S,) or (S, ...) and weights (S,), got {shapes[0]}, {shapes[1]} "
                f"and {shapes[2]}"
            )
        if not (self.stds > 0).all() and self.stds.any():
            raise ValueError("standard deviations in a mixture must be all positive, or all zero for an ensemble")

    @classmethod
    def of(cls, means: ArrayLike, stds: ArrayLike = 0.0, weights: ArrayLike | None = None) -> "Mixture":
        """Create a mixture from means (S, ...), with equal weights by default; without ``stds`` it is one of points."""
        centres, spreads = np.asarray(means), np.asarray(stds, dtype=float)
        share = np.ones(len(centres)) if weights is None else np.asarray(weights, dtype=float)
        if not (share >= 0).all() or not share.sum() > 0:
            raise ValueError(f"the weights of a mixture must not be negative, and not all zero, got {share!r}")
        return cls(
            centres, np.broadcast_to(spreads, len(centres)) if not spreads.ndim else spreads, share / share.sum()
        )

    @classmethod
    def normal(cls, mean: ArrayLike, std: ArrayLike) -> "Mixture":
        """Return a normal distribution at each output."""
        centre = np.asarray(mean, dtype=float)
        return cls.of(centre[None], np.broadcast_to(np.asarray(std, dtype=float), centre.shape)[None])

    @property
    def points(self) -> bool:
        """Whether the mixture is an ensemble of points."""
        return not self.stds.any()

    def mean(self) -> Array:
        """Return the mean of each output."""
        return self._by_slab(lambda _, means, __: self.weights @ means)

    def std(self) -> Array:
        """Return the standard deviation of each output."""

        def std(_: Array, means: Array, stds: Array) -> Array:
            return np.sqrt(self.weights @ ((means - self.weights @ means) ** 2 + stds**2))

        return self._by_slab(std)

    def scaled(self, factor: float) -> "Mixture":
        """Return the mixture made ``factor`` times as wide around its mean."""
        mean = self.mean()
        return Mixture(mean + factor * (self.means - mean), factor * self.stds, self.weights)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the probability of a value of at most ``x`` at each output."""
        if self.points:
            return self._by_slab(lambda at, means, _: np.minimum(self.weights @ (means <= at), 1.0), x)
        return self._by_slab(lambda at, means, stds: np.minimum(self.weights @ ndtr((at - means) / stds), 1.0), x)

    def log_density(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at each output; nan for points."""
        if self.points:
            return np.full(self.means.shape[1:], np.nan)

        def log_density(at: Array, means: Array, stds: Array) -> Array:
            shares = self.weights[:, None] / (stds * np.sqrt(2 * np.pi))
            return np.asarray(logsumexp(-(((at - means) / stds) ** 2) / 2, axis=0, b=shares))

        return self._by_slab(log_density, x)

    def quantile(self, levels: ArrayLike) -> Array:
        """Return the quantiles (levels, ...) of each output."""
        wanted = np.atleast_1d(np.asarray(levels, dtype=float))
        if not ((wanted > 0) & (wanted < 1)).all():
            raise ValueError(f"levels of quantiles must be between 0 and 1, got {levels!r}")

        def quantile(level: float) -> Array:
            if self.points:
                return self._by_slab(lambda _, means, __: _point_quantile(level, means, self.weights))
            return self._by_slab(lambda _, means, stds: _normal_quantile(level, means, stds, self.weights))

        return np.stack([quantile(level) for level in wanted])

    def crps(self, x: ArrayLike) -> Array:
        """Return the continuous ranked probability score at each output; 0 is best.

        The cost grows as S^2, except for points.
        """
        if self.points:
            return self._by_slab(lambda at, means, _: _point_crps(at, means, self.weights), x)
        return self._by_slab(lambda at, means, stds: _normal_crps(at, means, stds, self.weights), x)

    def _by_slab(self, function: Callable[[Array, Array, Array], Array], x: ArrayLike = 0.0) -> Array:
        """Apply a function of x (n,), means (S, n) and stds (S, 1 or n) to as many outputs at a time as fit a slab."""
        count, shape = len(self.means), self.means.shape[1:]
        means, stds = self.means.reshape(count, -1), self.stds.reshape(count, -1)
        at = np.broadcast_to(np.asarray(x, dtype=float), shape).reshape(-1)
        result = np.empty(means.shape[1])
        width = max(1, SLAB // count)
        for start in range(0, len(result), width):
            part = slice(start, start + width)
            spreads = stds if stds.shape[1] == 1 else stds[:, part]
            result[part] = function(at[part], means[:, part].astype(float), spreads)
        return result.reshape(shape)


def _normal_crps(x: Array, means: Array, stds: Array, weights: Array) -> Array:
    diagonal = (weights**2) @ np.broadcast_to(stds, means.shape) / np.sqrt(np.pi)
    total: Array = weights @ _absolute(x - means, stds) - diagonal
    for i in range(1, len(means)):
        total -= weights[i] * (weights[:i] @ _absolute(means[i] - means[:i], np.hypot(stds[i], stds[:i])))
    return total


def _absolute(mean: Array, std: Array) -> Array:
    """Return E|X| of a normal variable X."""
    z = mean / std
    result: Array = std * np.sqrt(2 / np.pi) * np.exp(-(z**2) / 2) + mean * (2 * ndtr(z) - 1)
    return result


def _normal_quantile(level: float, means: Array, stds: Array, weights: Array) -> Array:
    # Every component has its quantile in [low, high], and so the mixture has too.
    own = means + ndtri(level) * stds
    low, high = own.min(0), own.max(0)
    centre = weights @ means
    spread = np.sqrt(weights @ ((means - centre) ** 2 + stds**2))
    result: Array = np.clip(centre + ndtri(level) * spread, low, high)  # that of one normal distribution
    tolerance = TOLERANCE * float(stds.max())
    open_ = np.arange(len(result))
    x, last = result.copy(), high - low
    while len(open_):
        z = (x - means) / stds
        excess = weights @ ndtr(z) - level
        slope = weights @ (np.exp(-(z**2) / 2) / stds) / np.sqrt(2 * np.pi)
        low, high = np.where(excess < 0, x, low), np.where(excess >= 0, x, high)
        # Newton's step; if it leaves the bracket, or is not half the one before, the bracket is halved instead.
        new = x - np.divide(excess, slope, out=np.full_like(x, np.inf), where=slope > 0)
        new = np.where((low <= new) & (new <= high) & (np.abs(new - x) <= last / 2), new, (low + high) / 2)
        last, x = np.abs(new - x), new
        result[open_] = x
        left = np.minimum(last, high - low) > np.maximum(tolerance, 4 * np.spacing(np.abs(x)))
        if not left.all():
            open_, x, low, high, last = (part[left] for part in (open_, x, low, high, last))
            means, stds = means[:, left], stds if stds.shape[1] == 1 else stds[:, left]
    return result


def _point_quantile(level: float, values: Array, weights: Array) -> Array:
    order = values.argsort(0)
    # A cumulative weight that should equal the level may fall short of it by rounding.
    chosen = (weights[order].cumsum(0) >= level - 1e-12).argmax(0)
    found: Array = np.take_along_axis(np.take_along_axis(values, order, 0), chosen[None], 0)[0]
    return found


def _point_crps(x: Array, values: Array, weights: Array) -> Array:
    order = values.argsort(0)
    ordered, share = np.take_along_axis(values, order, 0), weights[order]
    spread = (share * ordered * (2 * share.cumsum(0) - share - 1)).sum(0)
    result: Array = weights @ np.abs(x - values) - spread
    return result
