r"""Replica exchange: chains at several temperatures that trade places, for posteriors with several modes.

Replica r samples exp(-tau_r U_r(beta)), U_r being minus the log posterior at its own latent variables, and tau_0 that
of the posterior. The hotter ones cross barriers. Now and then neighbours a and b are asked to exchange their weights,
and do so with probability min(1, exp(d - u)),

    d = tau_a (U_a(beta_a) - U_a(beta_b)) + tau_b (U_b(beta_b) - U_b(beta_a)),

where u corrects for the noise of a d that is estimated from minibatches, see `energies`.

Neighbours (0, 1), (2, 3), ... and (1, 2), (3, 4), ... are asked in turn, so that weights travel through all
temperatures instead of walking to and fro (Okabe et al., 2001; Syed et al., 2022). Only weights are exchanged: latent
variables, metric, velocity and noise belong to a temperature.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sparse_langevin.sampling import noise
from sparse_langevin.sampling.batches import Batches, move
from sparse_langevin.sampling.checks import as_count
from sparse_langevin.sampling.energies import Estimate, Pair, data_difference, prior_difference, refresh_priors
from sparse_langevin.sampling.health import warn
from sparse_langevin.sampling.info import Info
from sparse_langevin.sampling.pruning import Pruning
from sparse_langevin.sampling.sampler import Sampler

PATIENCE = 50  # attempts of a pair without success after which a warning says so
FEWEST = 8  # batches of an estimate: with fewer, too little is known about its noise


class ReplicaExchange:
    """Several samplers of one model at different temperatures, that exchange their weights; `fit` runs it like one.

    The samples are those of the coldest replica. A step costs as much as one step of each.

    Parameters
    ----------
    make
        A function of a temperature that returns a sampler with a model of its own and ``tau=1/temperature``. Hotter
        chains may have larger steps. All must have the same seed and chain; their noise is different all the same.
    temperatures
        Rising, beginning with 1 for the posterior. Neighbours exchange well if about a quarter of their attempts
        succeed; `acceptance` tells. The more weights, the closer they must be.
    data
        Batches that together are the data set, from which energies are taken: the training loader, or one with larger
        batches. It is iterated once per exchange; ``set_epoch`` is called if it has one, so that it is shuffled anew.
    every
        Steps between exchanges.
    batches
        Number of batches from which an energy is estimated, at least 8; the noise is corrected for, at the price of
        fewer exchanges. None (default) takes all of them, without noise.

    Attributes
    ----------
    replicas : list of Sampler
        The samplers, the coldest first.
    attempts : list of int
        Number of times that each pair of neighbours was asked.
    exchanges : list of int
        Number of times that it agreed.
    round_trips : int
        Number of times that weights came to the coldest replica from the hottest one.

    Examples
    --------
    >>> def make(temperature):
    ...     return sgld(nn.Linear(1, 1), GaussianLikelihood(), num_data=8, step_size=1e-3, tau=1 / temperature)
    >>> loader = Batches(torch.randn(8, 1), torch.randn(8, 1), batch_size=4)
    >>> ladder = ReplicaExchange(make, (1.0, 1.5), loader, every=5)
    >>> bank = PosteriorBank(burn_in=20, thin=1)
    >>> history = fit(ladder, loader, steps=30, bank=bank)
    >>> len(bank), ladder.attempts
    (10, [6])
    """

    def __init__(
        self,
        make: Callable[[float], Sampler],
        temperatures: Sequence[float],
        data: Iterable[Any],
        *,
        every: int = 100,
        batches: int | None = None,
    ) -> None:
        self.temperatures = check_temperatures(temperatures)
        self.data = data
        self.every = as_count(every, "every", low=1)
        self.batches = None if batches is None else as_count(batches, "batches", low=FEWEST)
        self.replicas = [_made(make, number, t) for number, t in enumerate(self.temperatures)]
        _require_alike(self.replicas)
        pairs = len(self.replicas) - 1
        self.attempts, self.exchanges, self.round_trips = [0] * pairs, [0] * pairs, 0
        self._origin = list(range(pairs + 1))  # which replica the weights of each began in
        self._heated = [False] * (pairs + 1)  # whether they have been the hottest since they were the coldest
        cold = self.replicas[0]
        self.model, self.flat, self.chain, self.steps = cold.model, cold.flat, cold.chain, cold.steps
        self.pruning: Pruning | None = None  # replicas with different zeros could not exchange weights
        self._coin = noise.for_chain(torch.zeros(1), cold.seed, cold.chain, noise.WEIGHTS, replica=pairs + 1)

    @property
    def target(self) -> Sampler:
        """The coldest replica, whose weights are samples of the posterior."""
        return self.replicas[0]

    @property
    def gradient_seconds(self) -> float:
        """Time spent on gradients, of all replicas."""
        return sum(replica.gradient_seconds for replica in self.replicas)

    @property
    def acceptance(self) -> list[float]:
        """Share of attempts that succeeded, for each pair of neighbours; nan before the first."""
        return [done / tried if tried else math.nan for done, tried in zip(self.exchanges, self.attempts, strict=True)]

    def inclusion(self) -> dict[str, Tensor]:
        """Return the inclusion probabilities of the coldest replica."""
        return self.target.inclusion()

    def plan(self, steps: int | None, burn_in: int | None, *, anchored: bool = False) -> None:
        """Prepare all replicas for a run, see `Sampler.plan`."""
        if anchored:
            raise ValueError("control variates need weights that stay near an anchor, but replicas exchange theirs")
        for replica in self.replicas:
            replica.plan(steps, burn_in)

    def step(self, *batch: Any) -> Info:
        """Take one step of each replica on a batch, exchange if it is due, and report about the coldest."""
        info, *_ = [replica.step(*batch) for replica in self.replicas]
        self.steps = info.step
        if self.steps % self.every == 0:
            self.exchange()
        return info

    def exchange(self) -> None:
        """Ask neighbours to exchange their weights: every second pair, in turn with the others."""
        number, count = self.steps // self.every, len(self.attempts)
        pairs = {i: self._pair(i) for i in range(count) if count == 1 or i % 2 == number % 2}
        pairs = {i: p for i, p in pairs.items() if math.isfinite(p.tau_a)}  # only where there is noise
        if not pairs:
            return
        for i, difference in self._differences(pairs, number).items():
            uniform = 0.5 * math.erfc(float(self._coin.normal(number * count + i)) / math.sqrt(2.0))
            self.attempts[i] += 1
            if math.log(uniform) < difference.log_acceptance:
                self._swap(i)
            elif self.attempts[i] == PATIENCE and not self.exchanges[i]:
                self._complain(i, difference)

    def settings(self) -> dict[str, str]:
        """Return the settings that determine the chain, as text."""
        loader = repr(self.data) if isinstance(self.data, Batches) else type(self.data).__name__
        own = {"temperatures": self.temperatures, "every": self.every, "batches": self.batches, "data": loader}
        mine, *others = [replica.settings() for replica in self.replicas]
        theirs = {f"{n} of replica {i}": v for i, o in enumerate(others, 1) for n, v in o.items() if v != mine.get(n)}
        return mine | theirs | {f"exchange {name}": str(value) for name, value in own.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all replicas and what is known about their exchanges."""
        states = [replica.state_dict() for replica in self.replicas]
        tensors = {f"{i}.{name}": t for i, state in enumerate(states) for name, t in state.pop("tensors").items()}
        counts = {"attempts": self.attempts, "exchanges": self.exchanges, "round_trips": self.round_trips}
        places = {"origin": self._origin, "heated": self._heated}
        return {"replicas": states, "tensors": tensors, **counts, **places}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        for i, (replica, own) in enumerate(zip(self.replicas, state["replicas"], strict=True)):
            start = f"{i}."
            tensors = {n.removeprefix(start): t for n, t in state["tensors"].items() if n.startswith(start)}
            replica.load_state_dict({**own, "tensors": tensors})
        self.attempts, self.exchanges = ([int(n) for n in state[name]] for name in ("attempts", "exchanges"))
        self.steps, self.round_trips = self.target.steps, int(state["round_trips"])
        self._origin, self._heated = [int(n) for n in state["origin"]], [bool(b) for b in state["heated"]]

    def _differences(self, pairs: Mapping[int, Pair], number: int) -> dict[int, Estimate]:
        """Return d of each pair, estimated from this exchange's batches."""
        found: dict[int, list[float]] = {i: [] for i in pairs}
        examples = []
        for batch in self._drawn(number):
            for i, pair in pairs.items():
                count, difference = data_difference(pair, batch)
                found[i].append(difference)
            examples.append(count)
        seen, total = sum(examples), self.target.num_data
        if len(examples) < (self.batches or 1):
            raise ValueError(f"the data for exchanges have {len(examples)} batches, fewer than batches={self.batches}")
        if seen > total or (self.batches is None and seen < total):
            raise ValueError(
                f"the batches for exchanges have {seen} examples, but num_data is {total}: give batches of the whole "
                "data set, or batches=... to estimate energies from some of them"
            )
        return {i: Estimate.of(found[i], examples, total).plus(prior_difference(pair)) for i, pair in pairs.items()}

    def _pair(self, i: int) -> Pair:
        a, b = self.replicas[i : i + 2]
        tau_a, tau_b = (replica.timetable.at(self.steps, replica.preconditioner).tau for replica in (a, b))
        return Pair(a, b, tau_a, tau_b)

    def _drawn(self, number: int) -> Iterator[Any]:
        if callable(set_epoch := getattr(self.data, "set_epoch", None)):
            set_epoch(number)
        for batch in itertools.islice(self.data, self.batches):
            yield move(batch, self.flat.vector.device)

    def _swap(self, i: int) -> None:
        a, b = (replica.flat.vector for replica in self.replicas[i : i + 2])
        with torch.no_grad():
            kept = a.clone()
            a.copy_(b)
            b.copy_(kept)
        for replica in self.replicas[i : i + 2]:
            refresh_priors(replica)
        self.exchanges[i] += 1
        places = self._origin
        places[i], places[i + 1] = places[i + 1], places[i]
        self._heated[places[-1]] = True
        if self._heated[places[0]]:
            self.round_trips += 1
            self._heated[places[0]] = False

    def _complain(self, i: int, difference: Estimate) -> None:
        low, high = self.temperatures[i : i + 2]
        error = math.sqrt(difference.variance)
        blurred = f" The last energies had an error of {error:.2g}: far above 1, use more batches." if error else ""
        warn(
            f"replicas at the temperatures {low:g} and {high:g} have not exchanged their weights in {PATIENCE} "
            f"attempts: put a temperature between them, such as {math.sqrt(low * high):.3g}.{blurred}"
        )


