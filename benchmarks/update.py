"""Cost of one sampler step beside plain SGD and Adam steps of torch, and of the bare update beside its rivals.

Five comparisons: training steps of networks; the update alone, PSGLD-SA with noise and latent variables on the paper's
8.25 million weights, by each engine and by torch.compile with torch's own noise; the same against the number of
weights; a linear model of 200 weights on 100 examples, where the overhead of Python and autograd is all there is; and
samplers of posteriors and blackjax on a small network.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch
from torch import nn

from benchmarks import gradient_peers, peers
from benchmarks.interleaved import Record, compare, measure, record
from sparse_langevin import GaussianLikelihood, GaussianPrior, RMSprop, SpikeSlab, psgld, psgld_sa, sgld, sgld_sa
from sparse_langevin.sampling.kernels import BlockState, StepScalars, choose, reference
from sparse_langevin.sampling.noise import CounterNoise

matplotlib.use("Agg")
Step = Callable[[], object]
BATCH, INPUTS, OUTPUTS, EXAMPLES = 64, 64, 64, 1000
WEIGHTS, SPARSE = 8_252_320, 6_110_624  # the paper's network, and its sparse layers
NUMBERS = tuple(RMSprop(0.999).numbers(2))
SCALARS = StepScalars(1e-5, 1.0, 0.01, 0.0, NUMBERS)  # what they are does not change the cost of a step
ADAM = "torch Adam (fused)"
OURS = "PSGLD-SA, native engine"


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Everything about the update, and the figure of its cost against the number of weights."""
    repeats = 3 if quick else 30
    rows: list[Record] = []
    for hidden in (16,) if quick else (64, 512, 2048):
        size = sum(p.numel() for p in network(hidden).parameters())
        seconds = measure(training_steps(hidden), repeats, calls=1 if hidden > 64 else 10)
        rows += compare(f"training step, {size:,} parameters, batch {BATCH}", seconds, ADAM)
    weights, sparse = (30_000, 20_000) if quick else (WEIGHTS, SPARSE)
    steps = bare_updates(weights, sparse) | ({} if quick else compiled_update(weights, sparse))
    rows += compare(f"update alone, {weights:,} parameters", measure(steps, repeats), ADAM)
    rows += linear_model(repeats)
    rows += scaling((10_000, 100_000) if quick else sizes(), repeats, figures / "bench-update.png")
    seconds = measure(small_network(quick), repeats, calls=20)
    size = sum(p.numel() for p in network(64).parameters())
    return rows + compare(f"one sampler step, {size:,} parameters, batch {BATCH}", seconds, "sgld", unit="us")


def network(hidden: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(INPUTS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, OUTPUTS)
    )


def training_steps(hidden: int) -> dict[str, Step]:
    """One step of each algorithm, as a function without arguments."""
    x, y = torch.randn(BATCH, INPUTS), torch.randn(BATCH, OUTPUTS)
    steps: dict[str, Step] = {}

    def plain(optimizer: torch.optim.Optimizer, model: nn.Module) -> Step:
        def step() -> None:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

        return step

    model = network(hidden)
    steps["torch SGD"] = plain(torch.optim.SGD(model.parameters(), lr=1e-3), model)
    model = network(hidden)
    steps[ADAM] = plain(torch.optim.Adam(model.parameters(), fused=True), model)
    for algorithm, step_size in ((sgld, 1e-7), (psgld, 1e-4), (sgld_sa, 1e-7), (psgld_sa, 1e-4)):
        sampler = algorithm(network(hidden), GaussianLikelihood(), num_data=EXAMPLES, step_size=step_size)
        steps[algorithm.__name__] = lambda sampler=sampler: sampler.step(x, y)
    return steps


def blocks(weights: int, sparse: int) -> list[BlockState]:
    """One dense and one sparse block; the dense one may be empty."""
    beta, grad = 0.1 * torch.randn(weights), torch.randn(weights)
    v, rho, s = grad.square(), torch.full((sparse,), 0.5), torch.full((sparse,), 0.5)
    cut = weights - sparse
    dense = BlockState(GaussianPrior(), RMSprop(), beta[:cut], grad[:cut], moments=(v[:cut],), numbers=(1.0,))
    numbers = tuple(SpikeSlab(latents="averaged").numbers(1.0, {"delta": 0.5}))
    last = BlockState(
        SpikeSlab(latents="averaged"), RMSprop(), beta[cut:], grad[cut:], cut, (rho, s), (v[cut:],), numbers=numbers
    )
    return [dense, last] if cut else [last]


def adam(weights: int) -> Step:
    """The fused Adam of torch on one vector."""
    parameter = nn.Parameter(torch.randn(weights))
    parameter.grad = torch.randn(weights)
    return torch.optim.Adam([parameter], fused=True).step


