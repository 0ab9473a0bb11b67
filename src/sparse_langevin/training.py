"""The training loop: batches, evaluation, progress, checkpoints, signals.

`fit` drives a sampler over a loader. With a run folder it saves checkpoints, and the same call made again goes
on where it stopped, bit for bit: data order, noise, latent variables, mask, history and posterior bank. A run folder
holds

    checkpoints/step-NNNNNNNNN/   the last two, see `checkpoint`
    history.jsonl                 one line per evaluation
"""

import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sparse_langevin.batches import Batches, move
from sparse_langevin.checkpoint import (
    Checkpoint,
    CheckpointError,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    step_of,
)
from sparse_langevin.interrupts import Interrupted, deferred_signals
from sparse_langevin.posterior import PosteriorBank
from sparse_langevin.progress import progress_bar
from sparse_langevin.sampler import Info, Sampler

logger = logging.getLogger(__name__)

CHECKPOINTS, HISTORY = "checkpoints", "history.jsonl"

Callback = Callable[[Sampler, Info], None]
Evaluate = Callable[[nn.Module], Mapping[str, float]]
Record = dict[str, float]


def fit(
    sampler: Sampler,
    train: Iterable[Any],
    *,
    steps: int | None = None,
    epochs: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_every: int | None = None,
    callbacks: Iterable[Callback] = (),
    bank: PosteriorBank | None = None,
    run: str | Path | None = None,
    save_every: int = 1000,
    progress: bool | None = None,
) -> list[Record]:
    """Run a sampler over a loader.

    Parameters
    ----------
    sampler
        The chain to run.
    train
        Batches, for as many epochs as needed: `Batches`, a torch ``DataLoader``, a list. It must give the same batches
        when iterated again under the same torch random state; ``set_epoch`` is called if it has one.
    steps, epochs
        How long the run is; give one of the two. A run that resumes finishes the same length.
    evaluate
        Called with the model in eval mode and without gradients; returns named numbers for the history.
    evaluate_every
        Steps between evaluations; by default once an epoch, or once at the end if an epoch has no length.
    callbacks
        Functions of (sampler, info), called after each step.
    bank
        Collects posterior samples.
    run
        Folder for checkpoints and history. The same call with the same folder resumes. With a run folder, SIGTERM and
        Ctrl-C finish the step, save, and raise `Interrupted` (exit code 75).
    save_every
        Steps between checkpoints; there is always one at the end.
    progress
        Show a progress bar; by default only on a terminal.

    Returns
    -------
    list of dict
        The history: step, loss, sigma, inclusion, sparsity and what ``evaluate`` gave, one record per evaluation.
    """
    loop = _Loop(sampler, train, steps, epochs, evaluate, evaluate_every, tuple(callbacks), bank, run, save_every)
    with progress_bar(loop.total, progress) as advance, deferred_signals(enabled=run is not None) as pending:
        loop.go(advance, pending)
    return loop.history