def check_temperatures(temperatures: Sequence[float]) -> tuple[float, ...]:
    """Return the temperatures; raise an error unless there are at least two, which rise from a positive one."""
    values = tuple(float(t) for t in temperatures)
    rising = all(low < high for low, high in itertools.pairwise(values))
    if len(values) < 2 or not (rising and values[0] > 0 and math.isfinite(values[-1])):
        raise ValueError(
            f"temperatures must be at least two rising positive numbers, such as (1, 1.5, 2.2), got {values}"
        )
    return values


def _made(make: Callable[[float], Sampler], number: int, temperature: float) -> Sampler:
    replica = make(temperature)
    if not isinstance(replica, Sampler):
        raise TypeError(
            f"make({temperature:g}) must return a sampler, such as sgld(..., tau=1/temperature): {replica!r}"
        )
    if replica.pruning is not None:
        raise ValueError("replicas cannot be pruned, since their zeros would differ: prune first, then exchange")
    replica.branch(number)
    return replica


def _require_alike(replicas: Sequence[Sampler]) -> None:
    """Raise an error unless the replicas differ in nothing but temperature and steps."""
    cold = replicas[0]
    if len({id(replica.model) for replica in replicas}) < len(replicas):
        raise ValueError("make must return a sampler with a model of its own each time: build the model inside it")
    for replica in replicas[1:]:
        for name in ("seed", "chain", "num_data", "likelihood", "parameters", "dtype"):
            mine, theirs = cold.settings()[name], replica.settings()[name]
            if mine != theirs:
                raise ValueError(f"the replicas differ in {name}: {mine} and {theirs}")
    taus = [replica.timetable.at(10**9, replica.preconditioner).tau for replica in replicas]
    if any(low <= high for low, high in itertools.pairwise(taus)):
        raise ValueError(f"tau must fall from replica to replica, got {taus}: make(temperature) must pass tau on")
