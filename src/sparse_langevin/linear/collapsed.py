"""Chains over models, see `informed`, with what they ask for: predictors to look at, and draws of all else."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear import model_state
from sparse_langevin.linear.design import Array
from sparse_langevin.linear.groups import Groups
from sparse_langevin.linear.model_state import (
    ASKED,
    DRAWN,
    HELD,
    NEXT,
    SIZE,
    SPACING,
    TIME,
    XI,
    Indices,
    initial_state,
    room_for,
)

ALL = 768  # as many predictors are always in view; of more, ANCHORS and as many GUESTS at a time
ANCHORS = 384
GUESTS = 128
SCANS = (0, 0.1, 0.2, 0.35, 0.5, 0.75)  # of the burn-in: when all predictors are looked at, to choose the anchors
ASK_FOR_GUESTS = 5  # one in so many draws of g also chooses guests, if there is nothing else to draw
HYPER_SHARE = 0.2  # share of the steps that draw hyperparameters
ADAPT = 100  # steps between adaptations during burn-in
PATIENCE = 20  # times the steps that draws should take: how long a chain may be on its way to them
ATTEMPTS = 4  # times that it may find out anew how far apart draws are


class Moves(Protocol):
    """How a chain changes: compiled functions, those of `informed` or of `positive`."""

    def advance(
        self,
        target: model_state.Target,
        state: model_state.State,
        draws: model_state.Draws,
        rng: np.random.Generator,
        steps: int,
        ask_every: int,
        /,
    ) -> int:
        """Take up to ``steps`` steps and return how many were taken, see `informed.advance`."""

    def settle(
        self, target: model_state.Target, state: model_state.State, model: Indices, rng: np.random.Generator, /
    ) -> None:
        """Make ``model`` the model under a new target, and draw hyperparameters."""


class Regression(Protocol):
    """All of a posterior but the model: the data, and the state of what else is drawn. Each chain has its own."""

    size: int
    """Number of predictors."""
    most: int
    """Largest size of a model."""
    moves: Moves
    """How the model and what belongs to it change."""
    target: model_state.Target
    """What a chain has to know of the predictors in view."""
    ask_every: int
    """One in so many draws of g draws everything else, too; 0: there is nothing else."""
    groups: Groups | None
    """Predictors that are in the model together."""
    active: int
    """The response whose model is sampled at present."""
    responses: int
    """How many there are."""

    def look_at(self, members: Indices, anchors: int) -> None:
        """Take these predictors into view, of which the first ones are anchors."""

    def renew(self, state: model_state.State, rng: np.random.Generator) -> Indices | None:
        """Draw everything but the model and g.

        Return the model of the active response, which may be another one; None if nothing has changed.
        """

    def scan(self, state: model_state.State) -> Array:
        """Return the log-likelihood ratios of all predictors in the place of those in view."""

    def note(self, room: model_state.Draws, begin: int, end: int, rng: np.random.Generator) -> None:
        """Keep what belongs to the draws between two places, which were taken since the last renewal."""

    def noted(self, room: model_state.Draws) -> "tuple[sparse.csr_array, dict[str, Array]]":
        """Return the coefficients of all draws, and the numbers that were drawn beside them; forget what was kept."""


@dataclass(frozen=True)
class Draws:
    """Draws of one chain."""

    effects: sparse.csr_array
    """(draws, responses x predictors): coefficients of standardised predictors, zero unless they are in the model."""
    beside: dict[str, Array]
    """What else was drawn, one row per draw."""
    inclusion: Array
    """(parts, responses x predictors): mean over the time of the probability of each predictor given all others."""
    length: Indices
    """Number of draws of each part."""

    def __len__(self) -> int:
        return int(self.effects.shape[0])

    def first(self, count: int) -> "Draws":
        """Return the first draws only."""
        beside = {name: values[:count] for name, values in self.beside.items()}
        return replace(self, effects=self.effects[:count], beside=beside)

    @classmethod
    def joined(cls, parts: "list[Draws]") -> "Draws":
        """Join draws of one chain."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            sparse.vstack([part.effects for part in parts], format="csr"),
            {name: np.concatenate([part.beside[name] for part in parts]) for name in parts[0].beside},
            np.concatenate([part.inclusion for part in parts]),
            np.concatenate([part.length for part in parts]),
        )


