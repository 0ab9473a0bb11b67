"""Figures of training runs: learning curves, predictions beside the truth, errors beside deviations."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.pictures import draw_field
from sparse_langevin.surrogates.calibration import Trust
from sparse_langevin.surrogates.runs import SurrogateRun


def curves_figure(runs: Sequence[SurrogateRun], labels: Sequence[str] | None = None) -> Figure:
    """Watched error and training loss against epochs, both on a logarithmic scale."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for index, run in enumerate(runs):
        history = run.history()
        epochs = [r["epoch"] for r in history]
        share = f" {run.settings.sparsity:.0%}" if run.settings.sparsity else ""
        label = labels[index] if labels else f"{run.settings.method}{share}"
        if "e1" in history[0]:
            left.plot(epochs, [r["e1"] for r in history], label=label)
        right.plot(epochs, [r["loss"] for r in history], label=label)
    left.set(xlabel="epoch", ylabel="e1 in percent", yscale="log")
    right.set(xlabel="epoch", ylabel="training loss, normalised MSE", yscale="log")
    for axis in (left, right):
        axis.grid(alpha=0.3, which="both")
        axis.legend()
    return figure


def prediction_figure(grid: Grid, kappa: Array, true: Array, predicted: Array, std: Array | None) -> Figure:
    """True, predicted, error and, if there is one, standard deviation, for both components of a velocity."""
    columns = 4 if std is not None else 3
    figure = Figure(figsize=(3.1 * columns + 3.1, 5.8))
    figure.set_layout_engine("constrained", w_pad=0.1)  # labels of colour bars end at the edge otherwise
    axes = figure.subplots(2, columns + 1)
    draw_field(axes[0, 0], grid, kappa, "permeability $\\kappa$")
    axes[1, 0].set_axis_off()
    for row, name in enumerate("xy"):
        parts = [_component(grid, field, row) for field in (true, predicted)]
        low, high = min(p.min() for p in parts), max(p.max() for p in parts)
        for column, (field, label) in enumerate(zip(parts, ("solver", "surrogate"), strict=True), 1):
            draw_field(axes[row, column], grid, field, f"$u_{name}$, {label}", limits=(low, high))
        draw_field(axes[row, 3], grid, parts[1] - parts[0], f"error of $u_{name}$", scale="symmetric")
        if std is not None:
            draw_field(axes[row, 4], grid, _component(grid, std, row), f"std of $u_{name}$")
    return figure


def deviation_figure(known: Trust) -> Figure:
    """Error against standard deviation, one point a test sample: a doubtful prediction should show."""
    figure = Figure(figsize=(4.8, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.scatter(known.predicted, known.actual, s=12, label="test samples")
    axis.set(xlabel="standard deviation due to the weights", ylabel="error", xlim=(0, None), ylim=(0, None))
    axis.set_title("root mean squares over the edges")
    axis.locator_params(axis="x", nbins=6)
    axis.grid(alpha=0.3)
    axis.legend()
    return figure


def _component(grid: Grid, edges: Array, row: int) -> Array:
    """One component at the cells' centres: the mean of the two edges."""
    x, y = grid.split(edges)
    centre: Array = (x[:, :-1] + x[:, 1:]) / 2 if row == 0 else (y[:-1] + y[1:]) / 2
    return centre
