"""Velocity of new permeability fields, and how sure the posterior samples are of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparse_langevin.posterior.encoding import Sample
from sparse_langevin.posterior.predictive import Predictive
from sparse_langevin.problems.darcy.network import BATCH
from sparse_langevin.surrogates.runs import Pool, SurrogateRun, find_device


@dataclass(frozen=True)
class Forecast:
    """Velocities (fields, edges) in physical units."""

    velocity: Tensor
    """Mean over the posterior samples, or the last sample's answer when none were kept."""
    std: Tensor | None = None
    """Standard deviation due to the weights; None without samples."""
    noise_std: float | None = None
    """Standard deviation of what the network cannot explain, as the chain has learned it; None without samples."""
    quantiles: Tensor | None = None
    """(levels, fields, edges) of a new velocity, if they were asked for."""
    samples: int = 0
    """Posterior samples behind it; 0 for the last one alone."""

    @property
    def total_std(self) -> Tensor:
        """Standard deviation of a new velocity around the mean."""
        if self.std is None or self.noise_std is None:
            raise ValueError("a single network has no spread: keep posterior samples, train --samples 20")
        return (self.std.square() + self.noise_std**2).sqrt()


def predict(
    run: SurrogateRun,
    kappa: Tensor,
    *,
    last: bool = False,
    quantiles: Sequence[float] = (),
    device: str | torch.device | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Forecast:
    """Predict with all posterior samples of a run and its chains, one by one: memory does not grow with them.

    Parameters
    ----------
    run
        A finished run.
    kappa
        Raw permeability (fields, ny, nx).
    last
        Only the finished network, the last sample of its chain.
    quantiles
        Levels in (0, 1), such as 0.05 and 0.95 for an interval of 90 %.
    device
        Where to compute, as torch names it; its default unless given. Answers are on the CPU.
    progress
        Called with the number of samples read so far; quantiles of many fields read all of them several times.
    """
    surrogate, bank = run.surrogate().to(find_device(device)), run.samples()
    total = 0 if last else len(bank)
    quantiles = list(quantiles)
    if quantiles and not total:
        raise ValueError("quantiles need posterior samples: train with --samples, and predict without --last")
    surrogate.check(kappa)
    if not total:
        return Forecast(surrogate.predict(kappa).cpu())
    maps = surrogate.normalisation
    predictive = Predictive(
        _Counted(bank, progress),
        surrogate,
        maps.encode_kappa(kappa.float().to(maps.kappa_mean.device)),
        transform=maps.decode_velocity,
        noise_scale=float(maps.velocity_std),
        batch_size=BATCH,
    )
    moments = predictive.moments()
    levels = predictive.quantiles(quantiles) if quantiles else None
    return Forecast(moments.mean, moments.std, float(moments.noise_std), levels, total)


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
