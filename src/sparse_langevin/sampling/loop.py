"""One run of `fit`: its state, its steps and its checkpoints.

A checkpoint holds everything that a run needs to continue bit for bit after an interruption: the sampler's state, the
position in the data, random states, the length of the history and the number of posterior samples.
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import index
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch
from torch import nn

from sparse_langevin.runtime.interrupts import Interrupted
from sparse_langevin.sampling.batches import Batches, move
from sparse_langevin.sampling.checks import check_arguments, check_pruning
from sparse_langevin.sampling.clock import Clock
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.sampling.flat import FlatParameters
from sparse_langevin.sampling.health import warn
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.pruning import Pruning
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.storage.checkpoint import Checkpoint
from sparse_langevin.storage.runs import Record, RunFolder

logger = logging.getLogger(__name__)
WINDOW = 10  # number of steps at the beginning and at the end whose losses are compared
DIVERGED = 10.0  # a final loss of more than this many times the initial one means that the run diverged
Evaluate = Callable[[nn.Module], Mapping[str, float]]


class Chain(Protocol):
    """What `fit` needs from a `Sampler`, or from a `ReplicaExchange` or an optimiser that takes its place."""

    model: nn.Module
    flat: FlatParameters
    pruning: Pruning | None
    chain: int
    steps: int

    @property
    def target(self) -> Sampler | None:
        """The sampler whose weights are samples of the posterior; None if there are none."""

    @property
    def gradient_seconds(self) -> float:
        """Time spent on gradients."""

    def plan(self, steps: int | None, burn_in: int | None, *, anchored: bool) -> None:
        """Prepare for a run, see `Sampler.plan`."""

    def step(self, *batch: Any) -> Info:
        """Take one step on a batch."""

    def settings(self) -> dict[str, str]:
        """Return the settings that determine the run, as text."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that changes during the run: tensors under ``tensors``, and values that JSON can hold."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""


class Bank(Protocol):
    """What `fit` needs from a `PosteriorBank`."""

    burn_in: int
    thin: int
    folder: Path | None

    def collect(self, sampler: Sampler, info: Info) -> None:
        """Take a sample if one is due after this step."""

    def count(self, chain: int) -> int:
        """Return the number of samples of one chain."""

    def rewind(self, chain: int, step: int, expected: int) -> None:
        """Discard the samples of a chain that were taken after ``step``; ``expected`` samples must remain."""


