"""Darcy flow beside scikit-fem: time per field on one core, cost per cell, and data sets end to end."""

import tempfile
import time
from pathlib import Path

import matplotlib
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import peers
from benchmarks.interleaved import Record, compare, measure, record
from sparse_langevin.problems import darcy

matplotlib.use("Agg")
REPEATS = {25: 30, 50: 20, 100: 8, 200: 3, 400: 1}  # by cells along a side
OURS, PEER = "sparse-langevin", "scikit-fem + spsolve"


def records(figures: Path, quick: bool = False) -> list[Record]:
    """Everything about Darcy flow, and its figure."""
    repeats = {5: 2, 10: 2} if quick else REPEATS
    with_peer = not quick and peers.find("skfem") is not None
    rows = [row for n in repeats for row in per_field(n, repeats[n], with_peer)]
    figure(rows, list(repeats), figures / "bench-darcy.png")
    return [*rows, end_to_end(20 if quick else 3000)]


def per_field(n: int, repeats: int, with_peer: bool) -> list[Record]:
    """Time of one field of n by n cells, ours and the peer's, on one core."""
    fields = darcy.KLE(darcy.Grid(n, n), terms=min(32, n))
    kappa = fields.sample(np.random.default_rng(n))[0]
    ours = darcy.Solver((n, n))
    contenders = {OURS: lambda: ours.solve(kappa)}
    if with_peer:
        from benchmarks import darcy_peer

        theirs = darcy_peer.solver(n)
        if n <= 100:  # beyond, the peer takes up to a minute
            assert np.allclose(ours.solve(kappa).pressure, theirs(kappa), rtol=1e-8), "the two solvers disagree"
        contenders[PEER] = lambda: theirs(kappa)
    with threadpool_limits(1):
        seconds = measure(contenders, repeats)
    return compare(f"one field, {n}x{n} cells", seconds, PEER if with_peer else OURS)


def end_to_end(samples: int, repeats: int = 3) -> Record:
    """Samples per second of a whole data set at 50 by 50: field, solution, file."""
    rates = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            darcy.generate(darcy.Recipe("kle", samples), Path(folder) / "data", workers=2)
            rates.append(samples / (time.perf_counter() - start))
    return record(f"data set at 50x50, 2 processes: {samples:,} samples", rates, unit="samples/s")


def figure(rows: list[Record], sides: list[int], path: Path) -> None:
    """Microseconds per cell against the number of cells."""
    from matplotlib import pyplot as plt

    value = {str(row["name"]): float(str(row["value"])) for row in rows}
    fig, axis = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    for label in (OURS, PEER):
        cost = {n: value.get(f"one field, {n}x{n} cells: {label}") for n in sides}
        cells = [n**2 for n in sides if cost[n] is not None]
        axis.loglog(cells, [1e3 * c / n**2 for n, c in cost.items() if c is not None], "o-", label=label)
    axis.set(xlabel="cells", ylabel="microseconds per cell, one core", title="Cost of one flow problem")
    axis.grid(True, which="both", alpha=0.3)
    axis.legend()
    fig.savefig(path, dpi=120)
    plt.close(fig)