class _Loop:
    """One run of `fit`: where it stands, and how it goes on."""

    def __init__(
        self,
        sampler: Sampler,
        train: Iterable[Any],
        steps: int | None,
        epochs: int | None,
        evaluate: Evaluate | None,
        evaluate_every: int | None,
        callbacks: tuple[Callback, ...],
        bank: PosteriorBank | None,
        run: str | Path | None,
        save_every: int,
    ) -> None:
        self.length = _check_arguments(train, steps, epochs, evaluate_every, save_every)
        self.sampler, self.train, self.epochs = sampler, train, epochs
        self.evaluate, self.evaluate_every = evaluate, evaluate_every or self.length
        self.callbacks, self.bank, self.save_every = callbacks, bank, save_every
        self.total = epochs * self.length if epochs is not None and self.length is not None else steps
        self.begin = sampler.steps
        self.epoch = self.batch = 0  # batches taken from the current epoch
        self.epoch_rng, self.rng = torch.get_rng_state(), torch.get_rng_state()
        self.losses: list[float] = [0.0, 0]  # sum and number since the last record
        self.history: list[Record] = []
        self.saved = -1
        self.run = Path(run) if run is not None else None
        _check_pruning(sampler, self.total)
        if self.run is not None:
            self._open(self.run)

    @property
    def done(self) -> int:
        """Steps of this run taken so far."""
        return self.sampler.steps - self.begin

    def go(self, advance: Callable[[int, Info], None], pending: Callable[[], int | None]) -> None:
        """Run to the end, or until a signal asks to stop."""
        info = None
        for batch in self._stream():
            info = self.sampler.step(*batch) if isinstance(batch, tuple | list) else self.sampler.step(batch)
            self._after(info)
            advance(self.done, info)
            if self.run is not None and (number := pending()) is not None:
                self._save()
                stop = Interrupted(number, self.sampler.steps, self.run)
                logger.warning("%s", stop)
                raise stop
        if info is not None:
            self._record(info)
        self._save()

    def _stream(self) -> Iterator[Any]:
        """Batches from where the run stands to its end."""
        device = self.sampler.flat.vector.device
        while self.total is None or self.done < self.total:
            if self.total is None and self.epochs is not None and self.epoch >= self.epochs:
                return
            torch.set_rng_state(self.epoch_rng)
            for part in (self.train, getattr(self.train, "sampler", None), getattr(self.train, "batch_sampler", None)):
                if callable(set_epoch := getattr(part, "set_epoch", None)):
                    set_epoch(self.epoch)
            batches = iter(self.train)
            for _ in range(self.batch):
                next(batches)
            if self.batch:
                torch.set_rng_state(self.rng)
            for batch in batches:
                self.batch += 1
                yield move(batch, device)
                if self.total is not None and self.done >= self.total:
                    return
            if not self.batch:
                raise ValueError(
                    f"the loader gave no batches in epoch {self.epoch + 1}: it is empty, or a generator that can be "
                    "iterated only once; pass Batches(...), a DataLoader or a list"
                )
            self.epoch, self.batch, self.epoch_rng = self.epoch + 1, 0, torch.get_rng_state()

    def _after(self, info: Info) -> None:
        """What follows a step: samples, callbacks, evaluation, checkpoint."""
        self.losses[0] += info.loss
        self.losses[1] += 1
        if self.bank is not None:
            self.bank.collect(self.sampler, info)
        for callback in self.callbacks:
            callback(self.sampler, info)
        if self.evaluate_every and self.done % self.evaluate_every == 0:
            self._record(info)
        if self.done % self.save_every == 0:
            self._save()

    def _record(self, info: Info) -> None:
        """Evaluate and add a line to the history, unless this step has one."""
        if not self.losses[1]:
            return
        values = {"loss": self.losses[0] / self.losses[1], "sigma": info.sigma, "inclusion": info.inclusion}
        record: Record = {"step": info.step} | {k: v for k, v in values.items() if not math.isnan(v)}
        record["sparsity"] = info.sparsity
        if self.evaluate is not None:
            record |= {k: float(v) for k, v in _in_eval_mode(self.sampler.model, self.evaluate).items()}
        self.losses = [0.0, 0]
        self.history.append(record)
        if self.run is not None:
            with open(self.run / HISTORY, "a") as file:
                file.write(json.dumps(record) + "\n")

    def _open(self, run: Path) -> None:
        """Begin a new run in the folder, or take up the one that is there."""
        if self.bank is not None and self.bank.folder is None:
            raise ValueError("a run that can resume needs its samples on disk: PosteriorBank(folder=...)")
        saved = checkpoints(run / CHECKPOINTS)
        if saved:
            self._resume(run, load_checkpoint(saved[-1]))
            return
        history = run / HISTORY
        if (history.exists() and history.stat().st_size) or (self.bank is not None and len(self.bank)):
            raise ValueError(
                f"{run} has no checkpoint, but a history or posterior samples of another run are in the way: "
                "choose another folder or remove them"
            )
        run.mkdir(parents=True, exist_ok=True)
        history.touch()
        self._save()

    def _resume(self, run: Path, checkpoint: Checkpoint) -> None:
        meta, tensors = checkpoint.meta, dict(checkpoint.tensors)
        for name, now in self._settings().items():
            if meta["settings"].get(name) != now:
                raise CheckpointError(
                    f"the run in {run} was started with {name} = {meta['settings'].get(name)}, now it is {now}: "
                    "resume with the same settings, or choose another folder"
                )
        self.rng, self.epoch_rng = tensors.pop("rng"), tensors.pop("epoch_rng")
        self.sampler.load_state_dict(meta["sampler"] | {"tensors": tensors})
        self.begin, self.epoch, self.batch = meta["begin"], meta["epoch"], meta["batch"]
        self.losses = meta["losses"]
        self.saved = self.sampler.steps
        if self.bank is not None:
            self.bank.rewind(self.sampler.steps, meta["samples"])
        lines = (run / HISTORY).read_bytes()
        if len(lines) < meta["history_bytes"]:
            raise CheckpointError(f"{run / HISTORY} is shorter than when the checkpoint was saved: restore it")
        os.truncate(run / HISTORY, meta["history_bytes"])
        self.history = [json.loads(line) for line in lines[: meta["history_bytes"]].splitlines()]

    def _save(self) -> None:
        """Write a checkpoint of this step, unless there is one; keep the last two."""
        if self.run is None or self.saved == self.sampler.steps:
            return
        state = self.sampler.state_dict()
        tensors = state.pop("tensors") | {"rng": torch.get_rng_state(), "epoch_rng": self.epoch_rng}
        with open(self.run / HISTORY, "rb") as file:
            os.fsync(file.fileno())
            history_bytes = file.seek(0, os.SEEK_END)
        meta = {
            "settings": self._settings(),
            "sampler": state,
            "begin": self.begin,
            "epoch": self.epoch,
            "batch": self.batch,
            "losses": self.losses,
            "samples": len(self.bank) if self.bank is not None else 0,
            "history_bytes": history_bytes,
        }
        folder = self.run / CHECKPOINTS
        save_checkpoint(folder, self.sampler.steps, tensors, meta)
        self.saved = self.sampler.steps
        self._remove_old(folder)

    def _remove_old(self, folder: Path) -> None:
        """Keep the newest checkpoint and the regular one before it, whatever interruptions saved in between."""
        *older, _ = checkpoints(folder)
        regular = [p for p in older if (step_of(p) - self.begin) % self.save_every == 0]
        for path in older:
            if path not in regular[-1:]:
                shutil.rmtree(path)

    def _settings(self) -> dict[str, str]:
        loader = (
            repr(self.train) if isinstance(self.train, Batches) else f"{type(self.train).__name__} of {self.length}"
        )
        return self.sampler.settings() | {"loader": loader, "save_every": str(self.save_every)}


