"""Training of a surrogate in the folder of a run; the same call resumes."""

import math
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sparse_langevin.posterior import PosteriorBank
from sparse_langevin.sampling.algorithms import ALGORITHMS
from sparse_langevin.sampling.batches import Batches
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.sampling.flat import choose_sparse
from sparse_langevin.sampling.likelihoods import GaussianLikelihood
from sparse_langevin.sampling.metrics import RMSprop
from sparse_langevin.sampling.priors import GaussianPrior, Prior, SpikeSlab
from sparse_langevin.sampling.pruning import Pruning
from sparse_langevin.sampling.sampler import Sampler
from sparse_langevin.sampling.schedules import Cosine, Schedule, Switch
from sparse_langevin.sampling.training import CLOCKS, fit
from sparse_langevin.surrogates.adam import Adam
from sparse_langevin.surrogates.networks import blaming
from sparse_langevin.surrogates.problem import Array, DataSet
from sparse_langevin.surrogates.ranges import range_of
from sparse_langevin.surrogates.runs import SAMPLES, SurrogateRun
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.surrogate import Surrogate, empty_surrogate, find_device, outputs_of

CURVE_POINTS = 50  # evaluations in a run, at most one per epoch


def train(
    settings: Settings,
    data: DataSet,
    run: str | Path,
    *,
    device: str | torch.device | None = None,
    save_every: int = 5,
    progress: bool | None = None,
    profile: dict[str, float] | None = None,
    tensorboard: bool = False,
) -> SurrogateRun:
    """Train a surrogate, or resume a run that was started.

    Parameters
    ----------
    settings
        Method, sparsity, seed, number of epochs and so on. A network that they name is imported.
    data
        A finished data set. Its training part is used; its test part is only watched, unless ``validation`` is set.
    run
        The run's folder. The same call with the same folder resumes; other settings or other data are an error.
    device
        torch's name of the device to train on, its default unless given. A run may be resumed on another device, which
        changes results by rounding.
    save_every
        Number of epochs between checkpoints.
    progress
        Whether to show a progress bar; by default only on a terminal.
    profile
        Dictionary that is filled with the seconds that each part of the work took.
    tensorboard
        Whether to write the history for TensorBoard, too.
    """
    place = SurrogateRun.at(run, settings, data)
    if place.finished:
        return place
    parts = assemble(settings, data, device)
    place.begin()
    chain, batches = parts.chain, parts.batches
    watch = max(1, -(-settings.epochs // CURVE_POINTS))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.chain_seed)  # for networks that draw random numbers, such as dropout
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
    result = _result(chain, parts.surrogate, settings, place)
    place.finish(parts.surrogate, result | {"input_range": parts.task.range})
    return place


class Parts(NamedTuple):
    """The parts of a training run."""

    task: "_Task"
    surrogate: Surrogate
    batches: Batches
    chain: Sampler | Adam


def assemble(settings: Settings, data: DataSet, device: str | torch.device | None = None) -> Parts:
    """Make everything that a run needs, and raise if something does not fit, before anything is written."""
    place = find_device(device)
    surrogate = empty_surrogate(settings, data.problem, trust=True)
    task = _Task(settings, data, surrogate, place)
    surrogate.to(place)
    examples, name = task.training[0][:2], settings.network or data.problem.default_network
    with blaming(f"{name}, given inputs of shape {tuple(examples.shape)},"), evaluating(surrogate):
        if check := getattr(
            surrogate.network, "check_targets", None
        ):  # a network may refuse targets that it cannot produce
            check(task.training[1])
        output = surrogate(examples)
    shape, wanted = tuple(getattr(output, "shape", ())), (len(examples), outputs_of(data.problem))
    if shape != wanted:
        what = f"outputs of shape {shape}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise ValueError(
            f"{name} returns {what} for {len(examples)} examples: it must return a tensor of shape {wanted}, one "
            f"number for each output of {data.problem.title}"
        )
    batches = Batches(*task.training, batch_size=settings.batch_size, seed=settings.chain_seed)
    steps = settings.epochs * len(batches)
    chain = make_chain(settings, surrogate, rows=len(task.training[0]), outputs=wanted[1], steps=steps)
    if isinstance(chain, Sampler) and chain.batch_norms:
        raise ValueError(
            f"{name} has a BatchNorm layer in training mode, {chain.batch_norms[0]!r}. Its posterior samples need "
            "training inputs to predict, and a surrogate predicts without them: use GroupNorm or LayerNorm"
        )
    return Parts(task, surrogate, batches, chain)


def make_chain(settings: Settings, model: nn.Module, *, rows: int, outputs: int, steps: int) -> Sampler | Adam:
    """The sampler or optimiser that the settings describe, for ``rows`` examples with ``outputs`` numbers each."""
    # Without a preconditioner a step acts on the gradient of the mean over examples and outputs.
    first = settings.step_size if settings.algorithm.preconditioned else settings.step_size / (rows * outputs)
    cycle = steps // settings.cycles
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
        tau = Switch(math.inf, settings.tau, round(settings.noise_from * cycle), cycle, settings.cycles)
    pruning = None
    if settings.sparsity:
        pruning = Pruning(settings.sparsity, end=max(1, round(settings.prune_end * steps / settings.cycles)))
    sparse = sparse_layers(model)
    if not settings.bayesian:
        if pruning is not None and not choose_sparse(model, sparse):
            raise ValueError("pruning needs sparse layers, but the network has none: leave out the sparsity")
        return Adam(model, step_size=size, sparse=sparse, pruning=pruning)
    dense = GaussianPrior(settings.sigma0)
    plain = settings.algorithm.preconditioned and not settings.momentum  # one of the paper's algorithms, as printed
    metric = {"preconditioner": RMSprop.as_printed()} if plain else {}
    return ALGORITHMS[settings.method](
        model,
        GaussianLikelihood(sigma=1.0),  # normalised outputs
        num_data=rows,
        step_size=size,
        prior=_spike_and_slab(settings, model, sparse) if settings.algorithm.selects else dense,
        dense_prior=dense,
        tau=tau,
        seed=settings.seed,
        chain=settings.chain,
        sparse=sparse,
        pruning=pruning,
        momentum=settings.momentum,
        **metric,
    )


def _spike_and_slab(settings: Settings, model: nn.Module, sparse: list[str] | None) -> dict[str, Prior]:
    """One prior for each sparse layer, which expects the share that is to be kept and counts as much as the weights.

    Under the paper's Beta(1, p) the inclusion probabilities of a network run to zero while sigma, and with it the
    spike, is still wide, and never come back.
    """
    kept = 1.0 - settings.sparsity if settings.sparsity else 0.5
    chosen = choose_sparse(model, sparse)
    sizes = {name: p.numel() for name, p in model.named_parameters() if name in chosen}
    return {
        name: SpikeSlab(settings.v0, settings.v1, kept * size, (1 - kept) * size, delta=kept, latents="averaged")
        for name, size in sizes.items()
    }


def sparse_layers(model: nn.Module) -> list[str] | None:
    """The layers that the network itself names in ``SPARSE``; None, for all weights, if it names none."""
    network, prefix = (model.network, "network.") if isinstance(model, Surrogate) else (model, "")
    names = getattr(network, "SPARSE", None)
    return [prefix + name for name in names] if names is not None else None


class _Task:
    """The data of a run: encoded training data, and the data that are watched while it runs."""

    def __init__(self, settings: Settings, data: DataSet, surrogate: Surrogate, device: torch.device) -> None:
        inputs, outputs = data.inputs("train"), data.outputs("train")
        held = settings.held(len(inputs))
        if len(inputs) - held < 1:
            raise ValueError(f"{data.folder} has {len(inputs)} training samples, of which none are left to train on")
        if settings.validation and not held:
            raise ValueError(
                f"validation = {settings.validation!r} of {len(inputs)} training samples is none: choose a larger share"
            )
        self.problem = data.problem
        self.problem.check(inputs)
        self.training = _encoded(surrogate, inputs[held:], outputs[held:], data, device)
        self.range = range_of(inputs[held:])
        watched = (inputs[:held], outputs[:held]) if held else (data.inputs("test"), data.outputs("test"))
        self.inputs, self.outputs = watched

    def watch(self, model: nn.Module) -> dict[str, float]:
        """Errors on the validation data or, without any, on the test part, in the units that are shown."""
        if not len(self.inputs):
            return {}
        assert isinstance(model, Surrogate)
        found = self.problem.errors(model.predict(self.inputs).double().numpy(), self.outputs, self.inputs)
        shown = [m for m in self.problem.measures if m.factor != 1.0] or self.problem.measures[:1]
        return {m.name: m.factor * float(found[m.name].mean()) for m in shown}


def _encoded(
    surrogate: Surrogate, inputs: Array, outputs: Array, data: DataSet, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Fit the codec to training data, and encode them."""
    x, y = torch.from_numpy(inputs), torch.from_numpy(outputs)
    codec = surrogate.codec
    codec.fit(x, y)
    encoded = codec.encode(x).to(device, torch.float32), codec.encode_outputs(y, x).to(device, torch.float32)
    buffers = [buffer.float() for buffer in codec.buffers()]
    if not all(bool(part.isfinite().all()) for part in (*encoded, *buffers)):
        raise ValueError(
            f"{data.folder} has numbers that single precision cannot hold (inputs up to {abs(inputs).max():g}, outputs "
            f"up to {abs(outputs).max():g}): choose other units"
        )
    return encoded[0], encoded[1].flatten(1)


def _bank(settings: Settings, place: SurrogateRun, steps: int) -> PosteriorBank | None:
    """The bank for the posterior samples, evenly spread over the end of each cycle; None if none are to be kept."""
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
    blocks = chain.flat.sparse_blocks
    sparse = {b.name: (b.size, b.size - int(chain.flat.vector[b.span].count_nonzero())) for b in blocks}
    inclusion = {}
    if isinstance(chain, Sampler):
        bins = torch.linspace(0, 1, 21)
        inclusion = {
            n: torch.histogram(r.flatten().float().cpu(), bins)[0].int().tolist() for n, r in chain.inclusion().items()
        }
    return {
        "remarks": surrogate.codec.remarks(),
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
