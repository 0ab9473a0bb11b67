"""The race: seconds until inclusion probabilities and predictions are as sure as from 400 independent draws.

n = 100, and 200, 1000 and 4000 predictors: correlated as in the paper's tests, here with ten normal effects, so that
some are uncertain; and spectra, where nearly all are. All run on one core, in turns: 4 chains, one after the other, of
the default sampler as the regressor runs it, of a compiled Gibbs sampler of the same posterior (`one_by_one`), and of
millipede (`millipede_peer`, another posterior). Seconds are those of the processor, which others who use the machine
disturb less.
Warm-up and compilation do not count. What each contender reports of a predictor is its mean probability given all
others, weighted as it is meant to be; with its Monte Carlo error e, from averages over parts of the chains,

    effective draws of a predictor = P (1 - P)/e^2,     of a prediction = posterior variance/e^2,

and the cost is 400 seconds/(effective draws) of a run. Predictors with 0.05 < P < 0.95 count, by the contender's own
probabilities of all rounds, and at least those ten whose probability is nearest to 1/2 (where many channels of a
spectrum stand for one effect, none has more than 0.05). The mean of their costs is given, and the largest one.

``python -m benchmarks.race [--sizes 200 1000] [--rounds 3]`` prints the race alone.
"""

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import millipede_peer, peers
from benchmarks.interleaved import Record, record
from benchmarks.one_by_one import Gibbs
from sparse_langevin.linear import normal
from sparse_langevin.linear.base import BURN_IN
from sparse_langevin.linear.collapsed import Chain, Draws
from sparse_langevin.linear.moments import observed
from sparse_langevin.linear.polygenic import Background
from sparse_langevin.linear.settling import THIN, UNCERTAIN
from sparse_langevin.linear.simulated import autoregressive, spectra
from sparse_langevin.posterior import diagnostics

TARGET, CHAINS, ROWS, WATCHED = 400.0, 4, 100, 12
FEWEST = 10  # predictors that are judged at least
BATCHES = 25  # parts of each chain, from whose averages Monte Carlo errors follow
OURS, GIBBS, MILLIPEDE = "ours", "Gibbs, one predictor after the other, compiled", "millipede"
SIZES = (200, 1000, 4000)
QUANTITIES = ("worst inclusion", "mean inclusion", "worst prediction", "mean prediction")


class Lengths(NamedTuple):
    """Warm-up, and draws of each chain: of ours (``THIN`` steps each), sweeps of Gibbs, steps of millipede."""

    ours: tuple[int, int] = (BURN_IN, 3000)
    gibbs: tuple[int, int] = (200, 2000)
    millipede: tuple[int, int] = (1000, 2000)
    rounds: int = 3


LONG = Lengths(gibbs=(100, 500))  # with many predictors, where sweeps take long
MANY = 1000
QUICK = Lengths((100, 100), (20, 100), (20, 50), 1)


class Entry(NamedTuple):
    """A run: seconds of warm-up and of sampling, and averages of its batches, (chains, batches, ...)."""

    warm_up: float
    seconds: float
    weight: np.ndarray
    inclusion: np.ndarray
    mean: np.ndarray
    square: np.ndarray

    @property
    def probability(self) -> np.ndarray:
        """Inclusion probability of each predictor."""
        return np.tensordot(self.weight, self.inclusion, 2) / self.weight.sum()

    def costs(self, uncertain: np.ndarray) -> tuple[float, ...]:
        """Seconds to the target for each of the ``QUANTITIES``."""
        chance = self.probability[uncertain]
        mean, square = (np.tensordot(self.weight, values, 2) / self.weight.sum() for values in (self.mean, self.square))
        pairs = ((self.inclusion[:, :, uncertain], chance * (1 - chance)), (self.mean, square - mean**2))
        found = []
        for values, variance in pairs:
            cost = TARGET * self.seconds * diagnostics.mcse(values, self.weight) ** 2 / np.maximum(variance, 1e-12)
            found += [float(cost.max()), float(cost.mean())]
        return tuple(found)


