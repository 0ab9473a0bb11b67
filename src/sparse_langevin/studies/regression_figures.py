"""Figures of one replicate of the regression study, as in the paper: means and truth, densities, error histories."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sparse_langevin.studies.regression_contenders import PAPER, Record
from sparse_langevin.studies.regression_data import EFFECTS, make

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = dict[str, Record]

COLOURS = {"psgld-sa": "#00796b", "sgld-sa": "#e67e22", "psgld": "#5c6bc0", "sgld": "#9e9e9e"}
DASHED = "sgld"  # in the library it equals psgld, which a full line would hide
VERSIONS = {PAPER: "as printed", "": "library"}


def figures(test: int, found: Found) -> dict[str, tuple["Figure", str]]:
    """Figures and captions for the records of one replicate, by file name."""
    made: dict[str, tuple[Figure, str]] = {}
    if versions := [p for p in VERSIONS if all(p + name in found for name in COLOURS)]:
        made[f"test{test}-means"] = (
            means_figure(test, found, versions),
            f"Test {test}, replicate 0: posterior means of all coefficients and the true values.",
        )
        made[f"test{test}-densities"] = (
            densities_figure(test, found, versions),
            f"Test {test}, replicate 0: posterior densities of the two effects; the dotted line is the true value, the "
            "grey band the 95 % confidence interval of the oracle.",
        )
    if PAPER in versions:
        made[f"test{test}-histories"] = (
            histories_figure(test, found),
            f"Test {test}, replicate 0: test errors of the algorithms as printed against the number of steps. Bold: "
            "the posterior mean over the latter half of the steps so far; thin: the sample at that step.",
        )
    return made


def means_figure(test: int, found: Found, versions: list[str]) -> "Figure":
    """All coefficients, with one panel per algorithm."""
    figure, axes = _panels(len(versions), len(COLOURS), sharey="row")
    truth = make(test, 0).beta
    index = np.arange(1, len(truth) + 1)
    for row, version in zip(axes, versions, strict=True):
        for axis, (name, colour) in zip(row, COLOURS.items(), strict=True):
            axis.scatter(index, found[version + name]["coef"], s=9, color=colour, label="posterior mean")
            real = truth != 0
            axis.scatter(index[real], truth[real], s=80, facecolor="none", edgecolor="black", label="true effect")
            axis.set(title=f"{name.upper()}, {VERSIONS[version]}", xlabel="coefficient number")
        row[0].set_ylabel("coefficient")
    axes[0][0].legend(frameon=False)
    return figure


def densities_figure(test: int, found: Found, versions: list[str]) -> "Figure":
    """Posterior densities under the four algorithms, with one panel per effect."""
    figure, axes = _panels(len(versions), len(EFFECTS))
    for row, version in zip(axes, versions, strict=True):
        for i, axis in enumerate(row):
            for name, colour in COLOURS.items():
                style = {"color": colour, "linestyle": "--" if name == DASHED else "-", "label": name.upper()}
                _draw_density(axis, np.array(found[version + name]["draws"][i]), style)
            axis.axvline(EFFECTS[i], color="black", linestyle=":", label="truth")
            if "oracle" in found:
                effect = found["oracle"]["effects"][i]
                axis.axvspan(effect["low"], effect["high"], color="0.92", zorder=0, label="oracle, 95 %")
            axis.set(title=f"$\\beta_{i + 1}$, {VERSIONS[version]}", xlabel=f"$\\beta_{i + 1}$", ylabel="density")
    figure.legend(*axes[0][-1].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def histories_figure(test: int, found: Found) -> "Figure":
    """Test MSE and MAE against the number of steps."""
    figure, axes = _panels(1, 2)
    for axis, error in zip(axes[0], ("mse", "mae"), strict=True):
        for name, colour in COLOURS.items():
            history = found[PAPER + name]["history"]
            axis.plot(history["step"], history[f"mean_{error}"], color=colour, linewidth=2, label=name.upper())
            axis.plot(history["step"], history[f"sample_{error}"], color=colour, linewidth=0.7, alpha=0.6)
        if "oracle" in found:
            axis.axhline(found["oracle"][error], color="black", linestyle=":", label="oracle")
        title = {"mse": "mean squared error", "mae": "mean absolute error"}[error]
        axis.set(xscale="log", xlabel="step", ylabel=f"test {error.upper()}", title=title)
    axes[0][0].set_yscale("log")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def _panels(rows: int, columns: int, **options: Any) -> tuple["Figure", Any]:
    from matplotlib.figure import Figure  # slow to import, and no global state of pyplot is touched

    figure = Figure(figsize=(12.0, 2.9 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def _draw_density(axis: Any, draws: np.ndarray, style: dict[str, str]) -> None:
    """Draw a kernel density estimate; draws without spread have no density and are left out."""
    if draws.std() < 1e-6:
        return
    margin = draws.std()
    grid = np.linspace(draws.min() - margin, draws.max() + margin, 300)
    axis.plot(grid, stats.gaussian_kde(draws)(grid), **style)
