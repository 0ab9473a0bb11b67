"""Cost of one sampler step beside plain SGD and Adam steps of torch, on one network and batch.

``python benchmarks/update.py [--hidden 256 512] [--repeats 20]`` prints a table and writes results/bench.json, a list
of {name, value, unit, versus, ratio, spread}. All contenders run interleaved, so that a noisy machine is noisy for
all of them; values are medians, and the spread is the interquartile range of the ratio.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from sparse_langevin import GaussianLikelihood, psgld, psgld_sa, sgld, sgld_sa

BATCH, INPUTS, OUTPUTS = 64, 64, 64


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


def records(hidden: int, seconds: dict[str, list[float]], versus: str) -> list[dict[str, object]]:
    """One record per contender, with its ratio to ``versus``."""
    size = sum(p.numel() for p in network(hidden).parameters())
    rows = []
    for name, times in seconds.items():
        ratios = sorted(t / v for t, v in zip(times, seconds[versus], strict=True))
        quarter = len(ratios) // 4
        rows.append(
            {
                "name": f"step of {name}, {size} parameters, batch {BATCH}",
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
        rows += records(hidden, measure(contenders(hidden), arguments.repeats), versus="torch Adam (fused)")
    table = Table("step", "ms", "x Adam", "spread", title=f"one training step, {torch.get_num_threads()} threads")
    for row in rows:
        table.add_row(row["name"], f"{row['value']:.2f}", f"{row['ratio']:.2f}", f"{row['spread']:.2f}")
    Console().print(table)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
