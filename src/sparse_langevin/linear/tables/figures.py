"""The pictures of the report."""

import textwrap

import numpy as np
from matplotlib.figure import Figure

from sparse_langevin.linear.tables.findings import shortened, width
from sparse_langevin.linear.tables.results import Item, Selection
from sparse_langevin.reports.page import plain

SHOWN = 30  # largest number of columns in the first picture
BINS = 20
LONG = 36  # columns of a terminal that a name may take
CHOSEN, OTHER = "tab:blue", "darkgrey"


def inclusion_and_effects(result: Selection) -> Figure:
    """Draw the probabilities and standardised effects of the most probable columns side by side."""
    items = result.items[: min(SHOWN, max(len(result.chosen) + 5, 8))][::-1]
    figure = Figure(figsize=(9.5, 1.4 + 0.3 * len(items)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(items))
    colours = [CHOSEN if item.probability > result.threshold else OTHER for item in items]
    left.barh(place, [item.probability for item in items], color=colours)
    left.axvline(
        result.threshold, color="black", linewidth=0.8, linestyle="--", label=f"threshold {result.threshold:g}"
    )
    left.set(
        xlim=(0, 1),
        xlabel="probability of an effect",
        yticks=place,
        yticklabels=[_label(item, result) for item in items],
    )
    for i, item in enumerate(items):
        e = item.main
        per = e.standardised / e.mean if e.mean else 0.0
        right.plot([e.lower * per, e.upper * per], [i, i], color=colours[i], linewidth=2)
        right.plot(e.standardised, i, "o", color=colours[i])
    right.axvline(0, color="black", linewidth=0.8)
    unit = f"standard deviations of {result.target}" if result.family in ("gaussian", "student") else result.effect_is
    right.set(xlabel=textwrap.fill(f"standardised effect, {_cut(unit, 60)}", 46), ylim=(-0.6, len(items) - 0.4))
    handles = [
        left.barh([0], [0], color=CHOSEN, label="above the threshold"),
        left.barh([0], [0], color=OTHER, label="not above it"),
        left.get_lines()[0],
        *right.plot([], [], "o-", color="black", linewidth=2, label=f"mean and {result.level:.0%} interval"),
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
    return figure


def all_probabilities(result: Selection) -> Figure:
    """Draw the probability of every column, at its place in the file."""
    figure = Figure(figsize=(9.5, 3), layout="constrained")
    axes = figure.subplots()
    order = sorted(result.items, key=lambda item: item.place)
    values = np.array([item.probability for item in order])
    axes.vlines(np.arange(1, len(values) + 1), 0, values, color=OTHER, linewidth=1)
    high = np.flatnonzero(values > result.threshold)
    axes.plot(high + 1, values[high], "o", color=CHOSEN, label="above the threshold")
    axes.axhline(
        result.threshold, color="black", linewidth=0.8, linestyle="--", label=f"threshold {result.threshold:g}"
    )
    axes.set(ylim=(0, 1.05), xlabel="number of the column", ylabel="probability of an effect")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def correlation(result: Selection) -> Figure:
    """Draw the correlations of some columns as a matrix with numbers."""
    names, values = [_cut(name) for name in result.correlated], result.correlation
    size = 1.7 + 0.5 * len(names) + 0.07 * max(map(width, names))
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    places = np.arange(len(names))
    axes.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(places, names)
    for i, j in np.ndindex(*values.shape):
        dark = abs(values[i, j]) > 0.6
        axes.text(
            j,
            i,
            f"{round(float(values[i, j]), 2) + 0.0:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
        )
    figure.colorbar(image, label="correlation", shrink=0.8)
    return figure


def predictions(result: Selection) -> Figure:
    """Draw predictions of rows that were left out against what was observed there."""
    found = result.validation
    assert found is not None
    if found.predicted.ndim == 1:
        return _scatter(found.observed, found.predicted, result.effect_is)
    classes = [str(name) for name in np.unique(found.observed)]
    if len(classes) == 2:
        return _two_classes(found.observed, found.predicted[:, 1], classes, result.target)
    return _confusion(found.observed, found.predicted, classes, result.target)


def _scatter(observed: np.ndarray, predicted: np.ndarray, target: str) -> Figure:
    figure = Figure(figsize=(5.5, 5), layout="constrained")
    axes = figure.subplots()
    low, high = (f(f(observed), f(predicted)) for f in (min, max))
    axes.plot([low, high], [low, high], color="black", linewidth=0.8, linestyle="--", label="perfect prediction")
    axes.plot(predicted, observed, "o", color=CHOSEN, alpha=0.6, markersize=4, label="a row, predicted from others")
    name = _cut(target)
    axes.set(xlabel=f"{name}, predicted", ylabel=f"{name}, observed", aspect="equal", adjustable="datalim")
    axes.legend(loc="upper left")
    return figure


def _two_classes(observed: np.ndarray, predicted: np.ndarray, classes: list[str], target: str) -> Figure:
    figure = Figure(figsize=(6.5, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, colour in zip(classes, ("tab:orange", CHOSEN), strict=True):
        some = predicted[observed == name]
        axes.hist(
            some, [i / BINS for i in range(BINS + 1)], color=colour, alpha=0.6, label=f"{_cut(name)} ({len(some)} rows)"
        )
    axes.axvline(0.5, color="black", linewidth=0.8, linestyle="--")
    axes.set(xlim=(0, 1), xlabel=f"predicted probability of {_cut(classes[1])!r}", ylabel="number of rows")
    axes.legend(title=f"observed {_cut(target)}")
    return figure


def _confusion(observed: np.ndarray, predicted: np.ndarray, classes: list[str], target: str) -> Figure:
    k = len(classes)
    table = np.zeros((k, k), int)
    np.add.at(table, (np.unique(observed, return_inverse=True)[1], predicted.argmax(1)), 1)
    names = [_cut(name) for name in classes]
    room = 0.5 * k + 0.06 * max(map(width, names))
    figure = Figure(figsize=(2.7 + room, 2.2 + room), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table / table.sum(1, keepdims=True), cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(np.arange(k), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(np.arange(k), names)
    axes.set(xlabel=f"{_cut(target)}, predicted", ylabel=f"{_cut(target)}, observed")
    for i, j in np.ndindex(k, k):
        dark = table[i, j] > 0.6 * table[i].sum()
        axes.text(j, i, str(table[i, j]), ha="center", va="center", fontsize=8, color="white" if dark else "black")
    figure.colorbar(image, label="share of the observed class", shrink=0.8)
    return figure


def _label(item: Item, result: Selection) -> str:
    several = len({other.speaks_for for other in result.items}) > 1
    return _cut(f"{item.label} → {item.speaks_for}" if several else item.label)


def _cut(text: str, most: int = LONG) -> str:
    return plain(shortened(text, most))
