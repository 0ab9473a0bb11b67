"""Several chains of one run, trained in parallel processes."""

import logging
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, SIGTERM

import torch

from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.processes import Job, run_in_processes
from sparse_langevin.runtime.progress import progress_bars
from sparse_langevin.surrogates.problem import DataSet, open_data
from sparse_langevin.surrogates.runs import CHAIN, SurrogateRun, epochs_done
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.training import assemble, train

MOST = 1000  # chains of a run: a few show whether they agree


def train_chains(
    settings: Settings,
    data: DataSet,
    run: str | Path,
    chains: int,
    *,
    device: str | None = None,
    workers: int | None = None,
    save_every: int = 5,
    progress: bool | None = None,
) -> SurrogateRun:
    """Train several chains with different initial weights, data orders and noise, or resume them.

    Chain 0 is the run that `train` alone would make, in ``run`` itself; chain i is in ``run/chain-i``. A run that was
    made with fewer chains gets the missing ones.

    Parameters
    ----------
    settings, data, run
        As in `train`.
    device
        As in `train`.
    save_every
        As in `train`.
    chains
        Number of chains.
    workers
        Number of processes at a time, which share torch's threads; by default as many as there are threads.
    progress
        Whether to show a bar for each chain; by default only on a terminal.
    """
    if not 1 <= chains <= MOST:
        raise ValueError(f"chains must be a number from 1 to {MOST}, got {chains!r}")
    if not settings.bayesian or not settings.samples:
        what = f"method {settings.method}" if not settings.bayesian else "samples = 0"
        raise ValueError(f"several chains are for posterior samples, and {what} keeps none: train one chain")
    if settings.chain:
        raise ValueError(f"chains are counted from 0, so chain must be 0 here, got {settings.chain!r}")
    workers = min(chains, workers or torch.get_num_threads())
    threads = max(1, torch.get_num_threads() // workers)
    places = {f"chain {i}": Path(run) / f"{CHAIN}{i}" if i else Path(run) for i in range(chains)}
    runs = {n: SurrogateRun.at(p, replace(settings, chain=i), data) for i, (n, p) in enumerate(places.items())}
    if not all(one.finished for one in runs.values()):
        assemble(settings, data, device)
    jobs: dict[str, Job] = {}
    for name, one in runs.items():
        if one.finished:
            continue
        one.begin()
        jobs[name] = _work, (one.settings, data.folder, one.path, device, save_every, threads)
    with (
        progress_bars(list(places), settings.epochs, progress, "epoch") as advance,
        deferred_signals(SIGINT, SIGTERM) as pending,
    ):

        def show(running: list[str]) -> None:
            for name in running:
                advance(name, int(epochs_done(places[name])), name)

        run_in_processes(jobs, workers, done=lambda name: show([name]), tick=show, stop=lambda: pending() is not None)
        if (signal := pending()) is not None:
            raise Interrupted(signal, min(int(epochs_done(p)) for p in places.values()), "epoch", Path(run))
    return SurrogateRun.open(run, trust=True)


def _work(settings: Settings, data: Path, run: Path, device: str | None, save_every: int, threads: int) -> None:
    torch.set_num_threads(threads)
    logging.getLogger("sparse_langevin.sampling.loop").setLevel(logging.ERROR)  # the parent says where the run stopped
    train(settings, open_data(data), run, device=device, save_every=save_every, progress=False)
