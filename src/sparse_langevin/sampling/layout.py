"""The state of a chain besides its weights: vectors with one number per weight, and views of them for the kernel."""

from collections.abc import Mapping

import torch
from torch import Tensor

from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.kernels import BlockState
from sparse_langevin.sampling.metrics import Metric
from sparse_langevin.sampling.priors import Prior

VELOCITY = "velocity"
TAKEN = ("beta", "keep", VELOCITY)


def make_vectors(
    flat: FlatParameters, priors: Mapping[str, Prior], metric: Metric, *, momentum: bool
) -> dict[str, Tensor]:
    """Return the vectors by name: the metric's and the velocity cover all weights, a prior's only its own blocks."""
    everywhere = list(metric.vectors) + [VELOCITY] * momentum
    vectors = {name: torch.zeros_like(flat.vector) for name in everywhere}
    for block in flat.blocks:
        prior = priors[block.name]
        for name in prior.vectors:
            if name in metric.vectors or name in TAKEN:
                raise ValueError(f"{prior!r} keeps a vector {name!r}, but that name is taken: choose another one")
            part = torch.full_like(flat.vector[block.span], prior.initial().get(name, 0.0))
            vectors[name] = torch.cat([vectors[name], part]) if name in vectors else part
    return vectors


def make_scalars(priors: Mapping[str, Prior]) -> dict[str, dict[str, float]]:
    """Return the initial scalars of each block's prior, by name."""
    return {
        block: {name: prior.initial().get(name, 0.0) for name in prior.scalars()} for block, prior in priors.items()
    }


def make_states(
    flat: FlatParameters, priors: Mapping[str, Prior], metric: Metric, vectors: Mapping[str, Tensor]
) -> list[BlockState]:
    """Return the state of each block for the kernel: views of the vectors."""
    states, begin = [], dict.fromkeys(vectors, 0)
    for block in flat.blocks:
        prior, latent = priors[block.name], []
        for name in prior.vectors:
            latent.append(vectors[name][begin[name] : begin[name] + block.size])
            begin[name] += block.size
        states.append(
            BlockState(
                prior,
                metric,
                flat.vector[block.span],
                flat.grad[block.span],
                start=block.start,
                latent=tuple(latent),
                moments=tuple(vectors[name][block.span] for name in metric.vectors),
                velocity=vectors[VELOCITY][block.span] if VELOCITY in vectors else None,
            )
        )
    return states
