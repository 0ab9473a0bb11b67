"""The contenders: each trains the network for a number of steps and returns what it predicts with.

Times in settings (``pruned_by``, ``noise_from``, ``sampled_from``) are shares of the run. Every step size falls along
half a cosine, to zero for optimisers and to ``final`` of its beginning for samplers.
"""

import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from benchmarks import peers
from benchmarks.classification import network
from benchmarks.classification.data import Part
from benchmarks.classification.predictors import Bank, Forward, Members, Predictor, dropped, fixed
from sparse_langevin import (
    Batches,
    CategoricalLikelihood,
    ChainWarning,
    Cosine,
    GaussianPrior,
    PosteriorBank,
    RMSprop,
    Sampler,
    SpikeSlab,
    Switch,
    fit,
    psgld,
    psgld_sa,
)
from sparse_langevin.sampling.layout import VELOCITY

Settings = Mapping[str, Any]
WINDOW = 100  # last steps over which the warmth of a chain is averaged


@dataclass(frozen=True)
class Run:
    """How long to train, with which seed, to which share of zeros."""

    steps: int
    seed: int
    zeros: float = 0.0
    passes: int = 20
    """Number of masks that MC dropout predicts with."""
    tick: Callable[[], None] = field(default=lambda: None)
    """Called after each step."""


@dataclass(frozen=True)
class Trained:
    """A contender after training."""

    predictor: Predictor
    zeros: float
    """Share of zeros among the weights."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What else is to be recorded."""


Train = Callable[[Part, Settings, Run], Trained]


def adam(part: Part, settings: Settings, run: Run) -> Trained:
    """Train by Adam with decoupled weight decay; prune gradually by magnitude if there are to be zeros."""
    model = network.make(run.seed)
    _optimise(model, part, settings, run)
    return Trained(Members([fixed(model)]), network.share_of_zeros(model))


def dropout(part: Part, settings: Settings, run: Run) -> Trained:
    """Train by Adam with dropout before the dense layers, and keep it on in predictions (Gal and Ghahramani, 2016)."""
    model = network.make(run.seed, settings["rate"])
    _optimise(model, part, settings, run)
    return Trained(Members(dropped(model, run.passes)), network.share_of_zeros(model), {"samples": run.passes})


