r"""Chains over models for responses that are normal only given weights of the rows, which are drawn: classes, counts.

Given weights w of the rows and working responses r, see `families`, the posterior of the coefficients is that of

    r = a + Z beta + N(0, sigma^2/w),   a ~ N(0, sigma^2/tau),

whose coefficients and intercept a can be integrated out. With W = diag(w) the products that `informed` needs are those
of the columns F = (I - b v v')W^(1/2) Z with v = W^(1/2) 1, since with a suitable number b

    (I - b v v')^2 = I - v v'/(v'v + tau).

A renewal draws sigma, beta and a given the model and the weights, then the weights given these, and forgets sigma, beta
and a: that leaves the posterior as it is. Between, weights and coefficients are drawn in turns, and beta, a and sqrt(g)
are multiplied by a common factor by steps of Metropolis and Hastings, as effects that separate classes would change
their size slowly otherwise. Several responses, as the scores of several classes, take turns: the coefficients of the
others stay while the model of one is sampled.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from sparse_langevin.linear import informed, model_state, size_prior
from sparse_langevin.linear.collapsed import Draws, Moves
from sparse_langevin.linear.design import Array, Design
from sparse_langevin.linear.families import Family
from sparse_langevin.linear.grouped import blocks_of
from sparse_langevin.linear.groups import Groups, largest_model
from sparse_langevin.linear.informed import draw, likelihood_ratios, weigh
from sparse_langevin.linear.model_state import GROUPS, SIZE, G, Indices, room_for
from sparse_langevin.linear.polya_gamma import sweep
from sparse_langevin.linear.tridiagonal import dot
from sparse_langevin.runtime.jit import compiled, reassociated

KNOWN = 1e8  # degrees of freedom of a sigma that is known
LARGEST_G = 30.0  # of effects on log-odds or log-means per standard deviation: a standard deviation of 5.5
TURNS = 1  # renewals of a response before another one may have its turn
SWEEPS = 4  # times that weights and coefficients are drawn in turns, per renewal
SCALINGS = 4  # attempts to change the size of all coefficients, per renewal
LARGEST_SCALING = 8  # in steps of the grid of g


@dataclass(frozen=True)
class Problem:
    """Standardised predictors and the family of the response; all chains share them."""

    design: Design
    family: Family
    groups: Groups | None = None
    """Predictors that are in the model together; None if each is on its own."""

    @cached_property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.design.x.shape[0])

    @cached_property
    def most(self) -> int:
        """Largest size of a model."""
        return largest_model(self.design.size, self.rows, self.groups)

    @cached_property
    def grid(self) -> Array:
        """The values of g; effects on a logarithmic scale are not as large as any number."""
        grid = size_prior.g_grid(self.family.information)
        return grid[grid <= LARGEST_G] if self.family.known else grid

    @cached_property
    def prior(self) -> Array:
        """Log probability of g and of one model of some size."""
        family = self.family
        count = self.design.size if self.groups is None else self.groups.count
        return size_prior.table(count, family.information, min(self.most, count), self.grid, family.noise)

    def fitted(self, draws: Draws, rows: Indices) -> Array:
        """Return the linear predictors of some rows under each draw, (draws, responses x rows)."""
        p, unit = self.design.size, np.zeros((self.rows, len(rows)))
        unit[rows, np.arange(len(rows))] = 1.0
        z = self.design.products(unit)
        parts = [draws.effects[:, k * p : (k + 1) * p] @ z for k in range(self.family.responses)]
        scores: Array = np.stack(parts, axis=1) + draws.beside["intercept"][:, :, None]
        if self.family.responses > 1:
            scores = scores - scores.mean(1, keepdims=True)  # a common shift does not matter
        return scores.reshape(len(draws), -1)


class AugmentedRegression:
    """What one chain knows: weights, and coefficients of all responses; see `collapsed.Regression`."""

    ask_every = 1
    moves: Moves = informed

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        self.problem, self.active, self.turns = problem, 0, 0
        self.size, self.most, self.responses = problem.design.size, problem.most, problem.family.responses
        self.groups, self.hyper = problem.groups, problem.family.start(rng)
        self.models = [np.zeros(0, np.int64)] * self.responses
        self.coefficients = [np.zeros(0)] * self.responses
        self.g = [len(problem.grid) // 2] * self.responses
        self.intercepts = problem.family.intercepts()
        self.scores = np.repeat(self.intercepts[:, None], problem.rows, axis=1)
        self.members, self.anchors, self.place = np.zeros(0, np.int64), 0, np.full(self.size, -1)
        self.z = np.zeros((0, problem.rows))
        self.kept: list[tuple[Indices, Array, Array, dict[str, float]]] = []
        self.weights, self.response = problem.family.weigh(self.scores, 0, 1.0, self.hyper, rng)
        self.look_at(self.members, 0)

    def look_at(self, members: Indices, anchors: int) -> None:
        """Take these predictors into view, of which the first ones are anchors."""
        if not np.array_equal(members, self.members):
            same = anchors if np.array_equal(members[:anchors], self.members[: self.anchors]) else 0
            if len(members) != len(self.z):
                self.z, same = np.empty((len(members), self.problem.rows)), 0
            self.z[same:] = self.problem.design.columns(members[same:]).T
            self.place[self.members] = -1
            self.place[members] = np.arange(len(members))
        self.members, self.anchors = members, anchors
        problem, weights = self.problem, self.weights
        self.total = float(weights.sum()) + problem.family.tau
        root, factor = self._root()
        response = self.response * root
        response -= factor * float(weights @ self.response) * root
        rows, self.mean, square, product = weigh_rows(self.z, weights, root, factor, response)
        known = problem.family.known
        ends = np.zeros(0, np.int64) if self.groups is None or not len(members) else self.groups.ends
        self.target = model_state.Target(
            rows,
            square,
            product,
            float(response @ response),
            KNOWN if known else 0.5 * (problem.family.information - 1 + (self.total == math.inf)) + 0.5,
            2 * KNOWN if known else 0.01,
            problem.grid,
            problem.prior,
            members,
            anchors,
            self.size - anchors,
            ends,
            blocks_of(rows, ends),
        )

    def _root(self) -> tuple[Array, float]:
        """Return v and b."""
        square = float(self.weights.sum())
        left = 1.0 - math.sqrt(max(1.0 - square / self.total, 0.0))
        return np.sqrt(self.weights), left / square

    def renew(self, state: model_state.State, rng: np.random.Generator) -> Indices:
        """Draw the coefficients, the intercept, sigma and the weights; let the next response have its turn."""
        active, room = self.active, room_for(1, self.most)
        draw(self.target, state, room, rng, weigh(self.target, state))
        size, sigma = int(room.size[0]), float(room.sigma[0])
        model, beta = room.model[0, :size].astype(np.int64), room.beta[0, :size].copy()
        intercept = self._intercept(model, beta, sigma, rng)
        part = beta @ self.z[self.place[model]]
        g = int(state.integers[G])
        if self.problem.family.known:
            beta, intercept = self._swept(self.z[self.place[model]], beta, intercept, g, rng)
            part = beta @ self.z[self.place[model]]
            factor, g = self._rescaled(part, intercept, int(state.integers[GROUPS]), g, rng)
            part, beta, intercept = factor * part, factor * beta, factor * intercept
        self.intercepts[active], self.scores[active] = intercept, part + intercept
        self.models[active], self.coefficients[active], self.g[active] = model, beta, g
        self.turns += 1
        if self.responses > 1 and self.turns % TURNS == 0:
            self.active = int(rng.integers(self.responses))
        family = self.problem.family
        self.weights, self.response = family.weigh(self.scores, self.active, sigma, self.hyper, rng)
        state.integers[G] = self.g[self.active]
        return self.models[self.active]

    def _intercept(self, model: Indices, beta: Array, sigma: float, rng: np.random.Generator) -> float:
        mean = (float(self.weights @ self.response) - beta @ self.mean[self.place[model]]) / self.total
        return float(mean + sigma / math.sqrt(self.total) * rng.standard_normal())

    def _swept(self, z: Array, beta: Array, intercept: float, g: int, rng: np.random.Generator) -> tuple[Array, float]:
        """Draw weights and coefficients in turns, a few times."""
        family, scores = self.problem.family, self.scores.copy()
        scores[self.active] = beta @ z + intercept
        known = family.polya_gamma(scores, self.active, self.hyper)
        if known is None:
            return beta, intercept
        rows = z if math.isinf(family.tau) else np.concatenate([z, np.ones((1, z.shape[1]))])
        precision = np.full(len(rows), 1 / self.problem.grid[g])
        precision[len(z) :] = family.tau
        found = sweep(np.ascontiguousarray(rows), precision, *known, scores[self.active], SWEEPS, rng)
        return found[: len(z)], float(found[len(z)]) if len(rows) > len(z) else 0.0

    def _rescaled(
        self, part: Array, intercept: float, size: int, g: int, rng: np.random.Generator
    ) -> tuple[float, int]:
        """Multiply coefficients, intercept and the square root of g by a factor, a few times; return all of it."""
        family, active, grid, prior = self.problem.family, self.active, self.problem.grid, self.problem.prior
        scores, factor = self.scores.copy(), 1.0
        scores[active] = part + intercept

        def density(scale: float, index: int) -> float:
            scores[active] = scale * (part + intercept)
            fits = family.log_likelihood(scores, self.hyper)
            if math.isinf(family.tau):
                return fits + float(prior[index, size])
            return fits + float(prior[index, size]) + math.log(scale) - 0.5 * family.tau * (scale * intercept) ** 2

        before = density(factor, g)
        for _ in range(SCALINGS):
            steps = int(rng.integers(1, LARGEST_SCALING + 1)) * (1 if rng.random() < 0.5 else -1)
            if not 0 <= g + steps < len(grid):
                continue
            scale = factor * math.sqrt(grid[g + steps] / grid[g])
            after = density(scale, g + steps)
            if math.log(1.0 - rng.random()) < after - before:
                factor, g, before = scale, g + steps, after
        return factor, g

    def note(self, room: model_state.Draws, begin: int, end: int, rng: np.random.Generator) -> None:
        """Draw the intercepts that belong to some draws, and keep the coefficients of all responses."""
        for i in range(begin, end):
            size = int(room.size[i])
            model, beta = room.model[i, :size].astype(np.int64), room.beta[i, :size]
            intercepts, models, coefficients = self.intercepts.copy(), list(self.models), list(self.coefficients)
            intercepts[self.active] = self._intercept(model, beta, float(room.sigma[i]), rng)
            models[self.active], coefficients[self.active] = model, beta
            index = np.concatenate([own + k * self.size for k, own in enumerate(models)])
            self.kept.append((index, np.concatenate(coefficients), intercepts, dict(self.hyper)))

    def noted(self, room: model_state.Draws) -> tuple[sparse.csr_array, dict[str, Array]]:
        """Return the coefficients of all draws, the intercepts, and what the family drew."""
        indices, values, intercepts, hyper = zip(*self.kept, strict=True)
        self.kept = []
        pointer = np.concatenate([[0], np.cumsum([len(index) for index in indices])])
        shape = len(indices), self.responses * self.size
        effects = sparse.csr_array((np.concatenate(values), np.concatenate(indices), pointer), shape=shape)
        effects.sort_indices()
        beside = {"intercept": np.array(intercepts)}
        beside |= {name: np.array([each[name] for each in hyper]) for name in self.hyper}
        if self.responses == 1:
            beside["g"] = room.g[: len(indices)]
        if not self.problem.family.known:
            beside["sigma"] = room.sigma[: len(indices)]
        return effects, beside

    def scan(self, state: model_state.State) -> Array:
        """Return the log-likelihood ratios of all predictors in the place of those in view."""
        design, k, weights = self.problem.design, state.integers[SIZE], self.weights
        root, factor = self._root()
        model = state.model[:k]
        columns = self.target.rows[model].T
        spread = np.linalg.cholesky(state.inverse[:k, :k]) if k else np.zeros((0, 0))
        columns = np.column_stack([self.response * root, columns @ spread])
        columns[:, 0] -= factor * float(weights @ self.response) * root
        # F'u = Z'W^(1/2)(I - b v v')u
        columns -= np.multiply.outer(factor * root, root @ columns)
        turned = design.products(root[:, None] * columns)
        mean = spread.T @ self.target.product[model]
        square = design.squares(weights) - design.products(weights) ** 2 / self.total
        return likelihood_ratios(
            turned[:, 0] - turned[:, 1:] @ mean,
            np.maximum(square - (turned[:, 1:] ** 2).sum(1), 0.0),
            float(self.problem.grid[state.integers[G]]),
            self.target.offset + self.target.total - float(mean @ mean),
            self.target.half,
        )


@compiled
def weigh_rows(z, weights, root, factor, response):
    """Return the columns F of the predictors, Z'w, the squares of these columns, and their products with a response."""
    rows, mean, square, product = np.empty(z.shape), np.empty(len(z)), np.empty(len(z)), np.empty(len(z))
    for j in range(len(z)):
        mean[j] = dot(z[j], weights)
        weigh_row(z[j], root, factor * mean[j], rows[j])
        square[j], product[j] = dot(rows[j], rows[j]), dot(rows[j], response)
    return rows, mean, square, product


@reassociated
def weigh_row(z, root, shift, row):
    """Shift a row and multiply it with the roots of the weights."""
    for i in range(len(z)):
        row[i] = (z[i] - shift) * root[i]
