"""Memory: it does not grow with the steps of a chain, nor with the number of inputs that are predicted.

Resident memory of a chain of 20,000 steps is compared at step 2,000 and at the end; the memory that `predict` takes in
addition to what the command begins with is compared for 500 and 5,000 permeability fields of 50 by 50 cells.
"""

import os
import shutil
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np

from tests.campaign.command import run
from tests.campaign.ground import DARCY, TINY
from tests.campaign.trials import Trial, require
from tests.processes import processes

PART = "memory"
STEPS, SETTLED, GROWTH = 20_000, 2_000, 5.0  # megabytes
FEW, MANY, MORE = 500, 5_000, 300.0  # megabytes
LIMIT = 600.0  # seconds
CHAINS = {  # method, and whether the run keeps everything that a run can keep
    "sgld": ("sgld", False),
    "psgld-sa": ("psgld_sa", False),
    "psgld-sa in a folder, with samples and evaluations": ("psgld_sa", True),
}
PREDICTIONS = {
    "all samples of a run, from .npy": ("run", "kappa.npy", ()),
    "quantiles, from .npy": ("run", "kappa.npy", ("--quantiles", 0.05, "--quantiles", 0.95)),
    "recalibrated, from HDF5": ("run", "kappa.h5", ("--recalibrated",)),
    "the last sample, from .npz": ("run", "kappa.npz", ("--last",)),
    "an exported model, from HDF5": ("small", "kappa.h5", ()),
}


def trials(random):
    """All of them; nothing is drawn."""
    chains = [Trial(f"{STEPS} steps of {name}", "steps of a chain", ("chain", name)) for name in CHAINS]
    return chains + [Trial(f"predict: {name}", "inputs of predict", ("predict", name)) for name in PREDICTIONS]


def attempt(ground, scratch, trial):
    """Measure, and compare."""
    kind, name = trial.facts
    if kind == "chain":
        at, end = _chain(*CHAINS[name], scratch)
        require(end - at < GROWTH, f"{at:.1f} MB at step {SETTLED}, {end:.1f} MB at step {STEPS}")
        return f"grew by less than {GROWTH:g} MB"
    folder, (model, inputs, options) = _surrogate(ground.folder), PREDICTIONS[name]
    grown = {}
    for count in (FEW, MANY):
        words = ("predict", folder / model, "--input", folder / str(count) / inputs, "--out", f"{count}.npz", *options)
        outcome = run(words, scratch, limit=LIMIT)
        require(outcome.code == 0, f"exit code {outcome.code} for {count} fields: {outcome.err[-600:]}")
        grown[count] = outcome.grown
        (scratch / f"{count}.npz").unlink()
    require(grown[MANY] - grown[FEW] < MORE, f"it took {grown[FEW]:.0f} MB for {FEW} and {grown[MANY]:.0f} for {MANY}")
    return f"less than {MORE:g} MB more"


def _chain(method, everything, scratch):
    """Resident megabytes at both steps, of a process of its own."""
    there, here = processes.Pipe()
    process = processes.Process(target=_run_chain, args=(method, scratch if everything else None, here))
    process.start()
    here.close()
    try:
        return there.recv() if there.poll(LIMIT) else require(False, f"it did not end within {LIMIT:g} s")
    except EOFError:
        require(False, "it died")
    finally:
        process.kill()
        process.join()


def _run_chain(method, folder, answer):
    """Run a chain; executed in the new process."""
    import torch

    import sparse_langevin as library

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a bank says when it drops samples
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    x = torch.randn(64, 3)
    likelihood = library.GaussianLikelihood()
    sampler = getattr(library, method)(model, likelihood, num_data=len(x), step_size=1e-4)
    seen = []

    def watch(sampler, info):
        if info.step in (SETTLED, STEPS):
            seen.append(_resident())

    keeping = {}
    if folder is not None:
        bank = library.PosteriorBank(thin=10, folder=folder / "samples", budget=100_000)
        keeping = {"bank": bank, "run": folder / "run", "save_every": 500, "evaluate_every": 100, "timed": True}
        keeping["evaluate"] = lambda model: {"size": float(model(x).abs().mean())}
    batches = library.Batches(x, x[:, :1], batch_size=16)
    library.fit(sampler, batches, steps=STEPS, callbacks=[watch], progress=False, **keeping)
    answer.send(tuple(seen))


def _resident():
    """Megabytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


_making = Lock()


def _surrogate(ground):
    """A folder with a run on fields of 50 by 50 cells, its export, and fields in files of each kind."""
    with _making:
        return _make_surrogate(ground)


@lru_cache(maxsize=1)
def _make_surrogate(ground):
    folder = ground.with_name("large")
    shutil.rmtree(folder, ignore_errors=True)  # what a failure left
    commands = (
        ("generate", "kle", "--out", "data", "--samples", 30, "--terms", 4),
        ("train", "--data", "data", "--run", "run", "--epochs", 4, *DARCY, *TINY),
        ("export", "run", "--out", "small"),
    )
    for words in commands:
        outcome = run(words, folder)
        assert outcome.code == 0, (words, outcome)
    for count in (FEW, MANY):
        _write_fields(folder / str(count), count)
    return folder


def _write_fields(folder, count):
    import h5py

    folder.mkdir()
    kappa = np.exp(np.random.default_rng(count).standard_normal((count, 50, 50)) / 3)
    np.save(folder / "kappa.npy", kappa)
    np.savez(folder / "kappa.npz", kappa=kappa)
    with h5py.File(folder / "kappa.h5", "w") as file:
        file["kappa"] = kappa
