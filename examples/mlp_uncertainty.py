"""A curve with a gap in its data, and a network that knows where it does not know.

A small network is fitted to noisy observations of sin(1.2 x), none of them between -1 and 1. `psgld` draws from the
posterior of its weights under a standard normal prior; there are only 31 of them, so a spike-and-slab prior would have
nothing to remove. Four chains that start from draws of the prior, much further apart than the posterior is wide, share
one bank of samples: where they agree, they do so because of the data. The noise level is learned with the weights.

It prints error and coverage on new observations, where there were data and in the gap, and draws the posterior mean
with one and two standard deviations.

The bands are those of four short chains with finite steps. Against long runs of Hamiltonian Monte Carlo they have the
right shape, but tend to be too wide where there are data and too narrow in the gap.

Run: python examples/mlp_uncertainty.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, fit, psgld
from sparse_langevin.posterior import Prediction

NOISE, WIDTH, CHAINS, STEPS, BURN_IN = 0.2, 10, 4, 4000, 1000


def truth(x: np.ndarray) -> np.ndarray:
    """Return the curve that the data come from."""
    return np.sin(1.2 * x)


def observe(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return noisy observations of the curve."""
    return truth(x) + NOISE * rng.standard_normal(len(x))


def column(values: np.ndarray) -> Tensor:
    """Return values as a float32 column, one row per example."""
    return torch.tensor(values, dtype=torch.float32)[:, None]


def sample(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[nn.Module, PosteriorBank]:
    """Run the chains; their samples share a bank."""
    bank = PosteriorBank(thin=10, burn_in=BURN_IN)
    torch.manual_seed(seed)
    for chain in range(CHAINS):
        model = nn.Sequential(nn.Linear(1, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
        for parameter in model.parameters():
            nn.init.normal_(parameter)
        sampler = psgld(
            model,
            GaussianLikelihood(lambda_=0.1),  # a first guess of the noise variance, worth one observation
            num_data=len(x),
            step_size=4e-3,
            momentum=0.9,
            seed=seed,
            chain=chain,
        )
        fit(sampler, Batches(column(x), column(y), batch_size=len(x)), steps=STEPS, bank=bank)
    return model, bank


def score(model: nn.Module, bank: PosteriorBank, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the root mean square error and the coverage of the 95 % interval."""
    prediction = bank.predict(model, column(x))
    error = (prediction.mean - column(y)).abs()
    return float(error.square().mean().sqrt()), float((error < 1.96 * prediction.total_std).float().mean())


def main(out: Path = Path("out"), seed: int = 0) -> dict[str, float]:
    """Sample, print a table, draw the picture and return the key numbers."""
    torch.set_num_threads(1)  # the model is tiny: threads would only wait for each other
    rng = np.random.default_rng(seed)

    def outside_the_gap(n: int) -> np.ndarray:
        return rng.uniform(1, 3, n) * rng.choice([-1, 1], n)

    x, x_test, x_gap = outside_the_gap(60), outside_the_gap(1000), rng.uniform(-1, 1, 1000)
    y, y_test, y_gap = observe(x, rng), observe(x_test, rng), observe(x_gap, rng)
    model, bank = sample(x, y, seed)

    grid = np.linspace(-4.5, 4.5, 181)
    prediction = bank.predict(model, column(grid))
    spread = prediction.std[:, 0].numpy()
    numbers = {"noise": prediction.noise_std}
    numbers["rmse"], numbers["coverage"] = score(model, bank, x_test, y_test)
    numbers["rmse_gap"], numbers["coverage_gap"] = score(model, bank, x_gap, y_gap)
    numbers["std_data"] = float(spread[(np.abs(grid) > 1) & (np.abs(grid) < 3)].mean())
    numbers["std_gap"] = float(spread[np.abs(grid) < 0.5].mean())
    numbers["std_outside"] = float(spread[np.abs(grid) > 4].mean())
    print(f"{len(bank)} samples of {CHAINS} chains; learned noise {numbers['noise']:.3f}, true {NOISE}")
    print(f"{'':24s}{'rmse':>8s}{'coverage of 95 %':>18s}{'parameter std':>15s}")
    for name, key in (("where there were data", "data"), ("in the gap", "gap")):
        suffix = "" if key == "data" else "_gap"
        values = numbers["rmse" + suffix], numbers["coverage" + suffix], numbers["std_" + key]
        print(f"{name:24s}{values[0]:8.3f}{values[1]:18.1%}{values[2]:15.3f}")
    print(f"{'beyond the data':24s}{'':26s}{numbers['std_outside']:15.3f}")
    draw(out / "mlp_uncertainty.png", grid, prediction, x, y)
    return numbers


def draw(path: Path, grid: np.ndarray, prediction: Prediction, x: np.ndarray, y: np.ndarray) -> None:
    """Draw data, truth, posterior mean and bands."""
    figure = Figure(figsize=(7.5, 4.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    mean, std, total = (t[:, 0].numpy() for t in (prediction.mean, prediction.std, prediction.total_std))
    axes.fill_between(grid, mean - 2 * total, mean + 2 * total, color="#dbeaf3", label="new observation, 2 sd")
    axes.fill_between(grid, mean - 2 * std, mean + 2 * std, color="#9fc5dd", label="curve, 2 sd")
    axes.fill_between(grid, mean - std, mean + std, color="#5f9cc5", label="curve, 1 sd")
    axes.plot(grid, mean, color="#10456b", linewidth=1.8, label="posterior mean")
    axes.plot(grid, truth(grid), color="black", linestyle="--", linewidth=1.2, label="truth")
    axes.scatter(x, y, s=14, color="#d1495b", zorder=3, label="data")
    axes.set(xlabel="x", ylabel="y", xlim=(grid[0], grid[-1]), ylim=(-2.8, 2.8))
    axes.set_title("A network that knows where it has seen no data")
    axes.legend(frameon=False, ncols=2, fontsize=8, loc="upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    folder = parser.parse_args().out
    main(folder)
    print(f"picture: {folder / 'mlp_uncertainty.png'}")
