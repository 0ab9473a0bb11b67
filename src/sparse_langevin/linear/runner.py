"""Runs several chains of a linear model in parallel until their predictions agree."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from sparse_langevin.linear.gaussian import Array
from sparse_langevin.posterior import diagnostics
from sparse_langevin.runtime.threads import one_blas_thread

MEMORY = 2e8  # largest size of the draws in bytes; they are thinned accordingly
MIN_THIN = 5


class Plan(NamedTuple):
    """How many chains to run, and how long: until both targets are reached, or for ``max_steps`` steps."""

    chains: int
    burn_in: int
    max_steps: int
    rhat: float
    """Target for R-hat of the predictions."""
    ess: float
    """Target for the effective sample size of the predictions."""


class Chains(NamedTuple):
    """Draws (chains, draws, ...) of each quantity, and their diagnostics."""

    draws: list[Array]
    inclusion: Array
    rhat: float
    """Largest R-hat of the predictions."""
    ess: float
    """Smallest effective sample size of the predictions."""
    steps: int
    """Number of steps of each chain after burn-in."""


def run(
    advance: Callable[..., tuple[Any, ...]],
    data: Any,
    hyper: Any,
    states: list[Any],
    plan: Plan,
    watch: Callable[[list[Array]], Array],
    rng: np.random.Generator,
    workers: int,
) -> Chains:
    """Run one chain from each state, in threads, until what ``watch`` returns has converged.

    ``watch`` maps the draws to an array (chains, draws, ...) of predictions. A state's first array holds the
    coefficients. ``advance`` returns arrays of draws, then the mean inclusion probabilities. The random numbers depend
    on ``rng`` alone, so that the result is the same for any number of ``workers``.
    """
    thin = max(MIN_THIN, math.ceil(8 * states[0][0].size * plan.chains * plan.max_steps / MEMORY))
    segment = thin * max(4, round(500 / thin))
    parts: list[list[tuple[Any, ...]]] = []
    done, rhat, ess = 0, np.inf, 0.0
    with ThreadPoolExecutor(min(workers, plan.chains)) as pool, one_blas_thread():

        def everywhere(steps: int, burn_in: int) -> list[tuple[Any, ...]]:
            seeds = [int(seed) for seed in rng.integers(2**31, size=plan.chains)]
            jobs = [
                pool.submit(advance, data, hyper, state, steps, thin, burn_in, seed)
                for state, seed in zip(states, seeds, strict=True)
            ]
            return [job.result() for job in jobs]

        everywhere(max(plan.burn_in, thin), max(plan.burn_in, thin))
        while done < plan.max_steps and not (rhat <= plan.rhat and ess >= plan.ess):
            steps = min(max(segment, done), plan.max_steps - done)  # doubles the length of the chains
            parts.append(everywhere(max(steps, 4 * thin), 0))
            done += max(steps, 4 * thin)
            draws = _joined(parts)
            seen = watch(draws)
            rhat, ess = float(diagnostics.rhat(seen).max()), float(diagnostics.ess(seen).min())
    lengths = [len(part[0][0]) for part in parts]
    inclusion = np.average([np.mean([c[-1] for c in part], axis=0) for part in parts], axis=0, weights=lengths)
    return Chains(draws, inclusion, rhat, ess, done)


def _joined(parts: list[list[tuple[Any, ...]]]) -> list[Array]:
    """Join the segments of all chains into arrays (chains, draws, ...)."""
    chains, kinds = len(parts[0]), len(parts[0][0]) - 1
    return [np.stack([np.concatenate([part[c][i] for part in parts]) for c in range(chains)]) for i in range(kinds)]
