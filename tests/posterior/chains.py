"""Small chains to fill banks with."""

import numpy as np
import torch
from torch import nn

from sparse_langevin import Batches, GaussianLikelihood, Pruning, fit, psgld_sa

X = torch.randn(25, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] - X[:, 1:2]


def make(dtype=torch.float32, hidden=40, **options):
    """A sampler of a network of three inputs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1)).to(dtype)
    return psgld_sa(model, GaussianLikelihood(), **({"num_data": 25, "step_size": 1e-3} | options))


def run(bank, steps=40, **options):
    """Let a new chain fill the bank; also return the flat vectors at the steps it took samples of."""
    sampler, vectors = make(**options), {}

    def note(sampler, info):
        vectors[info.step] = sampler.flat.vector.double().numpy().copy()

    dtype = sampler.flat.vector.dtype
    batches = Batches(X.to(dtype), Y.to(dtype), batch_size=8)
    fit(sampler, batches, steps=steps, bank=bank, callbacks=[note])
    return sampler, vectors


def flat(sampler, sample):
    """A sample as one vector in the sampler's order."""
    return np.concatenate([sample.parameters[e.name].double().numpy().ravel() for e in sampler.flat.entries])


def pruned(end=10, target=0.7):
    return {"pruning": Pruning(target=target, end=end)}