def bare_updates(weights: int, sparse: int, engines: tuple[str, ...] = ("native", "reference")) -> dict[str, Step]:
    """The update alone, by our engines, and Adam."""
    noise, count = CounterNoise(0, weights), itertools.count(1)
    steps: dict[str, Step] = {ADAM: adam(weights)}
    for name in engines:
        states = blocks(weights, sparse)
        engine = choose(states[0].beta, name)
        steps[f"PSGLD-SA, {name} engine"] = lambda engine=engine, states=states: engine.step(
            states, SCALARS, noise, next(count)
        )
    return steps


def compiled_update(weights: int, sparse: int) -> dict[str, Step]:
    """The same by torch.compile, with noise from torch's generator."""
    update = torch.compile(lambda *arguments: torch.stack(reference.update(*arguments)), dynamic=True)
    first = torch.tensor(SCALARS[:-1], dtype=torch.float64).unbind()
    scalars = StepScalars(*first, torch.tensor(NUMBERS, dtype=torch.float64).unbind())
    states, z = blocks(weights, sparse), torch.empty(weights)

    def step() -> object:
        z.normal_()
        with torch.no_grad():
            return [update(state, scalars, z[state.span]).tolist() for state in states]

    return {"PSGLD-SA, torch.compile and normal_": step}


def linear_model(repeats: int) -> list[Record]:
    """Steps on 200 weights, and the forward and backward pass in them."""
    torch.manual_seed(0)
    x, model = torch.randn(100, 200), nn.Linear(200, 1)
    y = x[:, :1] + torch.randn(100, 1)
    parameters = list(model.parameters())
    steps: dict[str, Step] = {"autograd alone": lambda: torch.autograd.grad((model(x) - y).square().sum(), parameters)}
    for engine in ("native", "reference"):
        sampler = psgld_sa(nn.Linear(200, 1), GaussianLikelihood(), num_data=100, step_size=1e-3, engine=engine)
        steps[f"psgld_sa, {engine} engine"] = lambda sampler=sampler: sampler.step(x, y)
    seconds = measure(steps, repeats, calls=20)
    rates = [1 / s for s in seconds["psgld_sa, native engine"]]
    group = "linear model of 200 weights"
    rate = record(f"{group}: psgld_sa, native engine, rate", rates, unit="steps/s")
    return [*compare(group, seconds, "autograd alone", unit="us"), rate]


def sizes() -> list[int]:
    """Powers of ten from 1e5 to 1e8, as far as memory reaches."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return [size for size in (10**5, 10**6, 10**7, 10**8) if 60 * size < free]  # ours, Adam's, and their making


def scaling(counts: list[int] | tuple[int, ...], repeats: int, path: Path) -> list[Record]:
    """Cost of the update against the number of weights, all sparse, and the memory that it needs."""
    rows: list[Record] = []
    for count in counts:
        seconds = measure(bare_updates(count, count, ("native",)), max(3, min(repeats, 10**9 // count // 10)))
        rows += compare(f"update alone, all sparse, {count:,} parameters", seconds, ADAM)
    figure(rows, counts, path)
    state = blocks(1000, 1000)[0]
    held = sum(t.nbytes for t in (state.beta, state.grad, *state.moments, *state.latent)) / 1000
    bytes_adam = 16.0  # weight, gradient and two moments
    group = "memory of weights, gradient and state"
    return [
        *rows,
        record(f"{group}: {OURS}", [held], ADAM, [bytes_adam], unit="bytes/parameter"),
        record(f"{group}: {ADAM}", [bytes_adam], ADAM, [bytes_adam], unit="bytes/parameter"),
    ]


def figure(rows: list[Record], counts: list[int] | tuple[int, ...], path: Path) -> None:
    """Nanoseconds per parameter against the number of parameters."""
    from matplotlib import pyplot as plt

    value = {str(row["name"]): float(str(row["value"])) for row in rows}
    fig, axis = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    for name in (OURS, ADAM):
        cost = [1e6 * value[f"update alone, all sparse, {count:,} parameters: {name}"] / count for count in counts]
        axis.loglog(counts, cost, "o-", label=name)
    axis.set(xlabel="parameters", ylabel="nanoseconds per parameter", title="Cost of one update")
    axis.grid(True, which="both", alpha=0.3)
    axis.legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)


def small_network(quick: bool) -> dict[str, Step]:
    """One step of our samplers and of other libraries' on the same network, batch and data size."""
    x, y = torch.randn(BATCH, INPUTS), torch.randn(BATCH, OUTPUTS)
    sigma = GaussianLikelihood(learn=False)
    steps: dict[str, Step] = {}
    for algorithm, step_size in ((sgld, 1e-7), (psgld_sa, 1e-4)):
        sampler = algorithm(network(64), sigma, num_data=EXAMPLES, step_size=step_size)
        steps[algorithm.__name__] = lambda sampler=sampler: sampler.step(x, y)
    if not quick and peers.find("posteriors"):
        steps |= gradient_peers.posteriors_steps(network(64), x, y, EXAMPLES, 1e-7)
    if not quick and peers.find("blackjax"):
        steps |= gradient_peers.blackjax_steps(network(64), x, y, EXAMPLES, 1e-7)
    return steps
