"""Several chains of a small model, for test_chains: alone, together, and in a process that gets killed."""

import multiprocessing
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, Pruning, fit, fit_chains, psgld_sa
from tests.processes import fork_quickly

X = torch.randn(25, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] - X[:, 1:2]


def make(chain, **options):
    """A sampler of a network whose initial weights are drawn from torch's generator."""
    model = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Dropout(0.1), nn.Linear(10, 1))
    plan = Pruning(target=0.5, end=20, every=5)
    settings = {"num_data": 25, "step_size": 1e-3, "seed": 4, "pruning": plan}
    return psgld_sa(model, GaussianLikelihood(), chain=chain, **(settings | options))


def loader(chain):
    """Batches in an order of the chain's own."""
    return Batches(X, Y, batch_size=8, seed=chain)


def alone(chain, bank, make=make, **options):
    """One chain as `fit` runs it."""
    torch.manual_seed(chain)
    sampler = make(chain)
    return sampler, fit(sampler, loader(chain), bank=bank, **options)


def content(bank):
    """What is in a bank, for comparisons."""
    return [(s.chain, s.step, s.weight, s.sigma, {n: p.tolist() for n, p in s.parameters.items()}) for s in bank]


def run_to_end(folder, steps, chains=2):
    """Run in a folder, or resume; executed in a process of its own."""
    torch.set_num_threads(2)
    # It would not find the server that it comes from; having used no threads, it can be forked itself.
    fork_quickly(SimpleNamespace(setattr=setattr), multiprocessing.get_context("fork"))
    folder = Path(folder)
    bank = PosteriorBank(thin=10, burn_in=20, folder=folder / "samples")
    fit_chains(make, loader, chains=chains, steps=steps, bank=bank, run=folder, save_every=7, evaluate_every=20)
