"""Generation that gets killed: executed in a process of its own by test_datasets."""

import os
import signal
import threading

from sparse_langevin.problems.darcy import Grid, Recipe, generate

RECIPE = Recipe("kle", 130, Grid(12, 10), {"terms": 20, "kappa_0": 3.0}, shard_size=10, seed=7)


def make(folder, workers, kill_after=None, recipe=RECIPE):
    """Make the data set; after so many seconds, kill the whole process group."""
    os.setpgid(0, 0)  # so that workers die with us, as when a machine goes down
    if kill_after is not None:
        threading.Timer(kill_after, lambda: os.killpg(0, signal.SIGKILL)).start()
    generate(recipe, folder, workers=workers)
