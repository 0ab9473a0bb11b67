"""A surrogate of a simulator of your own: from arrays to a report with error bars.

The simulator here is a front in one dimension, u_t = D u_xx + r u (1 - u) (u - 1/5): a bump of a given place and width
spreads or dies, depending on diffusion D and rate r. Four parameters go in, and the final curve u(x) comes out.
Whatever your own simulator is, all that is needed are two arrays whose first dimension is the samples.

It prints the errors of the surrogate on test samples, beside those of answers that need no network.

Run: python examples/own_simulator.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy.linalg import solve_banded

from sparse_langevin.problems.arrays import import_arrays
from sparse_langevin.surrogates import Settings, train
from sparse_langevin.surrogates.report import judge, report

NAMES = ["place", "width", "diffusion", "rate"]
LOWEST, HIGHEST = np.array([0.2, 0.03, 0.002, 1.0]), np.array([0.8, 0.15, 0.02, 10.0])
X = np.linspace(0, 1, 101)
STEP, STEPS = 2e-3, 200


def simulate(parameters: np.ndarray) -> np.ndarray:
    """Return the final u(x); diffusion is implicit, reaction explicit, and nothing flows through the ends."""
    place, width, diffusion, rate = parameters
    weight = diffusion * STEP / (X[1] - X[0]) ** 2
    bands = np.tile([[-weight], [1 + 2 * weight], [-weight]], len(X))
    bands[0, 1] = bands[2, -2] = -2 * weight
    u = np.exp(-0.5 * ((X - place) / width) ** 2)
    for _ in range(STEPS):
        u = solve_banded((1, 1), bands, u + STEP * rate * u * (1 - u) * (u - 0.2))
    return u


def main(out: Path = Path("out"), samples: int = 500, epochs: int = 200) -> dict[str, float]:
    """Simulate, train, judge, and write the report; return the errors in percent and the coverage."""
    torch.set_num_threads(1)  # the network is small, and threads would only wait for each other
    rng = np.random.default_rng(0)
    inputs = rng.uniform(LOWEST, HIGHEST, (samples, 4))
    outputs = np.stack([simulate(row) for row in inputs])

    data = import_arrays(
        inputs, outputs, out / "data", output_layout="x", input_names=NAMES, output_names="u", title="A front"
    )
    settings = Settings.of("psgld-sa", sparsity=0.5, epochs=epochs, validation=0.1)
    run = train(settings, data, out / "run", progress=False)
    judged = judge(run)
    (out / "own_simulator.html").write_text(report([judged]))

    headline = data.problem.measures[0]
    errors = {"surrogate": judged.best.shown(headline)}
    errors |= {rival.name: headline.factor * rival.errors[headline.name] for rival in judged.best.baselines}
    print(f"{headline.label} on {len(judged.best)} test samples")
    for name, error in errors.items():
        print(f"{name:24s}{error:8.2f}")
    if judged.trust is None:
        raise ValueError("no posterior samples were kept: train longer")
    known = judged.trust.recalibrated or judged.trust.plain
    covered = known.coverage[0.9]
    print(f"90 % intervals, corrected on validation samples, cover {covered:.1%} of the curves' points")
    return errors | {"coverage": covered}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    folder = parser.parse_args().out
    main(folder)
    print(f"report: {folder / 'own_simulator.html'}")
