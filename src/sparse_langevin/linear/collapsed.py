"""Chains of linear models whose coefficients are integrated out: `informed`, and what it asks for on its way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from sparse_langevin.linear import model_state, size_prior
from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.informed import advance
from sparse_langevin.linear.model_state import ASKED, DRAWN, HELD, NEXT, SIZE, SPACING, TIME, WAITING, XI, G, Indices
from sparse_langevin.linear.polygenic import VALUES, Background, log_weights
from sparse_langevin.linear.rank_one import refresh

MOST = 1000  # largest size of a model
MEMORY = 2e8  # bytes for the columns of a chain
GRAMS = 1.2e8  # bytes for the products of all columns, for all values of h; beyond, columns are made on demand
SPARE = 64  # columns that are kept beyond those of the largest model
HYPER_SHARE = 0.2  # share of the steps that draw hyperparameters
ASK_EVERY = 5  # of these, one in so many draws h too
ADAPT = 100  # steps between adaptations during burn-in
PATIENCE = 20  # times the steps that draws should take: how long a chain may be on its way to them


@dataclass(frozen=True)
class Problem:
    """Standardised data and the prior."""

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

    @cached_property
    def most(self) -> int:
        """Largest size of a model: the number of observations, unless there is no room for so many columns."""
        p = self.design.size
        return max(1, min(p, int(self.size), MOST, int(MEMORY / (8 * p)) - 1))

    @cached_property
    def grid(self) -> Array:
        """The values of g."""
        return size_prior.g_grid()

    @cached_property
    def targets(self) -> list[model_state.Target]:
        """What a chain has to know, for each value of h."""
        half, offset = 0.5 * (self.size - 1 + self.nu), self.nu * self.lambda_
        prior = size_prior.table(self.design.size, self.size, self.most, self.grid)
        if self.background is None:
            known = [(np.full(self.design.size, self.size), self.design.products(self.y), float(self.y @ self.y))]
        else:
            b = self.background
            known = [(b.square[i], b.product[i], float(b.total[i])) for i in range(len(VALUES))]
        return [
            model_state.Target(square, product, total + self.rest, half, offset, self.grid, prior)
            for square, product, total in known
        ]

    @cached_property
    def all_rotated(self) -> Array | None:
        """All columns in the basis of the eigenvectors, one per row, if there is room for all products."""
        p = self.design.size
        if 8 * p * max(p * len(self.targets), len(self.y)) > GRAMS:
            return None
        columns = self.design.columns(np.arange(p))
        return np.ascontiguousarray((columns if self.background is None else self.background.rotated(columns)).T)

    @cached_property
    def grams(self) -> dict[int, Array]:
        """The products of all columns, for the values of h that were asked for so far."""
        return {}

    def gram(self, h: int) -> Array | None:
        """Return the products of all columns for a value of h, if there is room for them."""
        if self.all_rotated is None:
            return None
        if h not in self.grams:  # threads may do it twice
            rows = self.all_rotated
            weight = 1.0 if self.background is None else 1 / (1 + VALUES[h] * self.background.values)
            self.grams[h] = (rows * weight) @ rows.T
        return self.grams[h]

    def coefficients(self, chains: "Sequence[Draws]", rng: np.random.Generator) -> tuple[Any, Array]:
        """Return draws of all coefficients of standardised predictors, one row each, and of sigma.

        They are sparse unless some of them have small effects of all predictors.
        """
        effects = sparse.vstack([draws.effects for draws in chains], format="csr")
        sigma, h = (np.concatenate([getattr(draws, name) for draws in chains]) for name in ("sigma", "h"))
        if self.background is None or not h.any():
            return effects, sigma
        few = max(200, int(MEMORY / (8 * self.design.size)))
        some = np.unique(np.linspace(0, len(h) - 1, few).astype(int)) if few < len(h) else np.arange(len(h))
        found = effects[some].toarray()
        for row, i in zip(found, some, strict=True):
            rest = self.y - self.design.combine(row)
            row += self.background.draw(self.design, rest, float(sigma[i]), int(h[i]), rng)
        return found, sigma[some]

    def fitted(self, draws: "Draws", rows: Indices) -> Array:
        """Return the expected responses of some rows under each draw, small effects included, (draws, rows)."""
        found = np.empty((len(draws.h), len(rows)))
        for h in np.unique(draws.h):
            # With P = (I + hK)^-1 the expected response is y - P (y - Z beta).
            some, unit = draws.h == h, np.eye(len(self.y))[:, rows]
            if self.background is not None:
                unit = self.background.solved(int(h), self.background.rotated(unit))
            rest = self.y[rows] - self.y @ unit
            found[some] = rest + draws.effects[some] @ self.design.products(unit)
        return found


@dataclass(frozen=True)
class Draws:
    """Draws of one chain."""

    effects: sparse.csr_array
    """(draws, predictors): the coefficients of standardised predictors, zero unless they are in the model."""
    sigma: Array
    g: Array
    h: Indices
    """Index of h of each draw."""
    inclusion: Array
    """Mean over the time of the probability of each predictor given all others."""
    time: float
    """Length of that time."""

    def first(self, count: int) -> "Draws":
        """Return the first draws only."""
        return replace(self, effects=self.effects[:count], sigma=self.sigma[:count], g=self.g[:count], h=self.h[:count])


class Chain:
    """A chain that goes on where it stopped."""

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        p, most = problem.design.size, problem.most
        self.h, self.steps = 0, 0
        self.rotated = problem.all_rotated
        if (gram := problem.gram(0)) is not None:
            self.state = model_state.initial_state(problem.targets[0], most, gram)
            self.state.row[:] = self.state.owner[:] = np.arange(p)
            return
        rows = min(p, most + SPARE, max(most + 1, int(MEMORY / (8 * p))))
        if problem.background is not None:
            self.rotated = np.empty((rows, len(problem.y)))
        self.state = model_state.initial_state(problem.targets[0], most, np.empty((rows, p)))

    def burn_in(self, steps: int) -> None:
        """Forget the start, and adapt how often hyperparameters are drawn and the time between draws."""
        integers, reals, none = self.state.integers, self.state.reals, _room(0, self.problem.most)
        reals[NEXT] = reals[SPACING] = np.inf
        pieces = max(4, -(-steps // ADAPT))
        for piece in range(pieces):
            if piece in (0, 1, pieces // 2):  # of the rest of the burn-in
                drawn, begin, before = integers[DRAWN], reals[TIME], self.steps
            self._run(none, ADAPT)
            taken, time = self.steps - before, reals[TIME] - begin
            reals[XI] = HYPER_SHARE / (1 - HYPER_SHARE) * max(taken - (integers[DRAWN] - drawn), 1) / time
            reals[SPACING] = time / taken

    def draw(self, count: int, thin: int) -> Draws:
        """Take draws, one for about ``thin`` steps; fewer of them if the chain has slowed down since its burn-in."""
        state, most, p = self.state, self.problem.most, self.problem.design.size
        if np.isinf(state.reals[NEXT]):
            state.reals[SPACING] *= thin
            state.reals[NEXT] = state.reals[TIME] + state.reals[SPACING]
        room, h = _room(count, most), np.zeros(count, np.int64)
        state.inclusion[:], begin = 0.0, state.reals[TIME]
        self._run(room, PATIENCE * count * thin, h)
        taken, time = int(room.taken[0]), state.reals[TIME] - begin
        if not taken:
            raise FloatingPointError(f"a chain took {self.steps:,} steps without a draw: the data may be degenerate")
        size = room.size[:taken]
        where = np.arange(most) < size[:, None]
        pointer = np.concatenate([[0], np.cumsum(size)])
        effects = sparse.csr_array((room.beta[:taken][where], room.model[:taken][where], pointer), shape=(taken, p))
        effects.sort_indices()
        return Draws(effects, room.sigma[:taken], room.g[:taken], h[:taken], state.inclusion / time, time)

    def _run(self, room: model_state.Draws, steps: int, h: Indices | None = None) -> None:
        """Take steps until there are enough of them, or enough draws."""
        done = 0
        ask = ASK_EVERY if self.problem.background is not None else 0
        while done < steps:
            before = room.taken[0]
            target = self.problem.targets[self.h]
            done += advance(target, self.state, room, self.rng, steps - done, ask)
            if h is not None:
                h[before : room.taken[0]] = self.h
            waiting = int(self.state.integers[WAITING])
            if waiting >= 0:
                self._fill(np.array([waiting]))
            elif waiting == ASKED:
                self._draw_hyperparameters()
            elif self.state.integers[HELD]:
                break
        self.steps += done

    def _fill(self, predictors: Indices) -> None:
        """Compute columns, in place of those that were not used for longest."""
        state, design, background = self.state, self.problem.design, self.problem.background
        used = state.used.copy()
        used[state.owner < 0] = -1
        used[state.row[state.model[: state.integers[SIZE]]]] = np.iinfo(np.int64).max
        rows = np.argpartition(used, len(predictors) - 1)[: len(predictors)]
        state.row[state.owner[rows][state.owner[rows] >= 0]] = -1
        state.owner[rows], state.row[predictors] = predictors, rows
        columns = design.columns(predictors)
        if background is not None and self.rotated is not None:
            rotated = background.rotated(columns)
            self.rotated[rows] = rotated.T
            columns = background.solved(self.h, rotated) if self.h else columns
        state.columns[rows] = design.products(columns).T

    def _draw_hyperparameters(self) -> None:
        """Draw g and h given the model."""
        problem, state, background = self.problem, self.state, self.problem.background
        assert background is not None and self.rotated is not None
        model = state.model[: state.integers[SIZE]].copy()
        target, rows = problem.targets[0], state.row[model]
        known = background.values, background.response, background.total, background.log_weight
        offset = target.offset + problem.rest
        weight = log_weights(
            known, self.rotated[rows], problem.grid, target.prior[:, len(model)], target.half, offset
        ).ravel()
        weight = np.exp(weight - weight.max()).cumsum()
        chosen = min(int(np.searchsorted(weight, self.rng.random() * weight[-1])), len(weight) - 1)
        h, state.integers[G] = divmod(chosen, len(problem.grid))
        if h != self.h and (all_products := problem.gram(h)) is not None:
            self.state = state = state._replace(columns=all_products)
        elif h != self.h:
            state.row[state.owner[state.owner >= 0]] = -1
            state.owner[:] = -1
            state.owner[rows], state.row[model] = model, rows
            columns = background.solved(h, self.rotated[rows].T)
            state.columns[rows] = problem.design.products(columns).T
        self.h = h
        gram = state.columns[rows][:, model]
        refresh(problem.targets[h], state, np.ascontiguousarray(0.5 * (gram + gram.T)))


def _room(count: int, most: int) -> model_state.Draws:
    return model_state.Draws(
        taken=np.zeros(1, np.int64),
        size=np.zeros(count, np.int64),
        model=np.zeros((count, most), np.int32),
        beta=np.zeros((count, most)),
        sigma=np.zeros(count),
        g=np.zeros(count),
    )
