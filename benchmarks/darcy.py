"""Darcy flow beside scikit-fem: time per field on one core, cost per cell, and data sets end to end.

``python benchmarks/darcy.py`` prints a table and writes the records and the figure of the cost per cell. The peer is
scikit-fem's RT0-P0 with SciPy's spsolve on the saddle point system, with everything that does not depend on kappa made
once outside the clock.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import skfem
from scipy import sparse
from scipy.sparse.linalg import spsolve
from skfem.helpers import div, dot
from threadpoolctl import threadpool_limits

from benchmarks.interleaved import Record, measure, record
from sparse_langevin import darcy

matplotlib.use("Agg")
CELLS = (25, 50, 100, 200, 400)
PEER = "scikit-fem + spsolve"


@skfem.BilinearForm
def mass(u, v, w):
    return dot(u, v) / w["k"]


@skfem.BilinearForm
def divergence(u, q, w):
    return -div(u) * q


@skfem.LinearForm
def load(q, w):
    return -1.0 * q


@skfem.LinearForm
def inflow(v, w):
    return -dot(v, w.n)


def peer(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """scikit-fem's solver of the paper's problem on n by n cells; returns the pressure in its own order."""
    line = np.linspace(0, 1, n + 1)
    mesh = skfem.MeshQuad.init_tensor(line, line)
    velocity = skfem.Basis(mesh, skfem.ElementQuadRT0())
    pressure = velocity.with_element(skfem.ElementQuad0())
    i, j = np.floor(mesh.p[:, mesh.t].mean(1) * n).astype(int)
    b = divergence.assemble(velocity, pressure)
    left = mesh.facets_satisfying(lambda x: np.isclose(x[0], 0.0), boundaries_only=True)
    g = inflow.assemble(skfem.FacetBasis(mesh, skfem.ElementQuadRT0(), facets=left))
    right_side = np.concatenate([g, load.assemble(pressure)])
    closed = mesh.facets_satisfying(lambda x: np.isclose(x[1], 0.0) | np.isclose(x[1], 1.0), boundaries_only=True)
    fixed = velocity.get_dofs(closed).all()

    def solve(kappa: np.ndarray) -> np.ndarray:
        k = pressure.zeros()
        k[pressure.element_dofs[0]] = kappa[j, i]
        a = mass.assemble(velocity, k=pressure.interpolate(k))
        system = sparse.bmat([[a, b.T], [b, None]], format="csc")
        solution = skfem.solve(*skfem.condense(system, right_side, D=fixed), solver=lambda m, r: spsolve(m.tocsc(), r))
        field = np.zeros((n, n))
        field[j, i] = solution[velocity.N :][pressure.element_dofs[0]]
        return field

    return solve


def per_field(n: int, repeats: int) -> list[Record]:
    """Time of one field of n by n cells, ours and the peer's, on one core."""
    fields = darcy.KLE(darcy.Grid(n, n), terms=32)
    kappa = fields.sample(np.random.default_rng(n))[0]
    ours, theirs = darcy.Solver((n, n)), peer(n)
    assert np.allclose(ours.solve(kappa).pressure, theirs(kappa), rtol=1e-8), "the two solvers disagree"
    with threadpool_limits(1):
        seconds = measure({"ours": lambda: ours.solve(kappa), "peer": lambda: theirs(kappa)}, repeats)
    return [
        record(f"Darcy, {n}x{n} cells", seconds["ours"], PEER, seconds["peer"]),
        record(f"Darcy, {n}x{n} cells, {PEER}", seconds["peer"], PEER, seconds["peer"]),
    ]


def end_to_end(samples: int, repeats: int = 3) -> Record:
    """Samples per second of a whole data set at 50 by 50: field, solution, file."""
    rates = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            darcy.generate(darcy.Recipe("kle", samples), Path(folder) / "data", workers=2)
            rates.append(samples / (time.perf_counter() - start))
    return {
        "name": f"Darcy, data set of {samples} samples at 50x50, 2 processes",
        "value": float(np.median(rates)),
        "unit": "samples/s",
        "versus": "",
        "ratio": 1.0,
        "spread": float(np.ptp(rates)),
    }


def figure(rows: list[Record], path: Path) -> None:
    """Microseconds per cell against the number of cells."""
    from matplotlib import pyplot as plt

    value = {str(row["name"]): float(str(row["value"])) for row in rows}
    fig, axis = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    for label, suffix in (("sparse-langevin", ""), (PEER, f", {PEER}")):
        cost = [1e3 * value[f"Darcy, {n}x{n} cells{suffix}"] / n**2 for n in CELLS]
        axis.loglog([n**2 for n in CELLS], cost, "o-", label=label)
    axis.set(xlabel="cells", ylabel="microseconds per cell, one core", title="Cost of one flow problem")
    axis.grid(True, which="both", alpha=0.3)
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=120)
    plt.close(fig)


def records(figures: Path) -> list[Record]:
    """Everything about Darcy flow, and its figure."""
    rows: list[Record] = []
    for n in CELLS:
        rows += per_field(n, repeats={25: 30, 50: 20, 100: 8, 200: 3}.get(n, 1))
    figure(rows, figures / "bench-darcy.png")
    return [*rows, end_to_end(3000)]


if __name__ == "__main__":
    for row in records(Path("results")):
        print(row)