def sghmc(part: Part, settings: Settings, run: Run) -> Trained:
    """Sample by the SGHMC of posteriors (Chen, Fox and Guestrin, 2014) under a Gaussian prior.

    The log posterior is divided by the number of data, and so is the temperature, as its authors advise. The friction
    is such that the momentum loses a tenth in a step of the initial size.
    """
    module = peers.find("posteriors")
    if module is None:
        raise RuntimeError("posteriors is not installed: pip install 'sparse-langevin[bench]'")
    model, count = network.make(run.seed), len(part[0])
    pruner = network.Pruner(model, network.plan(run.zeros, settings, run.steps))
    size = Cosine(settings["step_size"], run.steps, final=settings["step_size"] * settings["final"])
    noise_from, burn_in = round(settings["noise_from"] * run.steps), round(settings["sampled_from"] * run.steps)

    def log_posterior(parameters: Mapping[str, Tensor], batch: Part) -> tuple[Tensor, Tensor]:
        logits = functional_call(model, dict(parameters.items()), (batch[0],))
        prior = sum(p.square().sum() for p in parameters.values()) * (0.5 / settings["sigma0"] ** 2)
        return -functional.cross_entropy(logits, batch[1]) - prior / count, torch.zeros(())

    transform = module.sgmcmc.sghmc.build(
        log_posterior,
        lr=lambda step: size(int(step) + 1),
        alpha=0.1 / settings["step_size"],
        temperature=lambda step: settings["temperature"] / count if int(step) >= noise_from else 0.0,
        momenta=0.0,
    )
    state = transform.init(dict(pruner.flat.views(pruner.flat.vector)))
    members: list[Forward] = []
    thin = max(1, (run.steps - burn_in) // settings["samples"])
    for step, batch in enumerate(_batches(part, settings, run), 1):
        state, _ = transform.update(state, batch)
        for name, view in pruner.flat.views(pruner.flat.vector).items():
            view.copy_(state.params[name])
        pruner(step)
        if run.zeros:
            for name, view in pruner.flat.views(pruner.flat.vector).items():
                state.params[name].copy_(view)
        if step > burn_in and (step - burn_in) % thin == 0:
            kept = {name: value.clone() for name, value in pruner.flat.views(pruner.flat.vector).items()}
            members.append(lambda x, kept=kept: functional_call(model, kept, (x,)))
        run.tick()
    return Trained(Members(members), network.share_of_zeros(model), {"samples": len(members)})


def ours(part: Part, settings: Settings, run: Run) -> Trained:
    """Sample by `psgld`, or with a spike and slab by `psgld_sa`; average over the samples of a `PosteriorBank`."""
    sampler = make_sampler(part, settings, run)
    burn_in = round(settings["sampled_from"] * run.steps)
    thin = max(1, (run.steps - burn_in) // settings["samples"])
    bank = PosteriorBank(thin=thin, burn_in=burn_in)
    warmth: list[float] = []

    def watch(chain: Sampler, info: Any) -> None:
        run.tick()
        if info.step > run.steps - WINDOW and info.noise_norm > 0:
            velocity = chain.vectors[VELOCITY]
            moving = max(1, int((velocity != 0).sum()))
            warmth.append(settings["tau"] * float(velocity.square().sum()) / moving)

    loader = Batches(*part, batch_size=settings["batch_size"], seed=run.seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(sampler, loader, steps=run.steps, bank=bank, callbacks=[watch], progress=False)
    notes = {
        "samples": len(bank),
        "zeros_by_layer": network.zeros_by_layer(sampler.model),
        "warmth": sum(warmth) / len(warmth) if warmth else None,
        "warnings": [re.sub(r"\s+", " ", str(w.message)) for w in caught if issubclass(w.category, ChainWarning)],
    }
    return Trained(Bank(bank, sampler.model.eval()), network.share_of_zeros(sampler.model), notes)


def make_sampler(part: Part, settings: Settings, run: Run) -> Sampler:
    """Return our chain at its start; settings with ``tau=inf`` leave out the noise."""
    initial = settings["step_size"]
    options: dict[str, Any] = {
        "num_data": len(part[0]),
        "step_size": Cosine(initial, run.steps, final=settings["final"] * initial),
        "momentum": settings["momentum"],
        "tau": Switch(math.inf, settings["tau"], round(settings["noise_from"] * run.steps)),
        "seed": run.seed,
    }
    model, likelihood = network.make(run.seed), CategoricalLikelihood()
    if "sigma0" in settings:
        metric = RMSprop(eta=settings.get("eta", 1e-3))
        return psgld(model, likelihood, prior=GaussianPrior(settings["sigma0"]), preconditioner=metric, **options)
    prior = SpikeSlab.for_network(v0=settings["v0"], v1=settings["v1"])
    pruning = network.plan(run.zeros, settings, run.steps)
    return psgld_sa(model, likelihood, prior=prior, pruning=pruning, **options)


def ensemble(train: Train, members: int) -> Train:
    """Return a contender that trains several networks, each for ``run.steps``, and averages their probabilities."""

    def trained(part: Part, settings: Settings, run: Run) -> Trained:
        alone = [
            train(part, settings, Run(run.steps, run.seed * 100 + number, run.zeros, run.passes, run.tick))
            for number in range(members)
        ]
        forwards = [forward for one in alone for _, forward in one.predictor.weighted()]
        zeros = min(one.zeros for one in alone)
        return Trained(Members(forwards), zeros, {"samples": len(forwards)})

    return trained


def _optimise(model: network.CNN, part: Part, settings: Settings, run: Run) -> None:
    pruner = network.Pruner(model, network.plan(run.zeros, settings, run.steps))
    size = Cosine(settings["step_size"], run.steps)
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=settings["weight_decay"], fused=True)
    for step, (x, y) in enumerate(_batches(part, settings, run), 1):
        optimiser.param_groups[0]["lr"] = size(step)
        optimiser.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimiser.step()
        pruner(step)
        run.tick()


def _batches(part: Part, settings: Settings, run: Run) -> Any:
    """Give as many batches as there are steps."""
    loader, left = Batches(*part, batch_size=settings["batch_size"], seed=run.seed), run.steps
    while left:
        for batch in loader:
            yield batch
            left -= 1
            if not left:
                return
