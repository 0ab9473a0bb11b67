"""Figures of chains and predictions: traces, ranks, autocorrelations, reliability of intervals and classes, doubt."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from sparse_langevin.posterior.calibration import Calibration
from sparse_langevin.posterior.classification import Reliability
from sparse_langevin.posterior.diagnostics import Draws, autocorrelation
from sparse_langevin.posterior.effective import Array
from sparse_langevin.reports.page import plain
from sparse_langevin.runtime.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#00796b", "#e67e22", "#5c6bc0", "#9e9e9e", "#c2185b", "#795548", "#1e88e5", "#7cb342")
BINS = 20


def trace_figure(traces: Draws) -> "Figure":
    """Plot each quantity against the number of the draw, with one line per chain."""
    figure, axes, draws = _rows(traces)
    for axis, (name, values) in zip(axes, draws.items(), strict=True):
        for i, chain in enumerate(values):
            axis.plot(chain, color=_colour(i), linewidth=0.8, alpha=0.8, label=f"chain {i}")
        axis.set(xlabel="draw", ylabel=name)
    return _with_legend(figure, axes)


def rank_figure(traces: Draws) -> "Figure":
    """Plot histograms of each chain's ranks among the draws of all chains; they are flat if the chains agree."""
    figure, axes, draws = _rows(traces)
    for axis, (name, values) in zip(axes, draws.items(), strict=True):
        ranks = stats.rankdata(values, method="average").reshape(values.shape)
        edges = np.linspace(0.5, values.size + 0.5, BINS + 1)
        for i, chain in enumerate(ranks):
            axis.stairs(np.histogram(chain, edges)[0], edges, color=_colour(i), linewidth=1.4, label=f"chain {i}")
        axis.axhline(values.shape[1] / BINS, color="black", linestyle=":", label="if the chains agree")
        axis.set(xlabel=f"rank of {name} among all draws", ylabel="draws", ylim=(0, None))
    return _with_legend(figure, axes)


def autocorrelation_figure(traces: Draws, lags: int = 100) -> "Figure":
    """Plot the autocorrelation of each chain; independent draws would lie in the grey band."""
    figure, axes, draws = _rows(traces)
    for axis, (name, values) in zip(axes, draws.items(), strict=True):
        for i, chain in enumerate(values):
            axis.plot(autocorrelation(chain[None])[0, : lags + 1], color=_colour(i), label=f"chain {i}")
        band = 1.96 / np.sqrt(values.shape[1])
        axis.axhspan(-band, band, color="0.9", zorder=0, label="95 % if independent")
        axis.set(xlabel="lag in draws", ylabel="autocorrelation")
        axis.set_title(name, loc="left", fontsize="medium")
    return _with_legend(figure, axes)


def calibration_figure(results: dict[str, Calibration]) -> "Figure":
    """Plot reliability curves and PIT histograms, with one line for each named result."""
    figure, (curve, histogram) = _figure(1, 2, height=3.6)
    for i, (name, result) in enumerate(results.items()):
        levels, shares = result.reliability
        curve.plot(levels, shares, color=_colour(i), marker=".", label=plain(name))
        histogram.stairs(np.array(result.pit) / result.count * len(result.pit), levels, color=_colour(i), label=name)
    curve.plot([0, 1], [0, 1], color="black", linestyle=":", label="calibrated")
    histogram.axhline(1, color="black", linestyle=":", label="calibrated")
    curve.set(xlabel="level of the quantile", ylabel="share of true values below it")
    histogram.set(xlabel="predicted probability of a smaller value", ylabel="density", ylim=(0, None))
    curve.legend(frameon=False)
    return figure


def reliability_figure(tables: dict[str, Reliability]) -> "Figure":
    """Plot accuracy against confidence, and the share of examples in each bin, with one line for each named table."""
    figure, (curve, histogram) = _figure(min(1, len(tables)), 2, height=3.6)
    for i, (name, table) in enumerate(tables.items()):
        known = np.array(table.count) > 0
        confidence, accuracy = np.array(table.confidence)[known], np.array(table.accuracy)[known]
        label = f"{plain(name)} (ECE {table.ece:.3f})"
        curve.plot(confidence, accuracy, color=_colour(i), marker=".", label=label)
        histogram.stairs(table.share, table.edges, color=_colour(i), linewidth=1.4, label=label)
    curve.plot([0, 1], [0, 1], color="black", linestyle=":", label="calibrated")
    curve.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02))
    histogram.set(xlabel="confidence", ylabel="share of examples in the bin", xlim=(0, 1), ylim=(0, None))
    figure.legend(*curve.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def doubt_figure(groups: Mapping[str, Array]) -> "Figure":
    """Plot the distribution of a measure of doubt, such as the entropy, in several named groups of examples."""
    figure, (axis,) = _figure(min(1, len(groups)), 1, height=3.2)
    top = max((float(values.max()) for values in groups.values() if len(values)), default=1.0)
    edges = np.linspace(0.0, top or 1.0, 31)
    for i, (name, values) in enumerate(groups.items()):
        if len(values):
            heights = np.histogram(values, edges)[0] / len(values)
            axis.stairs(heights, edges, color=_colour(i), linewidth=1.4, label=f"{plain(name)} ({len(values)})")
    axis.set(xlabel="entropy, in nats", ylabel="share of the group's examples", yscale="log", xlim=(0, top or 1.0))
    axis.legend(frameon=False)
    return figure


def _rows(traces: Draws) -> tuple["Figure", list[Any], dict[str, Array]]:
    """Return a figure with one row for each quantity, the axes of the rows, and the draws."""
    draws = {plain(name): np.asarray(values, dtype=float) for name, values in traces.items()}
    for name, values in draws.items():
        if values.ndim != 2 or not values.size:
            raise ValueError(f"the trace of {name} must have the shape (chains, draws), got {values.shape}")
    figure, axes = _figure(len(draws), 1, height=2.2 * len(draws) + 0.4)
    return figure, list(axes), draws


def _figure(rows: int, columns: int, *, height: float) -> tuple["Figure", Any]:
    if not rows:
        raise ValueError("there is nothing to draw: give at least one trace or table")
    # Not pyplot, whose global state belongs to the user.
    figure = require("a figure", "plot", "matplotlib.figure").Figure(figsize=(9.0, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).flatten()


def _with_legend(figure: "Figure", axes: list[Any]) -> "Figure":
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]
