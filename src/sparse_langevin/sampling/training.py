"""The training loop: batches, evaluation, progress, checkpoints, signals.

`fit` runs a sampler over a loader. With a run folder (see `runs`) it saves checkpoints, and repeating the same call
continues where it stopped, bit for bit: data order, noise, latent variables, mask, history and posterior bank.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any, TypeVar

from sparse_langevin.runtime.interrupts import deferred_signals
from sparse_langevin.runtime.memory import keep_memory
from sparse_langevin.runtime.progress import progress_bar
from sparse_langevin.sampling.clock import CLOCKS, Clock
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.loop import Bank, Chain, Evaluate, Loop
from sparse_langevin.sampling.tensorboard import event_writer
from sparse_langevin.storage.files import locked
from sparse_langevin.storage.runs import Record

__all__ = ["CLOCKS", "fit"]

ChainT = TypeVar("ChainT", bound=Chain)


def fit(
    sampler: ChainT,
    train: Iterable[Any],
    *,
    steps: int | None = None,
    epochs: int | None = None,
    evaluate: Evaluate | None = None,
    evaluate_every: int | None = None,
    callbacks: Iterable[Callable[[ChainT, Info], None]] = (),
    bank: Bank | None = None,
    run: str | Path | None = None,
    save_every: int = 1000,
    progress: bool | None = None,
    profile: dict[str, float] | None = None,
    timed: bool = False,
    tensorboard: bool = False,
    control_variates: int | None = None,
) -> list[Record]:
    """Run a sampler over a loader.

    Parameters
    ----------
    sampler
        The chain to run.
    train
        The batches of one epoch: `Batches`, a torch ``DataLoader`` or a list. It is iterated once per epoch, and must
        give the same batches again under the same random state of torch; ``set_epoch`` is called if it has one.
    steps
        Length of the run in steps; give either this or ``epochs``.
    epochs
        Length of the run in passes over the loader. A resumed run ends where the uninterrupted one would have.
    evaluate
        A function of the model, called in eval mode and without gradients. It returns named numbers for the history.
    evaluate_every
        Steps between evaluations; by default one epoch, or once at the end if the loader has no length.
    callbacks
        Functions of (sampler, info), called after each step.
    bank
        The `PosteriorBank` that collects posterior samples.
    run
        Folder for checkpoints and history. The same call with the same folder resumes the run. On SIGTERM or Ctrl-C the
        step is finished, a checkpoint is saved, and `Interrupted` is raised (exit code 75).
    save_every
        Steps between checkpoints; there is always one at the end.
    progress
        Whether to show a progress bar; by default only on a terminal.
    profile
        A dictionary to which the seconds spent on data, gradient, update, evaluation, samples and checkpoints are
        added.
    timed
        Add the seconds and the CPU seconds since the beginning to each record; a resumed run continues the count.
    tensorboard
        Also write the history for TensorBoard, to ``tensorboard/`` in the run folder. This needs the extra
        ``tensorboard``.
    control_variates
        Epochs between moves of the anchor of `control_variates`, which take most of the noise out of the minibatches'
        gradients; None for none. A step then costs two gradients, and each move one pass over the data. They set in
        half way through the bank's burn-in.

    Returns
    -------
    list of dict
        The history, with one record per evaluation: step, loss, sigma, inclusion, sparsity and the numbers from
        ``evaluate``.
    """
    loop = Loop(
        sampler,
        train,
        steps=steps,
        epochs=epochs,
        evaluate=evaluate,
        evaluate_every=evaluate_every,
        callbacks=tuple(callbacks),
        bank=bank,
        run=run,
        save_every=save_every,
        control_variates=control_variates,
    )
    loop.clock = Clock() if timed else None
    keep_memory()
    # Without a run folder there is nothing to save, but Ctrl-C still lets the current step finish.
    held = (SIGTERM, SIGINT) if run is not None else (SIGINT,)
    with ExitStack() as stack:
        if loop.folder is not None:
            stack.enter_context(locked(loop.folder.path))
            loop.open(loop.folder)
            if tensorboard:
                loop.board = event_writer(loop.folder.path / "tensorboard", sampler.steps)
        elif tensorboard:
            raise ValueError("tensorboard=True needs a run folder to write to: fit(..., run=FOLDER)")
        advance = stack.enter_context(progress_bar(loop.total, progress))
        loop.go(advance, stack.enter_context(deferred_signals(*held)))
    if profile is not None:
        profile |= loop.seconds
    return loop.history
