"""Gibbs sampling of the posterior of `sparse_langevin.linear.normal`, one predictor after the other: the peer of ours.

A sweep visits all predictors in turn and draws whether each is in the model given all others, with its coefficient and
sigma integrated out; then it draws sigma, the coefficients and g, and every fifth time the polygenic part. What
`informed` calls c and s is kept up to date by changes of rank one, so that a visit costs a few operations, computed for
a block of predictors at a time, unless the predictor changes its state. The formulas of states and of odds are those of
the library: the samplers differ in nothing but which predictors they visit.
"""

import math

import numpy as np

from sparse_langevin.linear import model_state
from sparse_langevin.linear.collapsed import Draws, Regression
from sparse_langevin.linear.informed import all_rates, draw, draw_g, weigh
from sparse_langevin.linear.model_state import LARGEST, SIZE, G, initial_state, room_for
from sparse_langevin.linear.rank_one import exclude, include, refresh, settle_in
from sparse_langevin.runtime.jit import compiled

BLOCK = 64  # predictors whose odds are computed at a time
KEPT = 4096  # columns of X'X that are kept, once they were needed
ASK_EVERY = 5  # one in so many sweeps draws the polygenic part, as in ours


class Gibbs:
    """A chain that goes on where it stopped."""

    def __init__(self, regression: Regression, rng: np.random.Generator) -> None:
        self.regression, self.rng = regression, rng
        p = regression.size
        kept = min(p, max(KEPT, regression.most))
        state = initial_state(p, regression.most, len(regression.target.grid) // 2, 0)
        self.state = state._replace(columns=np.empty((kept, p)), owner=np.full(kept, -1), used=np.zeros(kept, np.int64))
        self._look(np.zeros(0, np.int64))

    def draw(self, count: int, parts: int = 1) -> Draws:
        """Take draws, one per sweep; inclusion probabilities are averages over each of some ``parts`` of them."""
        ends = np.linspace(0, count, parts + 1).astype(int)
        return Draws.joined([self._draw(int(size)) for size in np.diff(ends)])

    def _draw(self, count: int) -> Draws:
        room = room_for(count, self.regression.most)
        self.state.inclusion[:] = 0.0
        done = 0
        while done < count:
            some = min(ASK_EVERY, count - done)
            sweep(self.regression.target, self.state, room, self.rng, some)
            self.regression.note(room, done, done + some, self.rng)
            done += some
            model = self.regression.renew(self.state, self.rng) if self.regression.ask_every else None
            if model is not None:
                self._look(model)
        return Draws(*self.regression.noted(room), (self.state.inclusion / count)[None], room.taken)

    def _look(self, model: model_state.Indices) -> None:
        """Take all predictors into view under the polygenic part as it is, and draw g."""
        p = self.regression.size
        self.regression.look_at(np.arange(p), p)
        settle_in(self.regression.target, self.state, model)
        refresh(self.regression.target, self.state, draw_g(self.regression.target, self.state, self.rng))


@compiled
def sweep(target, state, draws, rng, count):
    """Visit all predictors in turn, and draw all else but the polygenic part, some times."""
    p, integers = len(state.c), state.integers
    for _ in range(count):
        rest = weigh(target, state)
        j = 0
        while j < p:
            stop = min(j + BLOCK, p)
            odds(target, state, j, stop, rest)
            while j < stop:
                chance = state.odds[j] / (1.0 + state.odds[j])
                state.inclusion[j] += chance
                inside = rng.random() < chance
                j += 1
                if inside != (state.place[j - 1] >= 0) and (not inside or integers[SIZE] < len(state.model)):
                    if inside:
                        include(target, state, j - 1)
                    else:
                        exclude(target, state, j - 1)
                    rest = weigh(target, state)
                    break  # the odds of all others are new
        draw(target, state, draws, rng, rest)
        before = integers[G]
        gram = draw_g(target, state, rng)
        if integers[G] != before:
            refresh(target, state, gram)


@compiled
def odds(target, state, start, stop, rest):
    """Compute the odds of some predictors given all others."""
    k, index = state.integers[SIZE], state.integers[G]
    g = target.grid[index]
    more = -LARGEST if k == len(state.model) else target.prior[index, k + 1] - target.prior[index, k]
    all_rates(state, start, stop, g, rest, target.half, more, 0.0)
    for a in range(k):
        j = state.model[a]
        if start <= j < stop:
            own = state.inverse[a, a]
            value = target.prior[index, k] - target.prior[index, k - 1] + 0.5 * math.log(own / g)
            value += target.half * math.log1p(state.mean[a] * state.mean[a] / own / rest)
            state.odds[j] = math.exp(min(max(value, -LARGEST), LARGEST))
