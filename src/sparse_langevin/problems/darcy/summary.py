"""What a data set holds, in a few lines of text."""

from typing import Literal

import numpy as np
from scipy.linalg import eigh

from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.errors import e1, e2


def summary(data: DarcyData) -> dict[str, str]:
    """Names and values to print; reads the whole data set."""
    recipe, grid = data.recipe, data.grid
    kappa, test = data.array("kappa"), data.array("test").astype(bool)
    settings = ", ".join(f"{k} {_short(v)}" for k, v in recipe["settings"].items())
    size = sum((data.folder / name).stat().st_size for name in data.manifest["shards"])
    lines = {
        "kind": recipe["kind"],
        "settings": settings or "defaults",
        "grid": f"{grid.nx} by {grid.ny} cells on [0, {grid.lx:g}] x [0, {grid.ly:g}], {grid.edges} edges",
        "source": f"{recipe['source']:g}",
        "samples": f"{len(data)}: {int((~test).sum())} to train, {int(test.sum())} to test",
        "seed": str(recipe["seed"]),
        "permeability": f"{kappa.min():.4g} to {kappa.max():.4g}, mean {kappa.mean():.4g}",
        "redrawn fields": str(int(data.array("redraws").sum())),
        "mass residual": f"at most {data.array('mass_residual').max():.1e}",
        "size": f"{size / 1e6:.1f} MB in {len(data.manifest['shards'])} files",
        "made with": ", ".join(f"{name} {number}" for name, number in data.manifest["versions"].items()),
    }
    if 0 < test.sum() < len(test):
        first, second = mean_predictor_errors(data)
        lines["mean predictor"] = f"e1 {100 * first:.2f} %, e2 {100 * second:.2f} % on the test set"
        first, second = first_order_errors(data)
        lines["first order"] = f"e1 {100 * first:.2f} %, e2 {100 * second:.2f} % on the test set"
    return lines


def mean_predictor_errors(data: DarcyData, split: Literal["train", "test"] = "test") -> tuple[float, float]:
    """Mean e1 and e2 of always answering the training mean: what any surrogate has to beat."""
    mean = data.array("velocity", "train").mean(0)
    true, kappa = data.array("velocity", split), data.array("kappa", split)
    return float(np.mean(e1(data.grid, mean, true))), float(np.mean(e2(data.grid, mean, true, kappa)))


def first_order_errors(data: DarcyData, split: Literal["train", "test"] = "test") -> tuple[float, float]:
    """Mean e1 and e2 of `conservation.first_order` around the training mean: how far a surrogate is from linear."""
    import torch  # slow to load

    from sparse_langevin.problems.darcy.conservation import first_order

    usual = [torch.from_numpy(data.array(name, "train")).mean(0) for name in ("kappa", "velocity")]
    true, kappa = data.array("velocity", split), data.array("kappa", split)
    predicted = first_order(data.grid, torch.from_numpy(kappa), usual[0].mean(), usual[1]).numpy()
    return float(np.mean(e1(data.grid, predicted, true))), float(np.mean(e2(data.grid, predicted, true, kappa)))


def linear_code_error(data: DarcyData, size: int) -> float:
    """Mean e1 over the test set of the best answer that is linear in ``size`` numbers: principal components.

    The numbers may depend on the solution. It is about what a network can reach whose code has that size.
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
    """A value, with a hash cut to its beginning."""
    text = str(value)
    return text if len(text) < 40 else text[:12] + "..."
