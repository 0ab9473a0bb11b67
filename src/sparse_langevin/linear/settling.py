"""Runs collapsed chains until all that is reported about them has settled."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from sparse_langevin.linear.collapsed import Chain, Draws, Problem
from sparse_langevin.linear.design import Array
from sparse_langevin.linear.model_state import Indices
from sparse_langevin.linear.runner import Plan
from sparse_langevin.posterior import diagnostics

THIN = 5  # steps per draw
SEGMENT = 200  # draws of each chain before the first look
UNCERTAIN = (0.05, 0.95)  # predictors with other probabilities count as constant
WATCHED_PREDICTORS = 200  # of the uncertain ones, at most
GOAL = (
    4.0  # times the target: how long sampling goes on for inclusion, so that two seeds rarely differ by more than 0.05
)
T = TypeVar("T")


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
        """Probability of each predictor."""
        found: Array = np.mean([draws.inclusion for draws in self.chains], axis=0)
        return found

    @property
    def effects(self) -> sparse.csr_array:
        """(draws, predictors): of all chains, one after the other."""
        return sparse.vstack([draws.effects for draws in self.chains], format="csr")

    def joined(self, name: str) -> Array:
        """Return a number of each draw, of all chains, one after the other."""
        return np.concatenate([getattr(draws, name) for draws in self.chains])

    def unsettled(self, plan: Plan, goal: float = 1.0) -> dict[str, Diagnosis]:
        """Return what has not reached the targets; for inclusion, ``goal`` times the effective draws."""
        least = {"inclusion": goal * plan.ess}
        return {
            name: found
            for name, found in self.diagnoses.items()
            if not (found.rhat <= plan.rhat and found.ess >= least.get(name, plan.ess))
        }


def settle(problem: Problem, plan: Plan, watched: Indices, rng: np.random.Generator, workers: int) -> Posterior:
    """Run chains until everything agrees, or for ``plan.max_steps`` steps.

    ``watched`` are the rows whose predictions are monitored. The result depends on ``rng`` alone, not on the
    number of ``workers``.
    """
    chains = [Chain(problem, generator) for generator in rng.spawn(plan.chains)]
    drawn, longest = 0, max(4, plan.max_steps // THIN)
    parts: list[list[Draws]] = [[] for _ in chains]
    with ThreadPoolExecutor(min(workers, plan.chains)) as pool, threadpool_limits(1):

        def everywhere(work: Callable[[Chain], T]) -> list[T]:
            return [job.result() for job in [pool.submit(work, chain) for chain in chains]]

        everywhere(lambda chain: chain.burn_in(plan.burn_in))
        before = [chain.steps for chain in chains]
        while True:
            count = min(max(SEGMENT, drawn), longest - drawn)  # doubles the length of the chains
            new = everywhere(partial(Chain.draw, count=count, thin=THIN))
            shortest = min(len(draws.sigma) for draws in new)
            for part, draws in zip(parts, new, strict=True):
                part.append(draws.first(shortest))
            drawn += count
            joined = [_join(part) for part in parts]
            steps = max(chain.steps - begin for chain, begin in zip(chains, before, strict=True))
            found = Posterior(joined, judge(problem, joined, watched), steps)
            if drawn >= longest or not found.unsettled(plan, GOAL):
                return found


def judge(problem: Problem, chains: list[Draws], watched: Indices) -> dict[str, Diagnosis]:
    """Return R-hat and effective draws of predictions, hyperparameters and the inclusion of uncertain predictors."""
    sizes = np.stack([np.diff(draws.effects.indptr) for draws in chains]).astype(float)
    inclusion = np.mean([draws.inclusion for draws in chains], axis=0)
    doubt = inclusion * (1 - inclusion)
    uncertain = np.flatnonzero((inclusion > UNCERTAIN[0]) & (inclusion < UNCERTAIN[1]))
    uncertain = uncertain[np.argsort(-doubt[uncertain], kind="stable")][:WATCHED_PREDICTORS]
    quantities = {
        "predictions": np.stack([problem.fitted(draws, watched) for draws in chains]),
        "sigma": np.stack([draws.sigma for draws in chains]),
        "the number of effects": sizes,
        "the size of effects": np.log(np.stack([draws.g for draws in chains])),
        "the polygenic part": np.stack([draws.h for draws in chains]).astype(float),
        "inclusion": np.stack([(draws.effects[:, uncertain] != 0).toarray().astype(float) for draws in chains]),
    }
    return {name: found for name, values in quantities.items() if (found := _diagnosis(values)) is not None}


def _diagnosis(values: Array) -> Diagnosis | None:
    """Return the worst of all components that vary; None if none does."""
    flat = values.reshape(*values.shape[:2], -1)
    varies = np.ptp(flat, axis=(0, 1)) > 0
    if not varies.any():
        return None
    rhat, ess = diagnostics.rhat(flat[:, :, varies]), diagnostics.ess(flat[:, :, varies])
    worst = float(np.max(np.where(np.isfinite(rhat), rhat, math.inf)))
    return Diagnosis(worst, float(np.min(np.where(np.isfinite(ess), ess, 0.0))))


def _join(parts: list[Draws]) -> Draws:
    """Join the draws of one chain."""
    if len(parts) == 1:
        return parts[0]
    time = sum(part.time for part in parts)
    return Draws(
        effects=sparse.vstack([part.effects for part in parts], format="csr"),
        sigma=np.concatenate([part.sigma for part in parts]),
        g=np.concatenate([part.g for part in parts]),
        h=np.concatenate([part.h for part in parts]),
        inclusion=np.sum([part.inclusion * (part.time / time) for part in parts], axis=0),
        time=time,
    )