def _in_eval_mode(model: nn.Module, evaluate: Evaluate) -> Mapping[str, float]:
    """Call ``evaluate`` without gradients; every module then returns to the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return evaluate(model)
    finally:
        for module, training in modes:
            module.training = training


def _check_arguments(
    train: Iterable[Any], steps: int | None, epochs: int | None, evaluate_every: int | None, save_every: int
) -> int | None:
    """Insist on sensible arguments; return the number of batches in an epoch, if it is known."""
    if (steps is None) == (epochs is None):
        raise ValueError(f"give either steps or epochs, got steps={steps!r} and epochs={epochs!r}")
    for name, value in (
        ("steps", steps),
        ("epochs", epochs),
        ("evaluate_every", evaluate_every),
        ("save_every", save_every),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value!r}")
    if not isinstance(train, Iterable):
        raise TypeError(f"train must be an iterable of batches such as Batches(x, y, batch_size=64), got {train!r}")
    length = len(train) if isinstance(train, Sized) else None
    if length == 0:
        raise ValueError("the loader is empty: it has no batches")
    return length


def _check_pruning(sampler: Sampler, total: int | None) -> None:
    plan = sampler.pruning
    if plan is not None and total is not None and sampler.steps + total < plan.end:
        raise ValueError(
            f"pruning ends at step {plan.end}, but the run stops at step {sampler.steps + total}: the finished model "
            f"would miss the target of {plan.target:.0%} zeros. Use Pruning(end=...) within the run, or more steps."
        )
