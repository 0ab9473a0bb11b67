"""Runs chains over models until all that is reported about them has settled."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from sparse_langevin.linear.collapsed import Chain, Draws, Regression
from sparse_langevin.linear.design import Array
from sparse_langevin.linear.model_state import Indices
from sparse_langevin.linear.runner import Plan
from sparse_langevin.posterior import diagnostics
from sparse_langevin.runtime.threads import one_blas_thread

THIN = 5  # steps per draw
SEGMENT = 400  # draws of each chain before the first look
PARTS = 8  # averages of inclusion per segment, from whose spread follows their Monte Carlo error
UNCERTAIN = (0.05, 0.95)  # predictors with other probabilities count as constant
WATCHED_PREDICTORS = 200  # of the uncertain ones, at most
GOAL = 4.0  # times the target: how long sampling goes on for inclusion, so that two seeds hardly differ by 0.05
SLOWEST = 2  # times ``max_steps``: the length of a chain that has slowed down since its burn-in, at most
CAREFUL = 20_000  # steps up to which it does; beyond, the target itself is enough
NAMES = {
    "sigma": "sigma",
    "g": "the size of effects",
    "h": "the polygenic part",
}
"""What is said about the numbers that were drawn beside the coefficients."""
NOTICED = 0.005  # predictors with larger probabilities come into the view of all chains
T = TypeVar("T")
Report = Callable[[int, str], None]


class Data(Protocol):
    """What all chains share."""

    def fitted(self, draws: Draws, rows: Indices) -> Array:
        """Return the predictions for some rows under each draw, (draws, ...)."""


@dataclass(frozen=True)
class Diagnosis:
    """R-hat and the effective number of draws of a quantity, the worst if it has several components."""

    rhat: float
    ess: float


@dataclass(frozen=True)
class Posterior:
    """The draws of all chains, and whether they agree."""

    chains: list[Draws]
    diagnoses: dict[str, Diagnosis]
    steps: int
    """Steps of the longest chain after burn-in."""

    @property
    def inclusion(self) -> Array:
        """Probability of each predictor, for one response after the other."""
        return _mean_inclusion(self.chains)

    @property
    def draws(self) -> Draws:
        """The draws of all chains, one after the other."""
        return Draws.joined(self.chains)

    def unsettled(self, plan: Plan, goal: float = 1.0) -> dict[str, Diagnosis]:
        """Return what has not reached the targets; for inclusion, ``goal`` times the effective draws."""
        least = {"inclusion": goal * plan.ess}
        return {
            name: found
            for name, found in self.diagnoses.items()
            if not (found.rhat <= plan.rhat and found.ess >= least.get(name, plan.ess))
        }


def settle(
    data: Data,
    regressions: Sequence[Regression],
    plan: Plan,
    watched: Indices,
    rng: np.random.Generator,
    workers: int,
) -> Posterior:
    """Run a chain for each of ``regressions`` until everything agrees, or for ``plan.max_steps`` steps.

    ``watched`` are the rows whose predictions are monitored. The result depends on ``rng`` alone, not on the
    number of ``workers``.
    """
    return Run(regressions, rng).go_on(data, plan, watched, workers)


class Run:
    """Several chains over models with all their draws, which can go on where they stopped."""

    def __init__(self, regressions: Sequence[Regression], rng: np.random.Generator) -> None:
        generators = rng.spawn(len(regressions))
        self.chains = [Chain(regression, own) for regression, own in zip(regressions, generators, strict=True)]
        self.parts: list[list[Draws]] = [[] for _ in self.chains]
        self.drawn, self.before = 0, [0] * len(self.chains)
        self.found: Posterior | None = None

    def go_on(self, data: Data, plan: Plan, watched: Indices, workers: int, report: Report | None = None) -> Posterior:
        """Go on until everything agrees, or until the chains are ``plan.max_steps`` long from their first step on.

        ``report`` is told the steps of an average chain, burn-in included, and what has not settled yet.
        """

        def tell() -> None:
            if report is not None:
                report(self._steps(), self._doubts(plan))

        with ThreadPoolExecutor(min(workers, len(self.chains))) as pool, one_blas_thread():

            def everywhere(work: Callable[[Chain], T]) -> list[T]:
                jobs = [pool.submit(work, chain) for chain in self.chains]
                waiting = report is not None
                while waiting:
                    tell()
                    waiting = bool(wait(jobs, 0.2).not_done)
                return [job.result() for job in jobs]

            if self.found is None:
                everywhere(lambda chain: chain.burn_in(plan.burn_in))
                self.before = [chain.steps for chain in self.chains]
            while self.found is None or (self._next(plan) and self.found.unsettled(plan, self._goal())):
                scores = np.max(everywhere(Chain.scan), axis=0)
                if self.found is not None:
                    seen = self.found.inclusion.reshape(-1, len(scores)).max(0)
                    scores = np.where(seen > NOTICED, 1e3 + seen, scores)
                everywhere(partial(Chain.choose_anchors, scores=scores))
                count = self._next(plan)
                new = everywhere(partial(Chain.draw, count=count, thin=THIN, parts=min(PARTS, count)))
                self._take_in(data, watched, new, count)
        tell()
        return self.found

    def _take_in(self, data: Data, watched: Indices, new: list[Draws], count: int) -> None:
        """Add draws of all chains, and see whether they agree."""
        shortest = min(len(draws) for draws in new)
        for part, draws in zip(self.parts, new, strict=True):
            part.append(draws.first(shortest))
        self.drawn += count
        joined = [Draws.joined(part) for part in self.parts]
        self.parts = [[draws] for draws in joined]
        steps = max(chain.steps - begin for chain, begin in zip(self.chains, self.before, strict=True))
        self.found = Posterior(joined, judge(data, joined, watched), steps)

    def _next(self, plan: Plan) -> int:
        """Return how many draws to take: as many as before, or fewer if that would be too many steps."""
        longest = max(4, plan.max_steps // THIN)
        if self.found is None:
            return min(SEGMENT, longest)
        count = max(min(self.drawn, longest - self.drawn), 0)
        left = self.drawn * (SLOWEST * plan.max_steps - self.found.steps) // self.found.steps
        return count if left >= count else max(left, 0) // SEGMENT * SEGMENT

    def _goal(self) -> float:
        return GOAL if self.drawn * THIN < CAREFUL else 1.0

    def _steps(self) -> int:
        return sum(chain.steps for chain in self.chains) // len(self.chains)

    def _doubts(self, plan: Plan) -> str:
        """Say what has not settled."""
        if self.found is None:
            return "burn-in, and the first draws"
        first, *rest = [*self.found.unsettled(plan, self._goal()), ""]
        more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
        return f"not settled yet: {first}{more}" if first else "all has settled"


def judge(data: Data, chains: list[Draws], watched: Indices) -> dict[str, Diagnosis]:
    """Return R-hat and effective draws of predictions, hyperparameters and the inclusion of uncertain predictors."""
    beside = {name: np.stack([draws.beside[name] for draws in chains]) for name in chains[0].beside if name in NAMES}
    quantities = {
        "predictions": np.stack([data.fitted(draws, watched) for draws in chains]),
        "the number of effects": np.stack([np.diff(draws.effects.indptr) for draws in chains]).astype(float),
        **{NAMES[name]: np.log(values) if name == "g" else values for name, values in beside.items()},
    }
    found = {name: diagnosis for name, values in quantities.items() if (diagnosis := _diagnosis(values)) is not None}
    return found | _inclusion(chains)


def _inclusion(chains: list[Draws]) -> dict[str, Diagnosis]:
    """Return R-hat of the inclusion of uncertain predictors, and how many independent models would tell as much.

    Probabilities are averages over the time, which have smaller errors than the share of draws with the predictor: the
    spread of averages over parts of the chains tells how small.
    """
    mean = _mean_inclusion(chains)
    doubt = mean * (1 - mean)
    uncertain = np.flatnonzero((mean > UNCERTAIN[0]) & (mean < UNCERTAIN[1]))
    uncertain = uncertain[np.argsort(-doubt[uncertain], kind="stable")][:WATCHED_PREDICTORS]
    if not len(uncertain):
        return {}
    present = np.stack([(draws.effects[:, uncertain] != 0).toarray().astype(float) for draws in chains])
    of_draws = _diagnosis(present)
    batches = [_batches(draws, uncertain) for draws in chains]
    length = np.concatenate([length for length, _ in batches])
    share, excess = length / length.sum(), np.concatenate([values for _, values in batches]) - mean[uncertain]
    variance = (share**2) @ excess**2 * (len(share) / max(len(share) - 1, 1))
    ess = float(np.min(doubt[uncertain] / np.maximum(variance, 1e-300)))
    return {"inclusion": Diagnosis(of_draws.rhat if of_draws else math.inf, ess)}


def _batches(draws: Draws, predictors: Indices) -> tuple[Array, Array]:
    """Join neighbouring parts until there are about PARTS; return their lengths and averages of inclusion."""
    length = draws.length.astype(float)
    batch = ((length.cumsum() - 0.5 * length) * PARTS // length.sum()).astype(int)
    starts = np.flatnonzero(np.diff(batch, prepend=-1))
    total = np.add.reduceat(length, starts)
    return total, np.add.reduceat(length[:, None] * draws.inclusion[:, predictors], starts) / total[:, None]


def _mean_inclusion(chains: list[Draws]) -> Array:
    length = np.concatenate([draws.length for draws in chains]).astype(float)
    found: Array = (length / length.sum()) @ np.concatenate([draws.inclusion for draws in chains])
    return found


def _diagnosis(values: Array) -> Diagnosis | None:
    """Return the worst of all components that vary; None if none does."""
    flat = values.reshape(*values.shape[:2], -1)
    varies = np.ptp(flat, axis=(0, 1)) > 0
    if not varies.any():
        return None
    rhat, ess = diagnostics.rhat(flat[:, :, varies]), diagnostics.ess(flat[:, :, varies])
    worst = float(np.max(np.where(np.isfinite(rhat), rhat, math.inf)))
    return Diagnosis(worst, float(np.min(np.where(np.isfinite(ess), ess, 0.0))))
