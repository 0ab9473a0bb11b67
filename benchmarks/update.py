"""Cost of one sampler step beside plain SGD and Adam steps of torch, and of the bare update beside its rivals.

``python benchmarks/update.py [--hidden 256 512] [--repeats 20]`` prints tables and writes results/bench.json, a list
of {name, value, unit, versus, ratio, spread}. All contenders run interleaved, so that a noisy machine is noisy for
all of them; values are medians, and the spread is the interquartile range of the ratio.

Three comparisons: training steps of networks; the update alone, PSGLD-SA with noise and latent variables on the
paper's 8.25 million weights, by each engine and by torch.compile with torch's own noise; and a linear model of 200
weights on 100 examples, where the overhead of Python and autograd is all there is.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from sparse_langevin import GaussianLikelihood, GaussianPrior, SpikeSlab, psgld, psgld_sa, sgld, sgld_sa
from sparse_langevin.kernels import BlockState, StepScalars, choose, reference
from sparse_langevin.noise import CounterNoise

BATCH, INPUTS, OUTPUTS = 64, 64, 64
WEIGHTS, SPARSE = 8_252_320, 6_110_624  # the paper's network, and its sparse layers


def network(hidden: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(INPUTS, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, OUTPUTS)
    )


def contenders(hidden: int) -> dict[str, Callable[[], object]]:
    """One step of each, as a function without arguments."""
    x, y = torch.randn(BATCH, INPUTS), torch.randn(BATCH, OUTPUTS)
    steps: dict[str, Callable[[], object]] = {}

    def plain(optimizer: torch.optim.Optimizer, model: nn.Module) -> Callable[[], object]:
        def step() -> None:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

        return step

    model = network(hidden)
    steps["torch SGD"] = plain(torch.optim.SGD(model.parameters(), lr=1e-3), model)
    model = network(hidden)
    steps["torch Adam (fused)"] = plain(torch.optim.Adam(model.parameters(), fused=True), model)
    for algorithm, step_size in ((sgld, 1e-7), (psgld, 1e-4), (sgld_sa, 1e-7), (psgld_sa, 1e-4)):
        sampler = algorithm(network(hidden), GaussianLikelihood(), num_data=1000, step_size=step_size)
        steps[algorithm.__name__] = lambda sampler=sampler: sampler.step(x, y)
    return steps


def blocks() -> list[BlockState]:
    """One dense and one sparse block of the paper's sizes."""
    beta, grad = 0.1 * torch.randn(WEIGHTS), torch.randn(WEIGHTS)
    v, rho, s = grad.square(), torch.full((SPARSE,), 0.5), torch.full((SPARSE,), 0.5)
    cut = WEIGHTS - SPARSE
    dense = BlockState(GaussianPrior(), beta[:cut], grad[:cut], v=v[:cut])
    return [dense, BlockState(SpikeSlab(), beta[cut:], grad[cut:], start=cut, v=v[cut:], rho=rho, s=s)]


def bare_updates() -> dict[str, Callable[[], object]]:
    """The update alone: the engines, torch.compile with torch's generator, and Adam."""
    numbers = (1e-5, 1.0, 0.01, 1.0, 0.999, 1e-3)
    noise = CounterNoise(0, WEIGHTS)
    count = itertools.count(1)
    parameter = nn.Parameter(torch.randn(WEIGHTS))
    parameter.grad = torch.randn(WEIGHTS)
    steps: dict[str, Callable[[], object]] = {"torch Adam (fused)": torch.optim.Adam([parameter], fused=True).step}
    for name in ("native", "reference"):
        engine, states = choose(parameter.data, name), blocks()
        steps[f"{name} engine"] = lambda engine=engine, states=states: engine.step(
            states, StepScalars(False, *numbers), noise, next(count)
        )
    update = torch.compile(lambda *arguments: torch.stack(reference.update(*arguments)), dynamic=True)
    scalars = StepScalars(False, *torch.tensor(numbers, dtype=torch.float64).unbind())
    states, z = blocks(), torch.empty(WEIGHTS)

    def compiled() -> object:
        z.normal_()
        with torch.no_grad():
            return [update(state, scalars, z[state.span]).tolist() for state in states]

    steps["torch.compile and normal_"] = compiled
    return steps


def linear_models() -> dict[str, Callable[[], object]]:
    """Steps on 200 weights, and the forward and backward pass in them."""
    torch.manual_seed(0)
    x, model = torch.randn(100, 200), nn.Linear(200, 1)
    y = x[:, :1] + torch.randn(100, 1)
    parameters = list(model.parameters())
    steps: dict[str, Callable[[], object]] = {
        "autograd alone": lambda: torch.autograd.grad((model(x) - y).square().sum(), parameters)
    }
    for engine in ("native", "reference"):
        sampler = psgld_sa(nn.Linear(200, 1), GaussianLikelihood(), num_data=100, step_size=1e-3, engine=engine)
        steps[f"psgld_sa, {engine} engine"] = lambda sampler=sampler: sampler.step(x, y)
    return steps


def measure(steps: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds per step, interleaved."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def records(what: str, seconds: dict[str, list[float]], versus: str) -> list[dict[str, object]]:
    """One record per contender, with its ratio to ``versus``."""
    rows = []
    for name, times in seconds.items():
        ratios = sorted(t / v for t, v in zip(times, seconds[versus], strict=True))
        quarter = len(ratios) // 4
        rows.append(
            {
                "name": f"{name}, {what}",
                "value": 1e3 * statistics.median(times),
                "unit": "ms",
                "versus": versus,
                "ratio": statistics.median(ratios),
                "spread": ratios[-quarter - 1] - ratios[quarter],
            }
        )
    return rows


def main() -> None:
    """Measure, print a table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 512, 2048], help="width of the hidden layers")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("results/bench.json"))
    arguments = parser.parse_args()
    rows = []
    for hidden in arguments.hidden:
        size = sum(p.numel() for p in network(hidden).parameters())
        seconds = measure(contenders(hidden), arguments.repeats)
        rows += records(f"training step, {size} parameters, batch {BATCH}", seconds, versus="torch Adam (fused)")
    seconds = measure(bare_updates(), arguments.repeats)
    rows += records(f"update alone, {WEIGHTS} parameters", seconds, versus="torch Adam (fused)")
    seconds = measure(linear_models(), 20 * arguments.repeats)
    rows += records("linear model of 200 weights", seconds, versus="autograd alone")
    table = Table("step", "ms", "ratio", "spread", "to", title=f"{torch.get_num_threads()} threads")
    for row in rows:
        numbers = (f"{row[key]:.2f}" for key in ("value", "ratio", "spread"))
        table.add_row(row["name"], *numbers, row["versus"])
    Console().print(table)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
