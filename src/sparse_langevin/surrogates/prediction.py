"""Predictions for new inputs, with the uncertainty of the posterior samples."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sparse_langevin.posterior import Prediction, Predictive, Sample
from sparse_langevin.surrogates.problem import Array
from sparse_langevin.surrogates.runs import Pool, SurrogateRun
from sparse_langevin.surrogates.surrogate import BATCH, find_device


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
    inputs = np.asarray(inputs, dtype=float)
    surrogate, bank = run.surrogate().to(find_device(device)), run.samples()
    total = 0 if last else len(bank)
    quantiles = list(quantiles)
    if quantiles and not total:
        raise ValueError("quantiles need posterior samples: train with --samples, and predict without --last")
    if not total:
        return Prediction(surrogate.predict(inputs))
    predictive = Predictive(
        _Counted(bank, progress),
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