def correlated(p: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictors in a row with correlation 0.6 of neighbours."""
    data = autoregressive(n=ROWS, p=p, rho=0.6, effects=10, seed=[1, p])
    return data.x, data.y


def of_spectra(p: int) -> tuple[np.ndarray, np.ndarray]:
    """Spectra with p channels."""
    data = spectra(n=ROWS, p=p, seed=[1, p])
    return data.x, data.y


FAMILIES: dict[str, Callable[[int], tuple[np.ndarray, np.ndarray]]] = {
    "correlated predictors": correlated,
    "spectra": of_spectra,
}


def records(quick: bool = False) -> list[Record]:
    """All contenders on all data sets."""
    sizes = (120,) if quick else SIZES
    with threadpool_limits(1):
        return [row for name in FAMILIES for p in sizes for row in race(name, p, QUICK if quick else lengths(p), quick)]


def lengths(p: int) -> Lengths:
    """Return how long everybody runs with so many predictors."""
    return LONG if p > MANY else Lengths()


def race(family: str, p: int, long: Lengths, quick: bool = False) -> list[Record]:
    """Return the records of one data set."""
    x, y = FAMILIES[family](p)
    problem = problem_of(x, y)
    rows = np.arange(0, ROWS, ROWS // WATCHED)[:WATCHED]
    contenders = {
        OURS: lambda seed: ours(problem, rows, long.ours, seed),
        GIBBS: lambda seed: one_by_one(problem, rows, long.gibbs, seed),
    }
    if not quick and peers.find("millipede"):
        z = problem.design.columns(np.arange(problem.design.size))
        contenders[MILLIPEDE] = lambda seed: millipede(z, problem.y, rows, long.millipede, seed)
    if not quick:  # compiles
        ours(problem, rows, QUICK.ours, 0)
        one_by_one(problem, rows, QUICK.gibbs, 0)
    entries: dict[str, list[Entry]] = {name: [] for name in contenders}
    for seed in range(1, long.rounds + 1):
        for name, contender in contenders.items():
            entries[name].append(contender(seed))
    describe(f"{family}, p={p}", entries)
    return compared(f"{family}, n={ROWS}, p={p:,}", entries)


def judged(rounds: list[Entry]) -> np.ndarray:
    """Return the uncertain predictors."""
    chance = np.mean([entry.probability for entry in rounds], 0)
    count = ((chance > UNCERTAIN[0]) & (chance < UNCERTAIN[1])).sum()
    return np.argsort(np.abs(chance - 0.5), kind="stable")[: max(count, FEWEST)]


def describe(title: str, entries: dict[str, list[Entry]]) -> None:
    """Print what a reader needs in order to trust the race: whether the posteriors agree, and what warming up costs."""
    chance = {name: np.mean([entry.probability for entry in rounds], 0) for name, rounds in entries.items()}
    for name, rounds in entries.items():
        apart = np.abs(chance[name] - chance[OURS]).max()
        print(
            f"{title}: {name}: {len(judged(rounds))} uncertain predictors, probabilities within {apart:.3f} of ours; "
            f"warm-up {np.median([entry.warm_up for entry in rounds]):.2f} s, "
            f"run {np.median([entry.seconds for entry in rounds]):.2f} s",
            flush=True,
        )


def compared(data: str, entries: dict[str, list[Entry]]) -> list[Record]:
    """Return one record for each quantity and contender."""
    costs = {name: np.array([e.costs(judged(rounds)) for e in rounds]) for name, rounds in entries.items()}
    return [
        record(
            f"seconds to {TARGET:.0f} effective draws, {data}: {quantity}, {name}",
            values[:, i].tolist(),
            OURS,
            costs[OURS][:, i].tolist(),
            unit="s",
        )
        for i, quantity in enumerate(QUANTITIES)
        for name, values in costs.items()
    ]


def problem_of(x: np.ndarray, y: np.ndarray) -> normal.Problem:
    """Return the posterior that the regressor samples by default."""
    design, target, rest, scale = observed(x, y).design()
    return normal.Problem(design, target, rest, float(scale.size), background=Background.of(design, target, scale.size))


def ours(problem: normal.Problem, rows: np.ndarray, lengths: tuple[int, int], seed: int) -> Entry:
    """Chains over models, as `settle` runs them."""
    begin = time.process_time()
    chains = [Chain(normal.NormalRegression(problem), rng) for rng in np.random.default_rng(seed).spawn(CHAINS)]
    for chain in chains:
        chain.burn_in(lengths[0])
    scores = np.max([chain.scan() for chain in chains], axis=0)
    for chain in chains:
        chain.choose_anchors(scores)
    warm = time.process_time()
    draws = [chain.draw(lengths[1], THIN, BATCHES) for chain in chains]
    return entry_of(problem, rows, draws, warm - begin, time.process_time() - warm)


def one_by_one(problem: normal.Problem, rows: np.ndarray, lengths: tuple[int, int], seed: int) -> Entry:
    """The Gibbs sampler of the same posterior."""
    begin = time.process_time()
    chains = [Gibbs(normal.NormalRegression(problem), rng) for rng in np.random.default_rng(seed).spawn(CHAINS)]
    for chain in chains:
        chain.draw(lengths[0])
    warm = time.process_time()
    draws = [chain.draw(lengths[1], BATCHES) for chain in chains]
    return entry_of(problem, rows, draws, warm - begin, time.process_time() - warm)


def entry_of(problem: normal.Problem, rows: np.ndarray, chains: list[Draws], warm_up: float, seconds: float) -> Entry:
    """Return averages over the batches of draws."""
    fitted = [problem.fitted(draws, rows) for draws in chains]
    means, squares = [], []
    for draws, values in zip(chains, fitted, strict=True):
        starts = np.concatenate([[0], draws.length.cumsum()[:-1]])
        means.append(np.add.reduceat(values, starts) / draws.length[:, None])
        squares.append(np.add.reduceat(values**2, starts) / draws.length[:, None])
    weight = np.stack([draws.length for draws in chains]).astype(float)
    inclusion = np.stack([draws.inclusion for draws in chains])
    return Entry(warm_up, seconds, weight, inclusion, np.stack(means), np.stack(squares))


def millipede(x: np.ndarray, y: np.ndarray, rows: np.ndarray, lengths: tuple[int, int], seed: int) -> Entry:
    """The peer's chains."""
    begin = time.process_time()
    runs = [millipede_peer.run(x, y, rows, lengths, BATCHES, CHAINS * seed + chain) for chain in range(CHAINS)]
    seconds = sum(run[0] for run in runs)
    arrays = [np.stack([run[i] for run in runs]) for i in range(1, 5)]
    return Entry(time.process_time() - begin - seconds, seconds, *arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=Lengths().rounds)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for name in arguments.families:
            for p in arguments.sizes:
                for row in race(name, p, lengths(p)._replace(rounds=arguments.rounds)):
                    print(
                        f"{row['name']}: {row['value']:.3g} s, {row['ratio']:.3g} ± {row['spread']:.2g} times ours",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