class Chain:
    """A chain that goes on where it stopped."""

    def __init__(self, regression: Regression, rng: np.random.Generator) -> None:
        self.regression, self.rng, self.steps = regression, rng, 0
        p, groups = regression.size, regression.groups
        together = p <= ALL or groups is not None
        self.in_view = p if together else ANCHORS + GUESTS
        self.scores = np.zeros(p)
        self.sums, self.times = np.zeros((regression.responses, p)), np.zeros(regression.responses)
        self.counted = 0.0
        self.state = initial_state(
            self.in_view, regression.most, len(regression.target.grid) // 2, groups.squares if groups else 0
        )
        self.where = np.full(p, -1)  # of each predictor in view its place there
        self.members = np.zeros(0, np.int64)
        self._divide(groups.order if groups else np.arange(p), p if together else ANCHORS)
        self._look(np.zeros(0, np.int64))

    def burn_in(self, steps: int) -> None:
        """Forget the start, choose anchors, and adapt how often g is drawn and the time between draws."""
        integers, reals, none = self.state.integers, self.state.reals, room_for(0, self.regression.most)
        reals[NEXT] = reals[SPACING] = np.inf
        pieces = max(4, -(-steps // ADAPT))
        scans = {int(share * pieces) for share in SCANS}
        for piece in range(pieces):
            if piece in scans:
                self.choose_anchors(self.scan())
            if piece in (0, 1, pieces // 2):  # of the rest of the burn-in
                drawn, begin, before = integers[DRAWN], reals[TIME], self.steps
            self._run(none, ADAPT)
            taken, time = self.steps - before, reals[TIME] - begin
            reals[XI] = HYPER_SHARE / (1 - HYPER_SHARE) * max(taken - (integers[DRAWN] - drawn), 1) / max(time, 1e-300)
            reals[SPACING] = time / taken

    def draw(self, count: int, thin: int, parts: int = 1) -> Draws:
        """Take draws, one for about ``thin`` steps; fewer of them if the chain has slowed down since its burn-in.

        Inclusion probabilities are averages over each of some ``parts`` of them.
        """
        if np.isinf(self.state.reals[NEXT]):
            self._space(self.state.reals[SPACING] * thin)
        ends = np.linspace(0, count, parts + 1).astype(int)
        return Draws.joined([self._draw(int(size), thin) for size in np.diff(ends)])

    def _draw(self, count: int, thin: int) -> Draws:
        room, reals = room_for(count, self.regression.most), self.state.reals
        for _ in range(ATTEMPTS):
            self.sums[:], self.times[:] = 0.0, 0.0
            self.state.inclusion[:], self.counted = 0.0, reals[TIME]
            before, begin = self.steps, reals[TIME]
            self._run(room, PATIENCE * count * thin)
            if room.taken[0]:
                break
            # The steps have become much shorter since the burn-in, which was not over then: what they showed is
            # forgotten, as all before, and draws are as far apart as these steps suggest. That is allowed here, where
            # there is no draw yet, as the distance depends on the past alone: given the present state, draws at equal
            # distances from now on are draws of the same chain. It must not change between draws that are counted
            # alike, or there would be more of them from where steps are short.
            self._space((reals[TIME] - begin) / (self.steps - before) * thin)
        else:
            self._space(0.0)
        self._count(self.regression.active, self.regression.target.members)
        inclusion = self.sums / np.maximum(self.times, 1e-300)[:, None]
        return Draws(*self.regression.noted(room), inclusion.reshape(1, -1), room.taken)

    def _space(self, apart: float) -> None:
        """Let draws be so far apart from now on, where time begins anew, so that short times have digits."""
        if not 0.0 < apart < np.inf:
            raise FloatingPointError(
                f"after {self.steps:,} steps a chain over models stays {apart:g} in a state, where a positive time was "
                "expected: rounding has taken all digits. Leave out predictors that are copies or sums of others, or, "
                "if sample_weight is large, divide it by a number"
            )
        self.state.reals[SPACING] = self.state.reals[NEXT] = apart
        self.state.reals[TIME] = 0.0

    def _run(self, room: model_state.Draws, steps: int) -> None:
        """Take steps until there are enough of them, or enough draws."""
        done, ask = 0, self.regression.ask_every or (ASK_FOR_GUESTS if len(self.others) else 0)
        while done < steps:
            before = int(room.taken[0])
            done += self.regression.moves.advance(self.regression.target, self.state, room, self.rng, steps - done, ask)
            self.regression.note(room, before, int(room.taken[0]), self.rng)
            if self.state.integers[ASKED]:
                self._renew()
            elif self.state.integers[HELD]:
                break
        self.steps += done

    def _renew(self) -> None:
        """Draw everything but the model, choose other guests, then draw g."""
        regression = self.regression
        active, members, model = regression.active, regression.target.members, None
        if regression.ask_every:
            model = regression.renew(self.state, self.rng)
        if model is None and len(self.others):
            model = self._model()
        if model is not None:
            self._count(active, members)
            self._look(model)

    def _model(self) -> Indices:
        found: Indices = self.regression.target.members[self.state.model[: self.state.integers[SIZE]]]
        return found

    def _look(self, model: Indices) -> None:
        """Take anchors, the predictors of the model and other guests into view, and draw g."""
        anchors, members = len(self.anchors), self.anchors
        self.where[self.members] = -1
        if len(self.others):
            kept = model[~self.is_anchor[model]]
            free = self.others[self.rng.choice(len(self.others), self.in_view - anchors, replace=False)]
            self.where[kept] = 0
            free = free[self.where[free] < 0][: self.in_view - anchors - len(kept)]
            members = np.concatenate([self.anchors, kept, free])
        self.regression.look_at(members, anchors)
        self.where[members] = np.arange(self.in_view)
        self.members = members
        self.regression.moves.settle(self.regression.target, self.state, self.where[model], self.rng)

    def scan(self) -> Array:
        """Return how well each predictor would do in the place of those in view, at present and before."""
        if self.in_view < self.regression.size:
            self.scores = np.maximum(0.5 * self.scores, self.regression.scan(self.state))
        return self.scores

    def choose_anchors(self, scores: Array) -> None:
        """Make anchors of the model and of the predictors with the highest scores."""
        if self.in_view == self.regression.size:
            return
        self._count(self.regression.active, self.regression.target.members)
        model = self._model()
        order = np.argsort(-scores, kind="stable")
        order = np.concatenate([model, order[~np.isin(order, model)]])
        self._divide(np.concatenate([np.sort(order[:ANCHORS]), np.sort(order[ANCHORS:])]), ANCHORS)
        self._look(model)

    def _divide(self, order: Indices, anchors: int) -> None:
        """Make anchors of the first predictors."""
        self.anchors, self.others = order[:anchors], order[anchors:]
        self.is_anchor = np.zeros(len(order), bool)
        self.is_anchor[self.anchors] = True

    def _count(self, response: int, members: NDArray[np.int64]) -> None:
        """Add up what was seen of a response's inclusion probabilities."""
        groups = self.regression.groups
        self.sums[response, members] += self.state.inclusion[groups.first] if groups else self.state.inclusion
        self.times[response] += self.state.reals[TIME] - self.counted
        self.state.inclusion[:], self.counted = 0.0, self.state.reals[TIME]


def sparse_rows(room: model_state.Draws, p: int) -> sparse.csr_array:
    """Return the coefficients of draws, (draws, predictors)."""
    taken = int(room.taken[0])
    size = room.size[:taken]
    where = np.arange(room.model.shape[1]) < size[:, None]
    pointer = np.concatenate([[0], np.cumsum(size)])
    found = sparse.csr_array((room.beta[:taken][where], room.model[:taken][where], pointer), shape=(taken, p))
    found.sort_indices()
    return found
