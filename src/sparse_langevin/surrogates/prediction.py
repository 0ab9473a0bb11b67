"""Predictions for new inputs, with the uncertainty of the posterior samples.

`predict` holds all inputs and outputs in memory; `in_pieces` takes some inputs at a time, and reads the samples once
for each piece. A piece is a multiple of what a network gets in one call, so that both give the same bits.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sparse_langevin.posterior import Prediction, Predictive, Sample
from sparse_langevin.surrogates.problem import Array, Inputs, Problem
from sparse_langevin.surrogates.runs import Pool, SurrogateRun
from sparse_langevin.surrogates.surrogate import BATCH, find_device, outputs_of

Predictor = Callable[[Array], Prediction]
PIECE = 2**24  # bytes of inputs and outputs that are in memory at a time, in double precision


def predict(
    run: SurrogateRun,
    inputs: Array,
    *,
    last: bool = False,
    quantiles: Sequence[float] = (),
    device: str | torch.device | None = None,
    progress: Callable[[int], None] = lambda done: None,
    observe: Callable[[Sample, Tensor], None] = lambda sample, output: None,
) -> Prediction:
    """Predict with all posterior samples of a run and its chains, one by one, so that memory does not grow with them.

    Parameters
    ----------
    run
        A finished run.
    inputs
        Inputs in physical units, (examples, *input_shape).
    last
        Whether to use only the finished network, the last sample of its chain.
    quantiles
        Levels in (0, 1), such as 0.05 and 0.95 for an interval of 90 %.
    device
        torch's name of the device to compute on, its default unless given. Predictions are on the CPU.
    progress
        Called with the number of samples read so far; quantiles of many inputs read all of them several times.
    observe
        Called with each sample and its outputs.
    """
    answer = predictor(run, last=last, quantiles=quantiles, device=device, progress=progress, observe=observe)
    return answer(np.asarray(inputs, dtype=float))


def predictor(
    run: SurrogateRun,
    *,
    last: bool = False,
    quantiles: Sequence[float] = (),
    device: str | torch.device | None = None,
    progress: Callable[[int], None] = lambda done: None,
    observe: Callable[[Sample, Tensor], None] = lambda sample, output: None,
) -> Predictor:
    """The function from inputs to their prediction; see `predict` for the parameters."""
    surrogate, bank = run.surrogate().to(find_device(device)), run.samples()
    total = 0 if last else len(bank)
    quantiles = list(quantiles)
    if quantiles and not total:
        raise ValueError("quantiles need posterior samples: train with --samples, and predict without --last")
    samples = _Counted(bank, progress)

    def answer(inputs: Array) -> Prediction:
        if not total:
            return Prediction(surrogate.predict(inputs))
        predictive = Predictive(
            samples,
            surrogate,
            surrogate.encode(inputs),
            transform=surrogate.decode,
            noise_scale=surrogate.codec.noise_scale.cpu(),
            batch_size=BATCH,
        )
        known = surrogate.offset(inputs)
        watch = observe if known is None else lambda sample, output: observe(sample, output + known)
        made = predictive.moments(watch)
        levels = predictive.quantiles(quantiles) if quantiles else None
        if known is not None:
            made, levels = replace(made, mean=made.mean + known), None if levels is None else levels + known
        return replace(made, quantiles=levels)

    return answer


def in_pieces(problem: Problem, inputs: Inputs, answer: Predictor) -> Iterator[tuple[Array, Prediction]]:
    """Predict some inputs at a time; yield them with their prediction, from the first to the last.

    Parameters
    ----------
    problem
        The problem that is predicted.
    inputs
        An array, or what `Problem.read_inputs` has opened.
    answer
        A `predictor`, or another function from inputs to their prediction.
    """
    for rows in slices(inputs, outputs_of(problem)):
        part = np.asarray(inputs[rows], dtype=float)
        yield part, answer(part)
        del part  # before the next one is read


def slices(inputs: Inputs, outputs: int = 0) -> list[slice]:
    """Cut inputs with so many outputs each into pieces of about `PIECE` bytes, at least one."""
    each = 8 * (math.prod(inputs.shape[1:]) + outputs)
    rows = BATCH * max(1, PIECE // (BATCH * max(1, each)))
    return [slice(i, min(i + rows, len(inputs))) for i in range(0, max(1, len(inputs)), rows)]


def arrays_of(problem: Problem, inputs: Array, made: Prediction) -> dict[str, NDArray[Any]]:
    """The arrays of a prediction by the names that they have in a file."""
    found = {problem.output_name: made.mean.numpy()} | problem.extras(inputs, made.mean.double().numpy())
    if made.std is not None:
        found |= {"std": made.std.numpy(), "total_std": made.total_std.numpy()}
    return found if made.quantiles is None else found | {"quantiles": made.quantiles.numpy()}


class _Counted:
    """A bank that tells how many of its samples have been read."""

    def __init__(self, bank: Pool, progress: Callable[[int], None]) -> None:
        self.bank, self.progress, self.done = bank, progress, 0

    def __len__(self) -> int:
        return len(self.bank)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self.bank:
            yield sample
            self.done += 1
            self.progress(self.done)
