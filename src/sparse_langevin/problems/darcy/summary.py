"""Summary of a data set, in a few lines of text."""

import numpy as np
from scipy.linalg import eigh

from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.errors import e1
from sparse_langevin.surrogates.evaluation import baselines


def summary(data: DarcyData) -> dict[str, str]:
    """Names and values to print, which takes reading the whole data set."""
    recipe, grid = data.recipe, data.grid
    kappa, test = data.array("kappa"), data.array("test").astype(bool)
    settings = ", ".join(f"{k} {_short(v)}" for k, v in recipe["settings"].items())
    size = sum((data.folder / name).stat().st_size for name in data.manifest["shards"])
    lines = {
        "kind": recipe["kind"],
        "settings": settings or "defaults",
        "grid": f"{grid.nx} by {grid.ny} cells on [0, {grid.lx:g}] x [0, {grid.ly:g}], {grid.edges} edges",
        "flow": data.problem.flow.describe(),
        "samples": f"{len(data)}: {int((~test).sum())} to train, {int(test.sum())} to test",
        "seed": str(recipe["seed"]),
        "permeability": f"{kappa.min():.4g} to {kappa.max():.4g}, mean {kappa.mean():.4g}",
        "redrawn fields": str(int(data.array("redraws").sum())),
        "mass residual": f"at most {data.array('mass_residual').max():.1e}",
        "size": f"{size / 1e6:.1f} MB in {len(data.manifest['shards'])} files",
        "made with": ", ".join(f"{name} {number}" for name, number in data.manifest["versions"].items()),
    }
    if 0 < test.sum() < len(test):
        for rival in baselines(data):
            first, second = (100 * rival.errors[name] for name in ("e1", "e2"))
            lines[rival.name] = f"e1 {first:.2f} %, e2 {second:.2f} % on the test set"
    return lines


def linear_code_error(data: DarcyData, size: int) -> float:
    """Mean e1 over the test set of velocities projected onto ``size`` principal components of the training velocities.

    It is about the best that a prediction linear in so many numbers can do, even if these depend on the true velocity,
    and about what a network with a code of that size can reach.
    """
    train, test = (data.array("velocity", part).astype(np.float64) for part in ("train", "test"))
    if not len(test):
        raise ValueError(f"{data.folder} has no samples in its test part to measure an error on")
    if not 1 <= size < min(train.shape):
        raise ValueError(
            f"a code of {size} numbers cannot be fitted to {len(train)} training samples with {train.shape[1]} "
            f"velocities each: choose 1 to {min(train.shape) - 1}"
        )
    mean = train.mean(0)
    train -= mean
    _, weights = eigh(train @ train.T, subset_by_index=[len(train) - size, len(train) - 1])
    modes, _ = np.linalg.qr(train.T @ weights)
    return float(np.mean(e1(data.grid, mean + (test - mean) @ modes @ modes.T, test)))


def _short(value: object) -> str:
    """A value as text; of a hash only the beginning."""
    text = str(value)
    return text if len(text) < 40 else text[:12] + "..."
