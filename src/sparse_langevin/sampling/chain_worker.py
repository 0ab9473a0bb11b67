"""One of several chains: what it runs, in this process or in one of its own, and what comes back from there."""

import json
import logging
import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from sparse_langevin.runtime.copies import unpack
from sparse_langevin.sampling.health import ChainWarning
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.loop import Bank, progress_text
from sparse_langevin.sampling.replicas import ReplicaExchange
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.sampling.training import fit
from sparse_langevin.storage.files import write_atomically
from sparse_langevin.storage.runs import Record

TELL_EVERY = 0.3  # seconds


@dataclass(frozen=True)
class Recipe:
    """What all chains have in common."""

    make: Callable[[int], Sampler | ReplicaExchange]
    train: Iterable[Any] | Callable[[int], Iterable[Any]]
    callbacks: tuple[Callable[[Any, Info], None], ...]
    options: dict[str, Any]
    """Further arguments of `fit`."""


class Surroundings(NamedTuple):
    """Settings that a new process does not have by itself."""

    threads: int
    dtype: torch.dtype
    device: torch.device
    matmul: str
    start: str
    """How a data loader starts processes of its own; a process that was spawned would spawn them, slowly."""

    @classmethod
    def here(cls, threads: int) -> "Surroundings":
        """Those of this process, with another number of threads."""
        device, start = torch.get_default_device(), multiprocessing.get_start_method()
        return cls(threads, torch.get_default_dtype(), device, torch.get_float32_matmul_precision(), start)

    def enter(self) -> None:
        """Apply them."""
        torch.set_num_threads(self.threads)
        torch.set_default_dtype(self.dtype)
        torch.set_float32_matmul_precision(self.matmul)
        multiprocessing.set_start_method(self.start, force=True)
        if torch.get_default_device() != self.device:
            torch.set_default_device(self.device)


@dataclass(frozen=True)
class Outcome:
    """What a chain has come to."""

    history: list[Record]
    inclusion: dict[str, Tensor]
    comparable: bool
    """Whether the model has no hidden units, which could trade places between chains."""
    warnings: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write it to a file."""
        facts = {"history": self.history, "comparable": self.comparable, "warnings": self.warnings}
        write_atomically(path, save(self.inclusion, {"facts": json.dumps(facts)}))

    @classmethod
    def read(cls, path: Path) -> "Outcome":
        """Read it from a file."""
        with safe_open(path, "pt") as file:
            inclusion = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return cls(inclusion=inclusion, **json.loads(file.metadata()["facts"]))


def run_chain(
    recipe: Recipe,
    chain: int,
    bank: Bank,
    run: Path | None,
    tell: Callable[[Sampler, Info], None] | None = None,
    *,
    progress: bool | None = False,
) -> Outcome:
    """Make the sampler of a chain and run it to its end."""
    torch.manual_seed(chain)  # otherwise chains would begin with the same weights in their processes
    sampler: Any = recipe.make(chain)
    if not isinstance(sampler, Sampler | ReplicaExchange):
        raise TypeError(f"make({chain}) must return a sampler, such as psgld_sa(..., chain=chain), got {sampler!r}")
    if sampler.chain != chain:
        raise ValueError(
            f"make({chain}) returned a sampler of chain {sampler.chain}, whose noise another chain has: pass on the "
            "number, as in psgld_sa(..., chain=chain)"
        )
    train: Any = recipe.train
    loader: Iterable[Any] = train(chain) if is_function(train) else train
    told = () if tell is None else (tell,)
    history = fit(
        sampler,
        loader,
        bank=bank,
        run=run,
        callbacks=(*recipe.callbacks, *told),
        progress=progress,
        **recipe.options,
    )
    inclusion = {name: rho.cpu().contiguous() for name, rho in sampler.inclusion().items()}
    matrices = sum(len(entry.shape) > 1 for entry in sampler.flat.entries)
    return Outcome(history, inclusion, comparable=matrices <= 1)


def is_function(train: Any) -> bool:
    """Whether the loader is to be made for each chain."""
    return callable(train) and not isinstance(train, Iterable)


def work(
    recipe: bytes, chain: int, bank: Bank, run: Path | None, surroundings: Surroundings, outcome: Path, told: Path
) -> None:
    """Run a chain in a process of its own, tell in a file how far it is, and leave the outcome in another one."""
    if sys.platform != "win32":  # the parent asks to stop by SIGTERM
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    surroundings.enter()
    logging.getLogger("sparse_langevin.sampling.loop").setLevel(logging.ERROR)  # the parent says where the run stopped
    said = _collect_warnings()
    teller = _Teller(told)
    try:
        found = run_chain(unpack(recipe), chain, bank, run, teller)
    finally:
        teller.tell()
    found.warnings.extend(said)
    found.write(outcome)


def read_progress(told: Path) -> tuple[int, str]:
    """Return the steps that a chain has taken, and what to say about them."""
    try:
        steps, _, text = told.read_text().partition(" ")
        return int(steps), text
    except (OSError, ValueError):  # it has not begun, or is writing
        return 0, ""


class _Teller:
    """A callback that says in a file how far a chain is, a few times a second."""

    def __init__(self, path: Path) -> None:
        self._path, self._next = path, 0.0
        self._info: Info | None = None

    def __call__(self, sampler: Sampler, info: Info) -> None:
        self._info = info
        if (now := time.monotonic()) >= self._next:
            self._next = now + TELL_EVERY
            self.tell()

    def tell(self) -> None:
        """Say it now."""
        if self._info is not None:
            self._path.write_text(f"{self._info.step} {progress_text(self._info)}")


def _collect_warnings() -> list[str]:
    """Keep the warnings about the chain for the parent, which has the user's filters; show all others here."""
    found: list[str] = []
    show = warnings.showwarning

    def note(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
        if issubclass(category, ChainWarning):
            found.append(str(message))
        else:
            show(message, category, *rest, **named)

    warnings.showwarning = note
    return found