class Loop:
    """One run of `fit`, whose parameters it shares."""

    def __init__(
        self,
        sampler: Chain,
        train: Iterable[Any],
        *,
        steps: int | None,
        epochs: int | None,
        evaluate: Evaluate | None,
        evaluate_every: int | None,
        callbacks: tuple[Callable[[Any, Info], None], ...],
        bank: Bank | None,
        run: str | Path | None,
        save_every: int,
        control_variates: int | None = None,
    ) -> None:
        self.length = check_arguments(train, steps, epochs, evaluate_every, save_every, control_variates)
        self.sampler, self.train, self.epochs = sampler, train, epochs
        self.evaluate, self.evaluate_every = evaluate, evaluate_every or self.length
        self.callbacks, self.bank, self.save_every = callbacks, bank, save_every
        self.total = epochs * self.length if epochs is not None and self.length is not None else steps
        self.begin, self.epoch = sampler.steps, sampler.steps // self.length if self.length else 0
        self.batch = 0  # number of batches taken from the current epoch
        self.epoch_rng, self.rng = self._random_state(), self._random_state()
        self.losses: list[float] = [0.0, 0]  # their sum and number since the last record
        self.first: list[float] = []  # the losses of the first steps, for `_check_divergence`
        self.recent: deque[float] = deque(maxlen=WINDOW)  # and those of the last steps
        self.seconds = dict.fromkeys(("data", "gradient", "update", "evaluation", "samples", "checkpoints"), 0.0)
        self.history: list[Record] = []
        self.saved = -1
        self.clock: Clock | None = None
        self.board: Callable[[Record], None] = lambda record: None
        self.folder = RunFolder(run, save_every) if run is not None else None
        if bank is not None and sampler.target is None:
            raise TypeError(f"a bank collects posterior samples, which {type(sampler).__name__} does not draw")
        check_pruning(sampler, bank, self.total)
        sampler.plan(self.total, bank.burn_in if bank is not None else None, anchored=control_variates is not None)
        self.control_variates = control_variates
        if self.folder is not None and getattr(train, "persistent_workers", False):
            raise ValueError(
                "a run cannot resume bit for bit with persistent_workers=True: create the DataLoader without it"
            )

    @property
    def done(self) -> int:
        """Number of steps of this run taken so far."""
        return self.sampler.steps - self.begin

    def go(self, advance: Callable[[int, str], None], pending: Callable[[], int | None]) -> None:
        """Run to the end, or until a signal asks to stop."""
        info, stream, end = None, self._stream(), object()
        while True:
            with self._timed("data"):
                batch = next(stream, end)
            if batch is end:
                break
            gradient = self.sampler.gradient_seconds
            with self._timed("update"):
                info = self.sampler.step(batch)
            gradient = self.sampler.gradient_seconds - gradient
            self.seconds["gradient"] += gradient
            self.seconds["update"] -= gradient
            last = self.total is not None and self.done >= self.total
            self._after(info, last)
            advance(self.done, progress_text(info))
            if (number := pending()) is not None and not last:
                if self.folder is None:
                    raise KeyboardInterrupt
                self._save()
                stop = Interrupted(number, self.sampler.steps, "step", self.folder.path)
                logger.warning("%s", stop)
                stop.told = True
                raise stop
        if info is not None and self.losses[1]:  # in epochs of unknown length the last step is not known in advance
            self._record(info)
            self.saved = -1
        self._save()
        self._check_divergence()

    def _check_divergence(self) -> None:
        """Warn if the run stayed finite but ended with a far larger loss than it began with."""
        if self.done < 2 * WINDOW or len(self.recent) < WINDOW:
            return
        begin, end = median(self.first), median(self.recent)
        if end > DIVERGED * begin:
            warn(
                f"the loss ended at {end:.3g}, {end / begin:.0f} times the {begin:.3g} of the first steps: unless the "
                "run started from trained weights, it has diverged. Use a smaller step size."
            )

    def _stream(self) -> Iterator[Any]:
        """Yield the batches from the current position to the end of the run."""
        device = self.sampler.flat.vector.device
        while self.total is None or self.done < self.total:
            if self.total is None and self.epochs is not None and self.epoch >= self.epochs:
                return
            self._begin_epoch()
            self._move_anchor()
            batches = iter(self.train)
            for _ in range(self.batch):
                next(batches)
            if self.batch:
                self._set_random_state(self.rng)
            for batch in batches:
                self.batch += 1
                yield move(batch, device)
                if self.total is not None and self.done >= self.total:
                    return
            if not self.batch:
                raise ValueError(
                    f"the loader gave no batches in epoch {self.epoch + 1}: it is empty, or it is a generator, which "
                    "can be iterated only once. Pass Batches(...), a DataLoader or a list."
                )
            self.epoch, self.batch, self.epoch_rng = self.epoch + 1, 0, self._random_state()

    def _move_anchor(self) -> None:
        """At the beginning of an epoch, move the anchor of the control variates if it is due."""
        every, burn_in = self.control_variates, self.bank.burn_in if self.bank is not None else 0
        sampler = self.sampler.target
        if every is None or self.batch or sampler is None or 2 * sampler.steps < burn_in:
            return
        if sampler.anchor is not None and (self.epoch % every == 0 or not sampler.anchor.known):
            device = sampler.flat.vector.device
            with self._timed("gradient"):
                sampler.anchor.move((move(batch, device) for batch in self.train), sampler.sigma)
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Let the loader, and the random numbers that it may use, begin the current epoch."""
        self._set_random_state(self.epoch_rng)
        for part in (self.train, getattr(self.train, "sampler", None), getattr(self.train, "batch_sampler", None)):
            if callable(set_epoch := getattr(part, "set_epoch", None)):
                set_epoch(self.epoch)

    def _random_state(self) -> dict[str, torch.Tensor]:
        """Return the state of torch's random generator, and of the loader's own generator if it has one."""
        generator = getattr(self.train, "generator", None)
        own = {"loader_rng": generator.get_state()} if isinstance(generator, torch.Generator) else {}
        return {"rng": torch.get_rng_state()} | own

    def _set_random_state(self, state: Mapping[str, torch.Tensor]) -> None:
        torch.set_rng_state(state["rng"])
        if "loader_rng" in state:
            self.train.generator.set_state(state["loader_rng"])  # type: ignore[attr-defined]

    def _after(self, info: Info, last: bool) -> None:
        """Do what is due after a step: samples, callbacks, evaluation, checkpoint."""
        self.losses[0] += info.loss
        self.losses[1] += 1
        self.recent.append(info.loss)
        if len(self.first) < WINDOW:
            self.first.append(info.loss)
        if self.bank is not None and (sampler := self.sampler.target) is not None:
            with self._timed("samples"):
                self.bank.collect(sampler, info)
        for callback in self.callbacks:
            callback(self.sampler, info)
        if last or (self.evaluate_every and self.done % self.evaluate_every == 0):
            self._record(info)
        if self.done % self.save_every == 0:
            self._save()

    def _record(self, info: Info) -> None:
        """Evaluate the model and add a record to the history."""
        values = {"loss": self.losses[0] / self.losses[1], "sigma": info.sigma, "inclusion": info.inclusion}
        record: Record = {"step": info.step} | {k: v for k, v in values.items() if not math.isnan(v)}
        record["sparsity"] = info.sparsity
        if self.evaluate is not None:
            record |= self._evaluated(self.evaluate, taken=set(record))
        if self.clock is not None:
            record |= self.clock.read()
        self.losses = [0.0, 0]
        self.history.append(record)
        if self.folder is not None:
            self.folder.append(record)
        self.board(record)

    def _evaluated(self, evaluate: Evaluate, taken: set[str]) -> Record:
        with self._timed("evaluation"), evaluating(self.sampler.model):
            values = evaluate(self.sampler.model)
        if not isinstance(values, Mapping) or taken & values.keys():
            raise TypeError(
                "evaluate must return a dictionary of numbers whose names differ from "
                f"{', '.join(sorted(taken))}; got {values!r}"
            )
        return {name: float(value) for name, value in values.items()}

    def open(self, folder: RunFolder) -> None:
        """Begin a new run in the folder, or resume the one that is there."""
        if self.bank is not None and self.bank.folder is None:
            raise ValueError("a run that can resume needs its samples on disk: use PosteriorBank(folder=...)")
        checkpoint = folder.latest(self._settings())
        if checkpoint is not None:
            with checkpoint.understood():
                self._resume(folder, checkpoint)
        elif self.bank is not None and self.bank.count(self.sampler.chain):
            raise ValueError(
                f"samples of another run, of chain {self.sampler.chain}, are in the way in {self.bank.folder}: choose "
                "another folder, or give the sampler a number of its own, such as chain=1"
            )
        else:
            self._save()

    def _resume(self, folder: RunFolder, checkpoint: Checkpoint) -> None:
        meta, tensors = checkpoint.meta, dict(checkpoint.tensors)
        names = self._random_state().keys()
        self.rng = {name: tensors.pop(name) for name in names}
        self.epoch_rng = {name: tensors.pop(f"epoch_{name}") for name in names}
        self.sampler.load_state_dict(meta["sampler"] | {"tensors": tensors})
        self.begin, self.epoch, self.batch = (index(meta[name]) for name in ("begin", "epoch", "batch"))
        total, count = meta["losses"]
        self.losses, self.saved = [float(total), index(count)], self.sampler.steps
        self.first, self.recent = [float(loss) for loss in meta["first"]], deque(map(float, meta["recent"]), WINDOW)
        if self.clock is not None:
            self.clock.before = {name: float(seconds) for name, seconds in meta.get("clock", {}).items()}
        if self.bank is not None:
            self.bank.rewind(self.sampler.chain, self.sampler.steps, meta["samples"])
        self.history = folder.cut_history(checkpoint)

    def _save(self) -> None:
        """Write a checkpoint of this step, unless there is one already."""
        if self.folder is None or self.saved == self.sampler.steps:
            return
        state = self.sampler.state_dict()
        tensors = state.pop("tensors") | self._random_state()
        tensors |= {f"epoch_{name}": value for name, value in self.epoch_rng.items()}
        meta = {
            "settings": self._settings(),
            "sampler": state,
            "epoch": self.epoch,
            "batch": self.batch,
            "losses": self.losses,
            "first": self.first,
            "recent": list(self.recent),
            "samples": self.bank.count(self.sampler.chain) if self.bank is not None else 0,
        }
        if self.clock is not None:
            meta["clock"] = self.clock.read()
        with self._timed("checkpoints"):
            self.folder.save(self.sampler.steps, self.begin, tensors, meta)
        self.saved = self.sampler.steps

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[name] += time.perf_counter() - begin

    def _settings(self) -> dict[str, str]:
        train = self.train
        loader = repr(train) if isinstance(train, Batches) else f"{type(train).__name__} of {self.length}"
        anchored = {} if self.control_variates is None else {"control_variates": str(self.control_variates)}
        return self.sampler.settings() | {"loader": loader, "bank": repr(self.bank)} | anchored


def progress_text(info: Info) -> str:
    """Return the text for the progress bar."""
    sigma = "" if math.isnan(info.sigma) else f"  sigma {info.sigma:.3g}"
    return f"loss {info.loss:.4g}{sigma}  sparsity {info.sparsity:.0%}"
