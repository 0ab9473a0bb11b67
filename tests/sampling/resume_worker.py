"""Runs that get killed: executed in a process of their own by test_resume."""

import os
import shutil
import signal
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sparse_langevin import (
    Batches,
    GaussianLikelihood,
    PosteriorBank,
    Pruning,
    fit,
    psgld,
    psgld_sa,
    sgld,
    sgld_sa,
)
from sparse_langevin.storage import artefact, files

ALGORITHMS = {"sgld": (sgld, 1e-4), "psgld": (psgld, 1e-2), "sgld-sa": (sgld_sa, 1e-4), "psgld-sa": (psgld_sa, 1e-2)}
STEPS, SAVE_EVERY = 240, 9


def run_to_end(folder, name, *, stop_at=None, number=signal.SIGKILL, kill_at_io=None, loader="batches", budget=None):
    """Run ``name`` in ``folder``; send ourselves a signal after a step, or die at the n-th disk operation."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(50, 6)
    y = x[:, :1] - 2 * x[:, 1:2] + 0.3 * torch.randn(50, 1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    model[0].bias.requires_grad_(False)
    algorithm, step_size = ALGORITHMS[name]
    plan = Pruning(target=0.5, end=150, every=7, regrow=name == "psgld-sa")
    sampler = algorithm(model, GaussianLikelihood(), num_data=50, step_size=step_size, pruning=plan, seed=4)
    if loader == "batches":
        batches = Batches(x, y, batch_size=16, seed=5)
    else:
        batches = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)

    def stop(sampler, info):
        if info.step == stop_at:
            os.kill(os.getpid(), number)

    if kill_at_io is not None:
        kill_at_disk_operation(kill_at_io)
    folder = Path(folder)
    fit(
        sampler,
        batches,
        steps=STEPS,
        evaluate=lambda model: {"mse": float((model(x) - y).square().mean())},
        evaluate_every=20,
        callbacks=[stop],
        bank=PosteriorBank(thin=15, burn_in=60, folder=folder / "samples", budget=budget),
        run=folder,
        save_every=SAVE_EVERY,
    )


def kill_at_disk_operation(n):
    """Die at the n-th synchronisation, rename, removal or half-written file from now on."""
    left = [n]

    def tick():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(module, name, *, after=False):
        original = getattr(module, name)

        def dying(*args, **kwargs):
            tick()
            result = original(*args, **kwargs)
            if after:
                tick()
            return result

        setattr(module, name, dying)

    wrap(os, "fsync")
    wrap(os, "rename", after=True)
    wrap(os, "replace", after=True)
    wrap(os, "truncate", after=True)
    wrap(os, "unlink", after=True)
    wrap(shutil, "rmtree", after=True)
    whole = files.write_synced

    def torn(path, data):
        left[0] -= 1
        if left[0] == 0:
            path.write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(path, data)

    files.write_synced = artefact.write_synced = torn
