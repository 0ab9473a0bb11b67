r"""Many small effects beside the few that are selected: y = X beta + u + noise with u ~ N(0, sigma^2 h K), K = ZZ'/p.

It is as if every predictor had one more coefficient b_j ~ N(0, sigma^2 h/p). They are small if n observations could
not tell one of them from nothing, which is what the prior asks for; or else, with few predictors, the effects that
matter would be taken for small ones of all. With K = U diag(lambda) U', the inverse
of I + hK is known for every h; products of columns are then x'(I + hK)^-1 x. h is one of a few values, among them zero,
and is drawn together with g given the model.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.tridiagonal import weights_of_g
from sparse_langevin.runtime.jit import compiled

BLOCK = 1 << 19  # numbers of a block of columns
WIDTH = 256  # predictors whose small effects are made at a time
UNRESOLVED = 5.0  # squared standard errors of a small effect
SHARE, MANY = 0.25, 100.0  # probability that there are small effects: of many predictors, and of so many half of that
VALUES = np.concatenate([[0.0], np.exp(np.linspace(np.log(0.02), np.log(50.0), 10))])


def log_prior(n: float, p: int) -> Array:
    """Return log p(h) up to a constant.

    Zero has the weight 1 - s with s = p/(4 (p + 100)); otherwise log(h) is logistic with the weight
    s exp(-(n h/(5 p))^2), where n h/p is the squared size of a small effect in units of its standard error.
    """
    share = SHARE * p / (p + MANY)
    logit = np.log(VALUES[1:])
    weight = np.exp(-np.abs(logit)) / (1 + np.exp(-np.abs(logit))) ** 2
    small = -((n * VALUES[1:] / (UNRESOLVED * p)) ** 2)
    found: Array = np.concatenate([[np.log(1 - share)], np.log(share * weight / weight.sum()) + small])
    return found


@dataclass(frozen=True)
class Background:
    """The spectrum of K, and what the chains need for each value of h."""

    vectors: Array
    values: Array
    square: Array
    """(values of h, predictors): x_j'(I + hK)^-1 x_j."""
    product: Array
    """(values of h, predictors): x_j'(I + hK)^-1 y."""
    total: Array
    """y'(I + hK)^-1 y."""
    log_weight: Array
    """log p(h) - log|I + hK|/2."""
    response: Array
    """The response, rotated."""

    @classmethod
    def of(cls, design: Design, y: Array, size: float) -> "Background":
        """Compute the spectrum, column block by column block; the rows stand for ``size`` observations."""
        n, p = len(y), design.size
        blocks = [np.arange(i, min(i + max(1, BLOCK // n), p)) for i in range(0, p, max(1, BLOCK // n))]
        kernel = np.zeros((n, n))
        for block in blocks:
            z = design.columns(block)
            kernel += z @ z.T
        values, vectors = np.linalg.eigh(kernel / p)
        values = np.maximum(values, 0.0)
        shrink = 1 / (1 + VALUES[:, None] * values)
        turned = vectors.T @ y
        square, product = np.empty((len(VALUES), p)), np.empty((len(VALUES), p))
        for block in blocks:
            z = vectors.T @ design.columns(block)
            square[:, block] = shrink @ (z * z)
            product[:, block] = (shrink * turned) @ z
        log_weight = log_prior(size, p) - 0.5 * np.log1p(VALUES[:, None] * values).sum(1)
        return cls(vectors, values, square, product, shrink @ turned**2, log_weight, turned)

    def for_response(self, design: Design, y: Array) -> "Background":
        """Return the same for another response to the same predictors."""
        turned = self.rotated(y)
        shrunk = turned / (1 + VALUES[:, None] * self.values)
        product = design.products(self.vectors @ shrunk.T).T
        return replace(self, product=np.ascontiguousarray(product), total=shrunk @ turned, response=turned)

    def rotated(self, columns: Array) -> Array:
        """Return columns in the basis of the eigenvectors."""
        found: Array = self.vectors.T @ columns
        return found

    def solved(self, index: Any, rotated: Array) -> Array:
        """Return (I + hK)^-1 v for columns v that have been rotated; h is one value, or one for each column."""
        found: Array = self.vectors @ (rotated / (1 + VALUES[index] * self.values[:, None]))
        return found

    def mean(self, design: Design, residual: Array, index: int) -> Array:
        """Return the expected small effects given h and what the rest of the model leaves of the response."""
        found: Array = (
            VALUES[index] / design.size * design.products(self.solved(index, self.rotated(residual[:, None])))
        )
        return found[:, 0]

    def draw(
        self, design: Design, residual: Array, sigma: Array, index: NDArray[np.intp], rng: np.random.Generator
    ) -> "SmallEffects":
        """Draw the small effects given h and what the rest of the model leaves of the response, a column per draw."""
        share = VALUES[index] / design.size
        small = SmallEffects(design, sigma * np.sqrt(share), np.zeros((len(sigma), 0)), int(rng.integers(2**62)))
        rest = residual - sigma * rng.standard_normal(residual.shape)
        for block, places in enumerate(small.places()):
            rest -= design.columns(places) @ small.first(block, len(places)).T
        return replace(small, pull=(share * self.solved(index, self.rotated(rest))).T)


@dataclass(frozen=True)
class SmallEffects:
    """Draws of the small effects b = b0 + (h/p) Z'(I + hK)^-1 (rest - Z b0 - noise) with b0 ~ N(0, sigma^2 h/p).

    Of each only what Z' is applied to is kept, and b0 is made again from its seed where it is needed.
    """

    design: Design
    spread: Array
    """Standard deviation of b0, by draw."""
    pull: Array
    """(draws, rows)"""
    seed: int

    def places(self) -> Iterator[NDArray[np.intp]]:
        """Return the predictors of each block."""
        for start in range(0, self.design.size, WIDTH):
            yield np.arange(start, min(start + WIDTH, self.design.size))

    def first(self, block: int, width: int) -> Array:
        """Return b0 of a block, (draws, predictors)."""
        normal = np.random.default_rng([self.seed, block]).standard_normal((len(self.spread), width))
        found: Array = self.spread[:, None] * normal
        return found

    def blocks(self) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Return the predictors of each block, and its draws, (draws, predictors)."""
        for block, places in enumerate(self.places()):
            yield places, self.first(block, len(places)) + self.pull @ self.design.columns(places)


@compiled
def log_weights(background, columns, grid, prior, half, offset):
    """Return log p(g, h | model) up to a constant, (values of h, values of g).

    ``background`` is (eigenvalues, rotated response, y'(I + hK)^-1 y, log weight of h); ``columns`` are those of the
    model, rotated, one per row, and ``prior`` is log p(g, model).
    """
    values, response, total, log_weight = background
    found = np.empty((len(VALUES), len(grid)))
    for i in range(len(VALUES)):
        scaled = columns / (1.0 + VALUES[i] * values)
        product, gram = scaled @ response, scaled @ columns.T
        found[i] = log_weight[i] + weights_of_g(gram, product, grid, prior, offset + total[i], half, offset)
    return found


def affordable(rows: int, predictors: int) -> bool:
    """Whether the spectrum takes seconds at most."""
    return rows <= 2000 and rows * rows * predictors <= 2e11
