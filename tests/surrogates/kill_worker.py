"""A training run that kills itself: executed in a process of its own."""

import os
import signal

import torch

from sparse_langevin.problems.darcy import DarcyData
from sparse_langevin.sampling.loop import Loop
from sparse_langevin.surrogates import Settings
from sparse_langevin.surrogates import train as train_module


def run(settings, data, folder, kill_at=None):
    """Train in ``folder``; die without warning after a step."""
    torch.set_num_threads(1)
    original = Loop._after

    def after(self, info, last):
        original(self, info, last)
        if info.step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    Loop._after = after
    train_module(Settings.from_json(settings), DarcyData(data), folder, save_every=1, progress=False)
