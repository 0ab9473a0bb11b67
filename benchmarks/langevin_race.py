"""The paper's method beside others whose spike has a width: seconds to 400 effective draws of both effects of its test.

n = 100, p = 200, standardised, all on one core (NumPyro may use more). Warm-up and compilation do not count: a run of
some length after them gives seconds and effective sample size, and so 400 * seconds / ess. The Gibbs samplers have the
prior of ours, with sigma and delta sampled; NUTS has a continuous prior of the same kind, as it must.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import horseshoe, peers, scale_mixture_gibbs
from benchmarks.interleaved import Record, record
from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import gaussian, moments
from sparse_langevin.linear.runner import MIN_THIN
from sparse_langevin.posterior import diagnostics
from sparse_langevin.studies import regression_data
from tests.linear.gibbs_reference import Model, gibbs

TARGET, CHAINS = 400.0, 4
OURS = "PSGLD-SA"
GROUP = "a spike with a width, seconds to 400 effective draws of both effects, n=100, p=200"


class Lengths(NamedTuple):
    """Warm-up and draws per chain of each contender."""

    ours: tuple[int, int] = (2000, 20_000)
    gibbs: tuple[int, int] = (500, 4000)
    mixture: tuple[int, int] = (500, 3000)
    nuts: tuple[int, int] = (500, 500)
    rounds: int = 5


QUICK = Lengths((200, 1000), (50, 200), (50, 200), (0, 0), 1)


class Entry(NamedTuple):
    """A run of a contender: time of sampling, and draws (chains, draws, 2) of the two effects."""

    seconds: float
    draws: np.ndarray

    @property
    def cost(self) -> float:
        """Seconds to the target."""
        return TARGET * self.seconds / float(diagnostics.ess(self.draws).min())


def records(quick: bool = False) -> list[Record]:
    """All contenders, interleaved; NUTS, which takes minutes, once."""
    lengths = QUICK if quick else Lengths()
    with threadpool_limits(1):
        entries = run(lengths)
    costs = {name: [entry.cost for entry in rounds] for name, rounds in entries.items()}
    for name, rounds in entries.items():
        draws = np.concatenate([entry.draws for entry in rounds], axis=1)
        mean, error = draws.mean((0, 1)), diagnostics.mcse(draws)
        text = ", ".join(f"{m:.3f} +- {e:.3f}" for m, e in zip(mean, error, strict=True))
        print(f"{name}: posterior means {text}; R-hat {diagnostics.rhat(draws).max():.3f}")
    ours = float(np.median(costs[OURS]))
    return [
        record(f"{GROUP}: {name}", cost, OURS, costs[OURS] if len(cost) > 1 else [ours], unit="s")
        for name, cost in costs.items()
    ]


def run(lengths: Lengths) -> dict[str, list[Entry]]:
    """Entries of each round, by contender."""
    study = regression_data.make(1, 0)
    data, scale = moments.observed(study.x, study.y).standardised()
    hyper = SparseBayesRegressor()._hyper(data.x.shape[1], 0.1 / np.sqrt(scale.size), 0.75)
    prior = Model(hyper.v0, a=hyper.a, b=hyper.b, nu=hyper.nu, lambda_=hyper.lambda_, slab=hyper.slab)
    contenders: dict[str, Callable[[int], Entry]] = {
        OURS: lambda seed: ours(data, hyper, lengths.ours, seed),
        "Gibbs, spike in closed form, compiled": lambda seed: closed_form(data, prior, lengths.gibbs, seed),
        "Gibbs, spike as scale mixture, NumPy": lambda seed: mixture(data, prior, lengths.mixture, seed),
    }
    for contender in contenders.values():
        contender(0)
    entries = {name: [] for name in contenders}
    for seed in range(1, lengths.rounds + 1):
        for name, contender in contenders.items():
            entries[name].append(contender(seed))
    if lengths.nuts[1] and peers.find("numpyro"):
        seconds, draws = horseshoe.run(data.x, data.y, hyper.a, hyper.slab, (CHAINS, *lengths.nuts))
        entries["NumPyro NUTS, regularised horseshoe"] = [Entry(seconds, draws[:, :, :2])]
    return entries


def ours(data: gaussian.Data, hyper: gaussian.Hyper, lengths: tuple[int, int], seed: int) -> Entry:
    """Chains of the library, one after the other."""
    rng = np.random.default_rng(seed)
    states = [gaussian.initial_state(data, hyper, rng) for _ in range(CHAINS)]
    for chain, state in enumerate(states):
        gaussian.advance(data, hyper, state, lengths[0], MIN_THIN, lengths[0], 100 * seed + chain)
    begin = time.perf_counter()
    draws = [
        gaussian.advance(data, hyper, state, lengths[1], MIN_THIN, 0, 100 * seed + CHAINS + chain)[0]
        for chain, state in enumerate(states)
    ]
    return Entry(time.perf_counter() - begin, np.stack(draws)[:, :, :2])


def closed_form(data: gaussian.Data, prior: Model, lengths: tuple[int, int], seed: int) -> Entry:
    """The Gibbs sampler that the tests use as oracle."""
    seconds, kept = 0.0, []
    for chain in range(CHAINS):
        rng = np.random.default_rng([seed, chain])
        warm = gibbs(data.x, data.y, prior, lengths[0], rng)
        last = warm.beta[-1], warm.gamma[-1], warm.delta[-1], warm.sigma[-1]
        begin = time.perf_counter()
        kept.append(gibbs(data.x, data.y, prior, lengths[1], rng, start=last).beta[:, :2])
        seconds += time.perf_counter() - begin
    return Entry(seconds, np.stack(kept))


def mixture(data: gaussian.Data, prior: Model, lengths: tuple[int, int], seed: int) -> Entry:
    """The textbook's Gibbs sampler."""
    seconds, kept = 0.0, []
    for chain in range(CHAINS):
        rng = np.random.default_rng([seed, chain])
        first = scale_mixture_gibbs.start(data.x.shape[1])
        _, state = scale_mixture_gibbs.sample(data.x, data.y, prior, lengths[0], rng, first)
        begin = time.perf_counter()
        kept.append(scale_mixture_gibbs.sample(data.x, data.y, prior, lengths[1], rng, state)[0][:, :2])
        seconds += time.perf_counter() - begin
    return Entry(seconds, np.stack(kept))
