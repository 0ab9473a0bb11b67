"""Several chains of one model, in processes of their own, with one bank.

A single chain cannot tell whether it has seen the whole posterior, nor whether its inclusion probabilities depend on
where it began. `fit_chains` runs several from different initial weights, pools their samples and compares them.

While they run, each chain has a bank of its own, ``samples`` in its folder, since a bank belongs to one process. At the
end their files are put into the common bank.
"""

import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from sparse_langevin.runtime.copies import pack
from sparse_langevin.runtime.interrupts import Interrupted, deferred_signals
from sparse_langevin.runtime.processes import Job, run_in_processes
from sparse_langevin.runtime.progress import progress_bars
from sparse_langevin.sampling.agreement import InclusionAgreement
from sparse_langevin.sampling.chain_worker import (
    Outcome,
    Recipe,
    Surroundings,
    is_function,
    read_progress,
    run_chain,
    work,
)
from sparse_langevin.sampling.checks import as_count, check_arguments
from sparse_langevin.sampling.health import warn
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.loop import Bank, Evaluate
from sparse_langevin.sampling.replicas import ReplicaExchange
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.storage.files import TEMPORARY, locked
from sparse_langevin.storage.runs import Record

__all__ = ["Chains", "fit_chains"]

logger = logging.getLogger(__name__)
MOST = 2**10  # chains


class SharedBank(Bank, Protocol):
    """What `fit_chains` needs from a `PosteriorBank`."""

    def part(self, chain: int, folder: Path, chains: int) -> Self:
        """Return a bank in another folder for one of several chains."""

    def join(self, parts: Sequence[Self]) -> None:
        """Take in the samples of such banks."""


BankT = TypeVar("BankT", bound=SharedBank)


@dataclass(frozen=True)
class Chains(Generic[BankT]):
    """Several chains that have come to their end."""

    bank: BankT
    """The bank, with the samples of all chains."""
    histories: list[list[Record]]
    """The history of each chain."""
    inclusions: list[dict[str, Tensor]]
    """The inclusion probabilities rho at the end of each chain, by layer."""
    agreement: InclusionAgreement | None
    """How far the chains are apart in rho; None if there is one chain, or a prior without rho."""

    def inclusion(self) -> dict[str, Tensor]:
        """Return the inclusion probabilities of each layer, averaged over the chains."""
        return {layer: torch.stack([rho[layer] for rho in self.inclusions]).mean(0) for layer in self.inclusions[0]}


def fit_chains(
    make: Callable[[int], Sampler | ReplicaExchange],
    train: Iterable[Any] | Callable[[int], Iterable[Any]],
    *,
    bank: BankT,
    chains: int = 4,
    steps: int | None = None,
    epochs: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_every: int | None = None,
    callbacks: Iterable[Callable[[Any, Info], None]] = (),
    run: str | Path | None = None,
    save_every: int = 1000,
    workers: int | None = None,
    progress: bool | None = None,
    timed: bool = False,
    tensorboard: bool = False,
    control_variates: int | None = None,
) -> Chains[BankT]:
    """Run several chains at a time, each in a process of its own, and pool their samples.

    Chain i has the samples, bit for bit, of ``torch.manual_seed(i); fit(make(i), train, ...)`` on as many threads.

    Parameters
    ----------
    make
        A function of the chain's number, 0, 1, ..., that returns its sampler: a new model with initial weights of its
        own, and ``chain=`` with that number; or a `ReplicaExchange` of such samplers. It is called in the chain's
        process, after ``torch.manual_seed(chain)``.
    train
        The batches of one epoch, as in `fit`, or a function of the chain's number that returns them. All functions and
        the data that they refer to are copied into each process; large data are better opened by such a function.
    bank
        The `PosteriorBank` for the samples of all chains. It gets them at the end. If it has a budget, each chain gets
        an equal part, and all chains are thinned alike.
    chains
        Number of chains.
    steps
        Length of each chain in steps; give either this or ``epochs``.
    epochs
        Length of each chain in passes over the loader.
    evaluate
        As in `fit`, for each chain.
    evaluate_every
        As in `fit`.
    callbacks
        As in `fit`; they are called in the chain's process.
    run
        Folder for checkpoints and histories, those of chain i in ``chain-i``. The same call with the same folder
        resumes all chains; a larger number of chains adds the missing ones.
    save_every
        Steps between checkpoints.
    workers
        Number of processes at a time, which share torch's threads; by default one for each thread. 0 runs the chains
        one after the other in this process.
    progress
        Whether to show a bar for each chain; by default only on a terminal.
    timed
        As in `fit`.
    tensorboard
        As in `fit`.
    control_variates
        As in `fit`.

    Returns
    -------
    Chains
        The bank, the history and inclusion probabilities of each chain, and whether the chains agree about them: a
        `ChainWarning` says if they do not.
    """
    chains = as_count(chains, "chains", low=1, high=MOST)
    loader: Any = [None] if is_function(train) else train
    length = check_arguments(loader, steps, epochs, evaluate_every, save_every, control_variates)
    if workers is not None:
        workers = as_count(workers, "workers")
    if tensorboard and run is None:
        raise ValueError("tensorboard=True needs a run folder to write to: fit_chains(..., run=FOLDER)")
    options = {"steps": steps, "epochs": epochs, "evaluate": evaluate, "evaluate_every": evaluate_every}
    options |= {"save_every": save_every, "timed": timed, "tensorboard": tensorboard}
    options |= {"control_variates": control_variates}
    recipe = Recipe(make, train, tuple(callbacks), options)
    total = steps if epochs is None or length is None or is_function(train) else epochs * length
    folder = Path(run) if run is not None else None
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder))
        near = bank.folder if folder is None else None  # on the same disk, files need not be copied
        if near is not None:
            near.mkdir(parents=True, exist_ok=True)
        desk = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=near)))
        places = [(folder or desk) / f"chain-{i}" for i in range(chains)]
        parts = [bank.part(i, place / "samples", chains) for i, place in enumerate(places)]
        runs = places if folder is not None else [None] * chains
        if workers == 0:
            outcomes = _one_by_one(recipe, parts, runs, progress)
        else:
            outcomes = _Company(recipe, desk, total, progress).run(parts, runs, workers)
        bank.join(parts)
    rho = [outcome.inclusion for outcome in outcomes]
    agreement = InclusionAgreement.of(rho, comparable=outcomes[0].comparable)
    result = Chains(bank, [outcome.history for outcome in outcomes], rho, agreement)
    _pass_on_warnings(outcomes)
    if agreement is not None and (message := agreement.warning()) is not None:
        warn(message)
    return result


