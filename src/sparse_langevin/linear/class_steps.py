"""Langevin chains of a logistic or softmax regression, from observations to draws."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparse_langevin.linear import logistic
from sparse_langevin.linear.base import WATCHED
from sparse_langevin.linear.gaussian import Array, Hyper
from sparse_langevin.linear.likelihood import Data
from sparse_langevin.linear.moments import Rows, Scale
from sparse_langevin.linear.runner import Chains, Plan, run


def class_chains(
    rows: Rows,
    labels: NDArray[np.intp],
    scale: Scale,
    hyper: Hyper,
    batch: int | None,
    plan: Plan,
    rng: np.random.Generator,
    workers: int,
) -> Chains:
    """Run the chains on standardised predictors; weights of rows are whole numbers, and say how often each is there."""
    weight, used = rows.weight.astype(int), scale.used
    x = rows.x.toarray() if sparse.issparse(rows.x) else rows.x.astype(float)
    x, labels = np.repeat(x, weight, axis=0), np.repeat(labels, weight)
    order = rng.permutation(len(labels))  # so that the monitored observations are a random choice
    x, labels = x[order], labels[order]
    targets = np.arange(labels.max() + 1)[:, None] == labels
    targets = (targets[1:] if len(targets) == 2 else targets).astype(float)
    z = np.ascontiguousarray((x[:, used] - scale.x_mean[used]) / scale.x_std[used])
    n = len(z)
    data = Data(z, np.ascontiguousarray(z.T), targets, n if batch is None else min(int(batch), n))
    states = [logistic.initial_state(data, hyper, rng) for _ in range(plan.chains)]
    watched = z[:: max(1, n // WATCHED)]

    def watch(draws: list[Array]) -> Array:
        """Return the scores of some observations; with several classes a common shift does not matter."""
        scores: Array = draws[0] @ watched.T + draws[1][..., None]
        return scores if scores.shape[2] == 1 else scores - scores.mean(2, keepdims=True)

    return run(logistic.advance, data, hyper, states, plan, watch, rng, workers)
