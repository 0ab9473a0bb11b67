"""Which of fifty predictors matter, and by how much.

There are 200 observations of 50 correlated predictors, five of which have an effect. `psgld_sa` samples the
coefficients of one `nn.Linear` under a spike-and-slab prior and learns for each the probability that it is in the
model. Least squares and the cross-validated lasso are fitted to the same data; an oracle knows which five to use.

Run: python examples/linear_regression.py [--out FOLDER]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LassoCV, LinearRegression
from torch import nn

from sparse_langevin import Batches, GaussianLikelihood, GaussianPrior, PosteriorBank, SpikeSlab, fit, psgld_sa

N, P, EFFECTS = 200, 50, (3.0, -2.0, 1.5, 1.0, 0.5)


def simulate(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predictors of unit variance, responses with noise of variance 1, and the true coefficients."""
    rng = np.random.default_rng(seed)
    correlation = 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))
    x = rng.multivariate_normal(np.zeros(P), correlation, size=N + 1000)
    beta = np.zeros(P)
    beta[rng.choice(P, len(EFFECTS), replace=False)] = EFFECTS
    return x, x @ beta + rng.standard_normal(len(x)), beta


def main(out: Path = Path("out"), seed: int = 0) -> dict[str, float]:
    """Sample, print a table, draw the picture and return the key numbers."""
    x, y, beta = simulate(seed)
    train, test = (x[:N], y[:N]), (x[N:], y[N:])
    inputs, targets = (torch.tensor(a, dtype=torch.float32) for a in (train[0], train[1][:, None]))

    torch.set_num_threads(1)  # the model is tiny: threads would only wait for each other
    torch.manual_seed(seed)
    model = nn.Linear(P, 1)
    sampler = psgld_sa(
        model,
        GaussianLikelihood(),
        num_data=N,
        step_size=2e-3,
        prior=SpikeSlab(v0=0.5 / N**0.5),  # half a standard error, which the data cannot tell from zero
        dense_prior=GaussianPrior(10.0),  # for the intercept
        seed=seed,
    )
    bank = PosteriorBank(thin=10, burn_in=2000)
    fit(sampler, Batches(inputs, targets, batch_size=N), steps=8000, bank=bank)

    draws = torch.stack([sample.parameters["weight"][0] for sample in bank]).numpy()
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    inclusion = sampler.inclusion()["weight"][0].numpy()
    support = np.flatnonzero(beta)
    prediction = bank.predict(model, torch.tensor(test[0], dtype=torch.float32)).mean[:, 0].numpy()
    errors = {
        "psgld_sa": float(np.mean((prediction - test[1]) ** 2)),
        "least squares": mean_square_error(LinearRegression(), train, test),
        "lasso (cross-validated)": mean_square_error(LassoCV(cv=5), train, test),
        "oracle (knows the five)": mean_square_error(LinearRegression(), train, test, support),
    }
    show(beta, draws.mean(0), low, high, inclusion, errors)
    draw(out / "linear_regression.png", beta, draws.mean(0), low, high, inclusion)
    covered = (low <= beta) & (beta <= high)
    return {
        "least_inclusion_of_effects": float(inclusion[support].min()),
        "largest_inclusion_of_zeros": float(inclusion[beta == 0].max()),
        "effects_covered": int(covered[support].sum()),
        "sigma": sampler.sigma,
        **errors,
    }


def mean_square_error(estimator, train, test, columns=slice(None)) -> float:
    """Fit a scikit-learn estimator on some columns and return its error on the test data."""
    fitted = estimator.fit(train[0][:, columns], train[1])
    return float(np.mean((fitted.predict(test[0][:, columns]) - test[1]) ** 2))


def show(beta, mean, low, high, inclusion, errors) -> None:
    """Print the predictors that are in, or should be, and the test errors."""
    table = Table("predictor", "truth", "posterior mean", "95 % interval", "inclusion", title="predictors in the model")
    for j in np.flatnonzero((inclusion > 0.5) | (beta != 0)):
        interval = f"{low[j]:.2f} to {high[j]:.2f}"
        table.add_row(str(j), f"{beta[j]:.2f}", f"{mean[j]:.2f}", interval, f"{inclusion[j]:.2f}")
    console = Console()
    console.print(table)
    console.print(f"largest inclusion among the {np.sum(beta == 0)} zeros: {inclusion[beta == 0].max():.2f}")
    for name, error in errors.items():
        console.print(f"mean squared error on 1000 new observations, {name + ':':25s} {error:.3f}")


def draw(path: Path, beta, mean, low, high, inclusion) -> None:
    """Draw truth, posterior mean, interval and inclusion of every coefficient."""
    figure = Figure(figsize=(8, 4), dpi=150, layout="constrained")
    axes = figure.subplots()
    index = np.arange(P)
    axes.axhline(0, color="0.8", linewidth=0.8)
    axes.vlines(index, low, high, color="0.55", linewidth=1.5, label="95 % interval")
    points = axes.scatter(
        index, mean, c=inclusion, cmap="viridis", vmin=0, vmax=1, s=22, zorder=3, label="posterior mean"
    )
    axes.scatter(index[beta != 0], beta[beta != 0], marker="x", s=60, color="crimson", zorder=4, label="true effect")
    figure.colorbar(points, label="inclusion probability")
    axes.set(xlabel="predictor", ylabel="coefficient", title="Five of fifty predictors matter")
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    folder = parser.parse_args().out
    main(folder)
    print(f"picture: {folder / 'linear_regression.png'}")