def _one_by_one(
    recipe: Recipe, parts: Sequence[Bank], runs: Sequence[Path | None], progress: bool | None
) -> list[Outcome]:
    """Run the chains in this process."""
    outcomes = []
    for chain, (part, run) in enumerate(zip(parts, runs, strict=True)):
        with torch.random.fork_rng(devices=[]):
            try:
                outcomes.append(run_chain(recipe, chain, part, run, progress=progress))
            except Exception as error:
                raise ValueError(f"chain {chain} failed: {type(error).__name__}: {error}") from error
    return outcomes


class _Company:
    """Chains in processes of their own, whose outcomes are left on a desk, a folder for the time that they run."""

    def __init__(self, recipe: Recipe, desk: Path, total: int | None, progress: bool | None) -> None:
        self.recipe = pack(recipe, "make, train, evaluate and callbacks")
        self.desk, self.total, self.progress = desk, total, progress

    def run(self, parts: Sequence[Bank], runs: Sequence[Path | None], workers: int | None) -> list[Outcome]:
        """Run all chains to their end; on a signal, let them save and raise."""
        chains = range(len(parts))
        workers = min(len(chains), workers or torch.get_num_threads())
        around = Surroundings.here(max(1, torch.get_num_threads() // workers))
        outcomes, told = ([self.desk / f"{kind}-{i}" for i in chains] for kind in ("outcome", "told"))
        jobs: dict[str, Job] = {
            f"chain {i}": (work, (self.recipe, i, parts[i], runs[i], around, outcomes[i], told[i])) for i in chains
        }
        resumable = runs[0] is not None
        # Without a run folder there is nothing to save, and a chain's failure is that of all.
        held = (SIGTERM, SIGINT) if resumable else (SIGINT,)
        with progress_bars(list(jobs), self.total, self.progress) as advance, deferred_signals(*held) as pending:

            def show(names: Iterable[str]) -> None:
                for name in names:
                    steps, text = read_progress(told[int(name.removeprefix("chain "))])
                    advance(name, steps, f"{name}  {text}")

            run_in_processes(
                jobs,
                workers,
                done=lambda name: show([name]),
                tick=show,
                stop=lambda: pending() is not None,
                patient=resumable,
                script=False,
                nested=True,
            )
            if (number := pending()) is not None and not all(path.exists() for path in outcomes):
                if runs[0] is None:
                    raise KeyboardInterrupt
                stop = Interrupted(number, min(read_progress(path)[0] for path in told), "step", runs[0].parent)
                logger.warning("%s", stop)
                stop.told = True
                raise stop
        return [Outcome.read(path) for path in outcomes]


def _pass_on_warnings(outcomes: Sequence[Outcome]) -> None:
    """Give the warnings of all chains, each once."""
    told: dict[str, list[int]] = {}
    for chain, outcome in enumerate(outcomes):
        for message in outcome.warnings:
            told.setdefault(message, []).append(chain)
    for message, those in told.items():
        # At the end, as filters go by how a message begins.
        warn(f"{message} (chain{'s' * (len(those) > 1)} {', '.join(map(str, those))})")
