"""More predictors than observations: which of 200 matter, and how sure one can be with 100 observations.

``python examples/variable_selection.py [--out out]`` compares `SparseBayesRegressor` with the lasso and ARD on the
paper's first regression test (beta = (3, 1, 0, ...), correlated predictors), and draws coefficients with intervals.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.linear_model import ARDRegression, LassoCV

from sparse_langevin import SparseBayesRegressor

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SHOWN = 40


def simulate(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return 100 observations to fit and 1000 to test."""
    rng = np.random.default_rng([1, seed])
    p = 200
    mix = np.linalg.cholesky(0.6 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))).T
    x = rng.standard_normal((1100, p)) @ mix
    y = 3 * x[:, 0] + x[:, 1] + np.sqrt(3) * rng.standard_normal(1100)
    return x[:100], y[:100], x[100:], y[100:]


def main(out: Path) -> dict[str, float]:
    """Fit the models, print and draw the results, and return the numbers."""
    x, y, x_test, y_test = simulate()
    models = {
        "SparseBayesRegressor": SparseBayesRegressor(random_state=0).fit(x, y),
        "LassoCV": LassoCV(cv=10).fit(x, y),
        "ARDRegression": ARDRegression().fit(x, y),
    }
    numbers = {}
    for name, model in models.items():
        numbers[f"mse of {name}"] = float(np.mean((model.predict(x_test) - y_test) ** 2))
        numbers[f"chosen by {name}"] = int((np.abs(model.coef_) > 1e-3).sum())
    ours = models["SparseBayesRegressor"]
    numbers["chosen by SparseBayesRegressor"] = int(ours.get_support().sum())
    lower, upper = ours.predict_interval(x_test, 0.9)
    numbers["coverage of 90 % intervals"] = float(np.mean((lower < y_test) & (y_test < upper)))
    draw(models, out)
    for name, value in numbers.items():
        print(f"{name}: {value:.3g}")
    return numbers


def draw(models: dict[str, object], out: Path) -> None:
    """Draw the coefficients of the first predictors under each model, ours with intervals and probabilities."""
    figure, axes = plt.subplots(4, 1, figsize=(9, 8.5), sharex=True, layout="constrained")
    place = np.arange(1, SHOWN + 1)
    ours = models["SparseBayesRegressor"]
    lower, upper = ours.coef_interval(0.95)
    axes[0].bar(place, ours.inclusion_probability_[:SHOWN], color="tab:blue")
    axes[0].axhline(0.5, color="black", linewidth=0.8, linestyle="--")
    axes[0].set(ylabel="probability", title="SparseBayesRegressor: inclusion probabilities", ylim=(0, 1.05))
    for axis, (name, model) in zip(axes[1:], models.items(), strict=True):
        axis.plot([1, 2], [3, 1], "x", color="black", markersize=9, label="truth (all others are zero)")
        if model is ours:
            axis.vlines(place, lower[:SHOWN], upper[:SHOWN], color="tab:blue", linewidth=2, label="95 % interval")
        axis.plot(place, model.coef_[:SHOWN], "o", color="tab:blue", markersize=4, label="estimate")
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(ylabel="coefficient", title=name)
        axis.legend(loc="upper right")
    axes[-1].set(xlabel=f"predictor (the first {SHOWN} of 200)")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "variable_selection.png", dpi=110)
    plt.close(figure)
    print(f"figure in {out / 'variable_selection.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"))
    main(parser.parse_args().out)
