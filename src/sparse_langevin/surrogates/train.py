"""Training a surrogate: a data set and settings in, a run folder out; the same call resumes."""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sparse_langevin.posterior import PosteriorBank
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.errors import e1, e2
from sparse_langevin.problems.darcy.network import BATCH, Surrogate
from sparse_langevin.problems.darcy.tensors import Normalisation
from sparse_langevin.sampling.batches import Batches
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.sampling.flat import choose_sparse
from sparse_langevin.sampling.likelihoods import GaussianLikelihood
from sparse_langevin.sampling.metrics import Identity, RMSprop
from sparse_langevin.sampling.priors import GaussianPrior, Prior, SpikeSlab
from sparse_langevin.sampling.pruning import Pruning
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.sampling.schedules import Cosine, Schedule, Switch
from sparse_langevin.sampling.training import CLOCKS, fit
from sparse_langevin.surrogates.adam import Adam
from sparse_langevin.surrogates.runs import SAMPLES, SurrogateRun, empty_surrogate, find_device
from sparse_langevin.surrogates.settings import Settings, blaming

CURVE_POINTS = 50  # evaluations in a run, at most one an epoch


def train(
    settings: Settings,
    data: DarcyData,
    run: str | Path,
    *,
    device: str | torch.device | None = None,
    save_every: int = 5,
    progress: bool | None = None,
    profile: dict[str, float] | None = None,
    tensorboard: bool = False,
) -> SurrogateRun:
    """Train a surrogate, or go on with a run that was begun.

    Parameters
    ----------
    settings
        Method, sparsity, seed, length, ...
    data
        A finished data set; its training part is used, its test part only watched.
    run
        The run's folder. The same call with the same folder resumes; other settings or other data are an error.
    device
        Where to train, as torch names it; its default unless given. A run may go on elsewhere; devices differ by
        rounding.
    save_every
        Epochs between checkpoints.
    progress, profile, tensorboard
        As in `fit`: a bar, a dictionary to fill with where the time went, event files beside the history.
    """
    place = SurrogateRun.at(run, settings, data)
    if place.finished:
        return place
    parts = assemble(settings, data, device)
    place.begin()
    chain, batches = parts.chain, parts.batches
    watch = max(1, -(-settings.epochs // CURVE_POINTS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.chain_seed)  # of networks with randomness of their own, such as dropout
        fit(
            chain,
            batches,
            epochs=settings.epochs,
            evaluate=lambda model: parts.task.watch(model) | {"epoch": chain.steps / len(batches)},
            evaluate_every=watch * len(batches),
            bank=_bank(settings, place, settings.epochs * len(batches)),
            run=place.path,
            save_every=save_every * len(batches),
            progress=progress,
            profile=profile,
            timed=True,
            tensorboard=tensorboard,
        )
    place.finish(parts.surrogate, _result(chain, parts.surrogate, settings, place))
    return place


class Parts(NamedTuple):
    """What a training run is made of."""

    task: "_Task"
    surrogate: Surrogate
    batches: Batches
    chain: Sampler | Adam


def assemble(settings: Settings, data: DarcyData, device: str | torch.device | None = None) -> Parts:
    """Make everything that a run needs, and complain of what does not fit, before anything is written."""
    place = find_device(device)
    task = _Task(settings, data, place)
    surrogate = empty_surrogate(settings, data.grid).to(place)
    for name, value in vars(task.normalisation).items():
        surrogate.get_buffer(name).copy_(value)
    fields = task.training[0][:2]
    with blaming(f"{settings.network}, given fields of shape {tuple(fields.shape)},"), evaluating(surrogate):
        if check := getattr(surrogate.network, "check_targets", None):  # it may refuse data that it cannot answer
            check(task.training[1])
        output = surrogate(fields)
    shape, wanted = tuple(getattr(output, "shape", ())), (len(fields), data.grid.edges)
    if shape != wanted:
        what = f"outputs of shape {shape}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise ValueError(
            f"{settings.network} gives {what} for {len(fields)} fields: it must be a tensor of shape {wanted}, a "
            "velocity on each edge"
        )
    batches = Batches(*task.training, batch_size=settings.batch_size, seed=settings.chain_seed)
    steps = settings.epochs * len(batches)
    chain = make_chain(settings, surrogate, rows=len(task.training[0]), outputs=data.grid.edges, steps=steps)
    return Parts(task, surrogate, batches, chain)


def make_chain(settings: Settings, model: nn.Module, *, rows: int, outputs: int, steps: int) -> Sampler | Adam:
    """The sampler, or the optimiser, that the settings describe, for so many examples and responses of each."""
    first = settings.step_size if settings.relative else settings.step_size / (rows * outputs)
    annealed = max(1, round(settings.burn_in * steps)) if settings.bayesian and settings.cycles == 1 else steps
    size = Cosine(
        first,
        annealed,
        final=settings.final_step * first,
        cycles=settings.cycles,
        warmup=round(settings.warmup * steps / settings.cycles),
    )
    tau: float | Schedule = settings.tau
    if settings.noise_from:
        cycle = steps // settings.cycles
        tau = Switch(math.inf, settings.tau, round(settings.noise_from * cycle), cycle, settings.cycles)
    pruning = None
    if settings.sparsity:
        pruning = Pruning(settings.sparsity, end=max(1, round(settings.prune_end * steps / settings.cycles)))
    sparse = sparse_layers(model)
    if settings.method == "adam":
        if pruning is not None and not choose_sparse(model, sparse):
            raise ValueError("pruning needs sparse layers, but the network has none: leave out the sparsity")
        return Adam(model, step_size=size, sparse=sparse, pruning=pruning)
    dense = GaussianPrior(settings.sigma0)
    return Sampler(
        model,
        GaussianLikelihood(),
        num_data=rows,
        step_size=size,
        preconditioner=RMSprop() if settings.method.startswith("p") else Identity(),
        prior=_spike_and_slab(settings, model, sparse) if settings.method.endswith("-sa") else dense,
        dense_prior=dense,
        tau=tau,
        seed=settings.seed,
        chain=settings.chain,
        sparse=sparse,
        pruning=pruning,
        momentum=settings.momentum,
    )


def _spike_and_slab(settings: Settings, model: nn.Module, sparse: list[str] | None) -> dict[str, Prior]:
    """One prior for each sparse layer, with an expected inclusion of what is to be kept, worth as much as the weights.

    Under the paper's Beta(1, p) the inclusion probabilities of a network run to zero while sigma, and with it the
    spike, is still wide, and never come back.
    """
    kept = 1.0 - settings.sparsity if settings.sparsity else 0.5
    chosen = choose_sparse(model, sparse)
    sizes = {name: p.numel() for name, p in model.named_parameters() if name in chosen}
    return {
        name: SpikeSlab(settings.v0, settings.v1, a=kept * size, b=(1 - kept) * size, delta=kept)
        for name, size in sizes.items()
    }


def sparse_layers(model: nn.Module) -> list[str] | None:
    """The layers that the network itself names in ``SPARSE``; None, for all weights, if it names none."""
    network = model.network if isinstance(model, Surrogate) else model
    names = getattr(network, "SPARSE", None)
    prefix = "network." if isinstance(model, Surrogate) else ""
    return [prefix + name for name in names] if names is not None else None


class _Task:
    """The data of a run: normalised training tensors, and what is watched while it runs."""

    def __init__(self, settings: Settings, data: DarcyData, device: torch.device) -> None:
        kappa, velocity = (torch.from_numpy(data.array(name, "train")) for name in ("kappa", "velocity"))
        held = settings.held(len(kappa))
        if len(kappa) - held < 1:
            raise ValueError(f"{data.folder} has {len(kappa)} training samples, and none are left to train on")
        if settings.validation and not held:
            raise ValueError(
                f"validation = {settings.validation!r} of {len(kappa)} training samples is none: set more of them apart"
            )
        self.grid, self.device = data.grid, device
        self.normalisation = maps = Normalisation.of(kappa[held:], velocity[held:])
        if not all(value.float().isfinite().all() for value in vars(maps).values()):
            raise ValueError(
                f"{data.folder} has numbers that single precision cannot hold, kappa up to {float(kappa.max()):g} and "
                f"velocities up to {float(velocity.abs().max()):g}: choose other units"
            )
        encoded = maps.encode_kappa(kappa[held:]), maps.encode_velocity(velocity[held:])
        self.training = tuple(part.to(device, torch.float32) for part in encoded)
        if not held:
            kappa, velocity = (torch.from_numpy(data.array(name, "test")) for name in ("kappa", "velocity"))
        else:
            kappa, velocity = kappa[:held], velocity[:held]
        self.kappa, self.velocity = kappa, velocity

    def watch(self, model: nn.Module) -> dict[str, float]:
        """Errors in percent on the part that is set apart, or on the test part."""
        if not len(self.kappa):
            return {}
        assert isinstance(model, Surrogate)
        inputs = self.normalisation.encode_kappa(self.kappa).float()
        parts = [model(part.to(self.device)).cpu() for part in torch.split(inputs, BATCH)]
        predicted: Tensor = self.normalisation.decode_velocity(torch.cat(parts))
        first, second = e1(self.grid, predicted, self.velocity), e2(self.grid, predicted, self.velocity, self.kappa)
        return {"e1": 100 * float(first.mean()), "e2": 100 * float(second.mean())}


def _bank(settings: Settings, place: SurrogateRun, steps: int) -> PosteriorBank | None:
    if not settings.samples or not settings.bayesian:
        return None
    cycle = steps // settings.cycles
    left = cycle - min(round(settings.burn_in * cycle), cycle - 1)
    count = min(-(-settings.samples // settings.cycles), left)
    thin = left // count
    repeated = cycle if settings.cycles > 1 else None
    return PosteriorBank(thin=thin, burn_in=cycle - thin * count, cycle=repeated, folder=place.path / SAMPLES)


def _result(chain: Sampler | Adam, surrogate: Surrogate, settings: Settings, place: SurrogateRun) -> dict[str, object]:
    """Counts and costs of a finished run."""
    blocks = [block for block in chain.flat.blocks if block.sparse]
    sparse = {b.name: (b.size, b.size - int(chain.flat.vector[b.span].count_nonzero())) for b in blocks}
    inclusion = {}
    if isinstance(chain, Sampler) and chain.delta:
        bins = torch.linspace(0, 1, 21)
        inclusion = {
            n: torch.histogram(r.flatten().float().cpu(), bins)[0].int().tolist() for n, r in chain.inclusion().items()
        }
    return {
        "log_input": bool(surrogate.normalisation.kappa_log),
        "parameters": chain.flat.size,
        "sparse_parameters": sum(size for size, _ in sparse.values()),
        "zeros": sum(zeros for _, zeros in sparse.values()),
        "layers": {name: {"size": size, "zeros": zeros} for name, (size, zeros) in sparse.items()},
        "epochs": settings.epochs,
        "steps": chain.steps,
        **{name: place.history()[-1][name] for name in CLOCKS},
        "sigma": chain.sigma if isinstance(chain, Sampler) else None,
        "inclusion": inclusion,
    }
