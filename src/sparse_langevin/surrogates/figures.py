"""Figures of training runs: learning curves, and errors against deviations."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from sparse_langevin.surrogates.calibration import Trust
from sparse_langevin.surrogates.runs import SurrogateRun


def curves_figure(runs: Sequence[SurrogateRun]) -> Figure:
    """Watched error and training loss against epochs, both on a logarithmic scale."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    measure = runs[0].problem.measures[0]
    for run in runs:
        history = run.history()
        epochs = [r["epoch"] for r in history]
        share = f" {run.settings.sparsity:.0%}" if run.settings.sparsity else ""
        label = f"{run.settings.method}{share}"
        if measure.name in history[0]:
            left.plot(epochs, [r[measure.name] for r in history], label=label)
        right.plot(epochs, [r["loss"] for r in history], label=label)
    left.set(xlabel="epoch", ylabel=measure.label, yscale="log")
    right.set(xlabel="epoch", ylabel="training loss, normalised MSE", yscale="log")
    for axis in (left, right):
        axis.grid(alpha=0.3, which="both")
        axis.legend()
    return figure


def deviation_figure(known: Trust) -> Figure:
    """Error against standard deviation, one point per test example: doubtful predictions should stand out."""
    figure = Figure(figsize=(4.8, 3.6), layout="constrained")
    axis = figure.subplots()
    axis.scatter(known.predicted, known.actual, s=12, label="test examples")
    axis.set(xlabel="standard deviation due to the weights", ylabel="error", xlim=(0, None), ylim=(0, None))
    axis.set_title("root mean squares over the outputs")
    axis.locator_params(axis="x", nbins=6)
    axis.grid(alpha=0.3)
    axis.legend()
    return figure
