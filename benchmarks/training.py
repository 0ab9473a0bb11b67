"""One training step of the paper's network by PSGLD-SA, beside its own gradient and plain loops of torch.

The gradient's cost depends on the allocator by a factor of about two: glibc gives large blocks back to the system
after each step and takes them anew, page by page. The library tells it to keep them when a run begins, see
`runtime.memory`, for everybody in the process. So everything is measured in two child processes, without and with
that.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from benchmarks.interleaved import Record, compare, measure, record
from sparse_langevin import Batches, GaussianLikelihood, psgld_sa
from sparse_langevin.problems.darcy import EncoderDecoder, Grid
from sparse_langevin.runtime import memory

GRADIENT = "forward and backward pass alone"
ALLOCATORS = {"0": "glibc as it is", "1": "glibc keeping its memory"}  # by the value of the library's variable


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Measure under both settings of the allocator, then growing batches and data sets under ours."""
    cells, batch, repeats = (10, 4, 3) if quick else (50, 64, 12)
    rows: list[Record] = []
    command = [sys.executable, "-m", "benchmarks.training", str(cells), str(batch), str(repeats)]
    for keep, label in ALLOCATORS.items():
        environment = os.environ | {memory.VARIABLE: keep}
        answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        group = f"encoder-decoder, {cells}x{cells} cells, batch {batch}, {label}"
        rows += compare(group, json.loads(answer), GRADIENT)
    rows += batches(cells, (1, 2) if quick else (1, 4, 16, 64, 256), min(repeats, 7))
    return rows + data_sets((1_000, 2_000) if quick else (1_000, 10_000, 100_000, 1_000_000), 10)


def steps(cells: int, batch: int) -> dict[str, Callable[[], object]]:
    """One step of each contender, as a function without arguments."""
    memory.keep_memory()  # as `fit` does
    torch.manual_seed(0)
    grid = Grid(cells, cells)
    x, y = torch.randn(batch, 1, cells, cells), torch.randn(batch, grid.edges)
    model = EncoderDecoder(grid)
    sampler = psgld_sa(
        EncoderDecoder(grid), GaussianLikelihood(), num_data=1000, step_size=1e-5, sparse=EncoderDecoder.SPARSE
    )

    def gradient() -> None:
        model.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()

    contenders: dict[str, Callable[[], object]] = {GRADIENT: gradient, "psgld_sa": lambda: sampler.step(x, y)}
    for name, optimizer in (("torch SGD", torch.optim.SGD), ("torch Adam", torch.optim.Adam)):
        contenders[name] = plain_loop(plain_network(grid), optimizer, x, y)
    return contenders


def plain_network(grid: Grid) -> nn.Module:
    """The same network, with torch's own layers throughout."""
    network = EncoderDecoder(grid)
    first = network.encode[0]
    network.encode[0] = nn.Conv2d(1, first.out_channels, 3, padding=1)
    network.encode[4] = nn.AvgPool2d(2, ceil_mode=True)
    return network


def batches(cells: int, sizes: tuple[int, ...], repeats: int) -> list[Record]:
    """The cost of a step as the batch grows, and beside it that of the gradient alone."""
    rows: list[Record] = []
    for size in sizes:
        chosen = {name: step for name, step in steps(cells, size).items() if name in (GRADIENT, "psgld_sa")}
        rows += compare(f"growing batch, {cells}x{cells} cells, batch {size}", measure(chosen, repeats), GRADIENT)
    return rows


def data_sets(sizes: tuple[int, ...], repeats: int) -> list[Record]:
    """The cost of the next batch of 64 as the data set grows: one shuffle an epoch, one gather a batch."""
    rows: list[Record] = []
    for size in sizes:
        loader = iter(Batches(torch.zeros(size, 200), torch.zeros(size, 1), batch_size=64))
        seconds = measure({"next batch": functools.partial(next, loader)}, repeats)["next batch"]
        rows.append(record(f"growing data, {size:,} rows of 200: next batch", seconds, unit="us"))
    return rows


def plain_loop(
    model: nn.Module, optimizer: Callable[..., torch.optim.Optimizer], x: torch.Tensor, y: torch.Tensor
) -> Callable[[], object]:
    """A step as most people write it."""
    chosen = optimizer(model.parameters(), lr=1e-4)

    def step() -> float:
        chosen.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        chosen.step()
        return loss.item()

    return step


if __name__ == "__main__":
    print(json.dumps(measure(steps(*map(int, sys.argv[1:3])), int(sys.argv[3]))))
