"""Normal responses: the data, and many small effects of all predictors beside those in the model, see `polygenic`."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import log_ndtr

from sparse_langevin.linear import informed, model_state, positive, size_prior
from sparse_langevin.linear.collapsed import Draws, Moves, sparse_rows
from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.grouped import blocks_of
from sparse_langevin.linear.groups import Groups, largest_model
from sparse_langevin.linear.informed import likelihood_ratios
from sparse_langevin.linear.model_state import GROUPS, SIGMA, SIZE, G, Indices
from sparse_langevin.linear.polygenic import VALUES, Background, log_weights
from sparse_langevin.linear.samples import Mixed, Samples

ASK_EVERY = 2  # one in so many draws of g draws h too
ROTATED = (
    3.2e7  # bytes for all columns in the basis of the eigenvectors; beyond, those in view are computed when needed
)
FEW, KEPT = 1000, 1 << 22  # draws with small effects of all predictors: at least so many, and numbers in them


@dataclass(frozen=True)
class Problem:
    """Standardised data and the prior; all chains share it."""

    design: Design
    y: Array
    """Response of the rows."""
    rest: float
    """Residual sum of squares of the data in addition to that of these rows."""
    size: float
    """Number of observations."""
    nu: float = 1.0
    lambda_: float = 0.01
    """Of the prior sigma^2 ~ InverseGamma(nu/2, nu lambda/2)."""
    background: Background | None = None
    """The small effects; None if there are none."""
    fitted_means: int = 1
    """1 if the mean of the response was subtracted, 0 if not."""
    groups: Groups | None = None
    """Predictors that are in the model together; None if each is on its own."""

    @cached_property
    def most(self) -> int:
        """Largest size of a model."""
        return largest_model(self.design.size, int(self.size), self.groups)

    @cached_property
    def grid(self) -> Array:
        """The values of g."""
        return size_prior.g_grid(self.size)

    @cached_property
    def prior(self) -> Array:
        """Log probability of g and of one model of some size."""
        count = self.design.size if self.groups is None else self.groups.count
        return size_prior.table(count, self.size, min(self.most, count), self.grid)

    @cached_property
    def moments(self) -> list[tuple[Array, Array, float]]:
        """x_j'Px_j and x_j'Py of all predictors, and y'Py, of the empty model for each value of h."""
        if self.background is None:
            square = np.full(self.design.size, self.size)
            return [(square, self.design.products(self.y), float(self.y @ self.y) + self.rest)]
        b = self.background
        return [(b.square[i], b.product[i], float(b.total[i]) + self.rest) for i in range(len(VALUES))]

    @cached_property
    def all_rotated(self) -> Array | None:
        """All columns in the basis of the eigenvectors, one per row, if there is room for them."""
        if 8 * self.design.size * len(self.y) > ROTATED:
            return None
        return self.rotated(np.arange(self.design.size))

    def rotated(self, predictors: Indices) -> Array:
        """Return columns in the basis of the eigenvectors, or as they are if there is no background; one per row."""
        columns = self.design.columns(predictors)
        turned = columns if self.background is None else self.background.rotated(columns)
        return np.ascontiguousarray(turned.T)

    def coefficients(self, chains: list[Draws], rng: np.random.Generator) -> tuple[Samples, Array]:
        """Return draws of all coefficients of standardised predictors, one row each, and of sigma."""
        draws = Draws.joined(chains)
        sigma, h = draws.beside["sigma"], draws.beside["h"].astype(int)
        if self.background is None or not h.any():
            return draws.effects, sigma
        mean = np.asarray(draws.effects.mean(0)).ravel()
        for index in np.unique(h[h > 0]):
            same = h == index
            rest = self.y - self.design.combine(np.asarray(draws.effects[same].mean(0)).ravel())
            mean += same.mean() * self.background.mean(self.design, rest, int(index))
        few = max(FEW, KEPT // self.design.size)
        some = np.unique(np.linspace(0, len(h) - 1, few).astype(int)) if few < len(h) else np.arange(len(h))
        effects, sigma, h = draws.effects[some], sigma[some], h[some]
        there = np.flatnonzero(h)
        rest = self.y[:, None] - self.design.sums(effects[there]).T
        small = self.background.draw(self.design, rest, sigma[there], h[there], rng)
        return Mixed(effects, small, there, mean, np.arange(self.design.size), np.ones(self.design.size)), sigma

    def fitted(self, draws: Draws, rows: Indices) -> Array:
        """Return the expected responses of some rows under each draw, small effects included, (draws, rows)."""
        index = draws.beside["h"].astype(int)
        found = np.empty((len(draws), len(rows)))
        for h in np.unique(index):
            # With P = (I + hK)^-1 the expected response is y - P (y - Z beta).
            some, unit = index == h, np.eye(len(self.y))[:, rows]
            if self.background is not None:
                unit = self.background.solved(int(h), self.background.rotated(unit))
            rest = self.y[rows] - self.y @ unit
            found[some] = rest + draws.effects[some] @ self.design.products(unit)
        return found


class NormalRegression:
    """What one chain knows: h, and the columns in view; see `collapsed.Regression`."""

    active, responses = 0, 1
    moves: Moves = informed

    def __init__(self, problem: Problem) -> None:
        self.problem, self.groups, self.h = problem, problem.groups, 0
        self.size, self.most = problem.design.size, problem.most
        self.ask_every = ASK_EVERY if problem.background is not None else 0
        self.members, self.anchors = np.zeros(0, np.int64), 0
        self.rotated = np.zeros((0, len(problem.y)))
        self.kept: list[tuple[int, int]] = []
        self.target = self._target(self.rotated)

    def look_at(self, members: Indices, anchors: int) -> None:
        """Take these predictors into view, of which the first ones are anchors."""
        everything = self.problem.all_rotated
        if np.array_equal(members, self.members):
            pass
        elif everything is not None:
            self.rotated = everything if np.array_equal(members, np.arange(self.size)) else everything[members]
        else:
            same = anchors if np.array_equal(members[:anchors], self.members[: self.anchors]) else 0
            self.rotated = np.concatenate([self.rotated[:same], self.problem.rotated(members[same:])])
        self.members, self.anchors = members, anchors
        self.target = self._target(self.rotated)

    def _target(self, rotated: Array) -> model_state.Target:
        problem, background, members = self.problem, self.problem.background, self.members
        square, product, total = problem.moments[self.h]
        ends = np.zeros(0, np.int64) if self.groups is None or not len(members) else self.groups.ends
        rows = (
            rotated if self.h == 0 or background is None else rotated / np.sqrt(1 + VALUES[self.h] * background.values)
        )
        return model_state.Target(
            rows,
            square[members],
            product[members],
            total,
            0.5 * (problem.size - problem.fitted_means + problem.nu),
            problem.nu * problem.lambda_,
            problem.grid,
            problem.prior,
            members,
            self.anchors,
            self.size - self.anchors,
            ends,
            blocks_of(rows, ends),
        )

    def renew(self, state: model_state.State, rng: np.random.Generator) -> Indices | None:
        """Draw h given the model, with g summed out."""
        problem, background = self.problem, self.problem.background
        assert background is not None
        model, groups = state.model[: state.integers[SIZE]], state.integers[GROUPS]
        known = background.values, background.response, background.total, background.log_weight
        offset = self.target.offset + problem.rest
        prior = np.ascontiguousarray(problem.prior[:, groups])
        weight = log_weights(known, self.rotated[model], problem.grid, prior, self.target.half, offset)
        weight = np.exp(weight - weight.max()).sum(1).cumsum()
        before, self.h = self.h, min(int(np.searchsorted(weight, rng.random() * weight[-1])), len(weight) - 1)
        return None if self.h == before else self.members[model]

    def scan(self, state: model_state.State) -> Array:
        """Return the log-likelihood ratios of all predictors in the place of those in view."""
        c, s, gained = self._known(state)
        rest = self.target.offset + self.target.total - gained
        return likelihood_ratios(c, s, float(self.problem.grid[state.integers[G]]), rest, self.target.half)

    def _known(self, state: model_state.State) -> tuple[Array, Array, float]:
        """Return c and s of all predictors, see `informed`, and how much R is smaller than that of the empty model."""
        problem, background, k = self.problem, self.problem.background, state.integers[SIZE]
        square, product, _ = problem.moments[self.h]
        model = state.model[:k]
        # Of P y and P X_m C with CC' = (1/g + X_m'X_m)^-1, back in the basis of the rows.
        columns = (
            self.target.rows[model].T @ np.linalg.cholesky(state.inverse[:k, :k])
            if k
            else np.zeros((len(problem.y), 0))
        )
        if background is not None:
            columns = background.vectors @ (columns / np.sqrt(1 + VALUES[self.h] * background.values)[:, None])
        turned = problem.design.products(columns)
        mean = np.linalg.cholesky(state.inverse[:k, :k]).T @ self.target.product[model] if k else np.zeros(0)
        return product - turned @ mean, np.maximum(square - (turned**2).sum(1), 0.0), float(mean @ mean)

    def note(self, room: model_state.Draws, begin: int, end: int, rng: np.random.Generator) -> None:
        """Keep h of some draws."""
        if end > begin:
            self.kept.append((end - begin, self.h))

    def noted(self, room: model_state.Draws) -> tuple[sparse.csr_array, dict[str, Array]]:
        """Return the coefficients of all draws, sigma, g and the index of h."""
        taken = int(room.taken[0])
        count, h = np.array(self.kept, dtype=int).reshape(-1, 2).T
        self.kept = []
        beside = {"sigma": room.sigma[:taken], "g": room.g[:taken], "h": np.repeat(h, count).astype(float)}
        return sparse_rows(room, self.size), beside


class PositiveRegression(NormalRegression):
    """The same with coefficients that are never negative, and without small effects, see `positive`."""

    moves: Moves = positive

    def scan(self, state: model_state.State) -> Array:
        """Return the log-likelihood ratios of all predictors in the place of those in view, given sigma."""
        (c, s, _), g = self._known(state), float(self.problem.grid[state.integers[G]])
        u = c / (state.reals[SIGMA] * np.sqrt(s + 1.0 / g))
        found: Array = math.log(2.0) - 0.5 * np.log1p(g * s) + 0.5 * u * u + log_ndtr(u)
        return found
