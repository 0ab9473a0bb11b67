"""Pictures of one example: maps of fields, curves with a band, points with bars for vectors.

Of a field in three directions the middle slice is shown, and of many channels the first ones.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sparse_langevin.problems.arrays.layouts import Variable
from sparse_langevin.surrogates.problem import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sparse_langevin.problems.arrays.problem import ArraysProblem

MOST = 4  # most channels in a picture
SHOWN = 60  # most entries of a vector with room for their names
MANY = 20  # most entries of a vector with room for their values
TRUE, PREDICTED = "#222222", "#1f77b4"


def example_figure(
    problem: "ArraysProblem", inputs: Array, true: Array | None, predicted: Array, std: Array | None
) -> "Figure":
    """Draw the input, the prediction, truth and error if known, and the standard deviation if there is one."""
    from matplotlib.figure import Figure  # slow to import, and no global state of pyplot is touched

    output = problem.output
    columns = {"simulator": true, "surrogate": predicted, "standard deviation": std}
    known = {name: output.channels(values) for name, values in columns.items() if values is not None}
    given = problem.input.channels(np.ravel(inputs)[: problem.input.size])
    rows = min(output.components, MOST) if output.grid else 1
    maps = len(output.grid) > 1
    width = 1 + (len(known) + (true is not None) if maps else 1)
    figure = Figure(figsize=(3.2 * width if maps else 10.5, max(0.5 + 2.6 * rows, 3.2)), layout="constrained")
    axes = figure.subplots(rows, width, squeeze=False, width_ratios=None if maps else [1, 2])
    _draw_input(axes[0, 0], problem.input, given)
    for axis in axes[1:, 0]:
        axis.set_axis_off()
    for row in range(rows):
        if maps:
            _draw_maps(axes[row, 1:], output, row, {name: values[row] for name, values in known.items()})
        elif output.grid:
            _draw_curves(axes[row, 1], output.label(row, "output"), {name: v[row] for name, v in known.items()})
        else:
            _draw_entries(axes[row, 1], output, known, np.array(problem.rms))
    if rows < output.components and output.grid:
        figure.suptitle(f"{rows} of {output.components} channels")
    return figure


def _draw_input(axis: Any, variable: Variable, given: Array) -> None:
    """Draw the first channel of a field, the first curves, or the entries of a vector."""
    if len(variable.grid) > 1:
        more = f", 1 of {variable.components} channels" * (variable.components > 1)
        _draw_map(axis, given[0], variable.label(0, "input") + more)
    elif variable.grid:
        for index, curve in enumerate(given[:MOST]):
            axis.plot(curve, label=variable.label(index, "input"))
        axis.set(title="input", xlabel="x")
        axis.legend(fontsize=8)
    else:
        bars = axis.barh(np.arange(len(given)), given, color="0.6")
        if len(given) <= MANY:
            axis.bar_label(bars, fmt="%.3g", padding=2, fontsize=8)
            axis.margins(x=0.2)
        _name_entries(axis.yaxis, variable, "input")
        axis.invert_yaxis()
        axis.set(title="input")


def _draw_maps(axes: Any, variable: Variable, row: int, known: dict[str, Array]) -> None:
    """Draw simulator and surrogate on one scale, their difference centred at zero, the deviation starting at zero."""
    label = variable.label(row, "output")
    shown = [known[name] for name in ("simulator", "surrogate") if name in known]
    limits = {"vmin": min(float(v.min()) for v in shown), "vmax": max(float(v.max()) for v in shown)}
    panels: list[tuple[Array, str, dict[str, Any]]] = [
        (known[name], f"{label}, {name}", limits) for name in ("simulator", "surrogate") if name in known
    ]
    if "simulator" in known:
        error = known["surrogate"] - known["simulator"]
        largest = float(np.abs(error).max()) or 1.0
        panels.append((error, f"error of {label}", {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}))
    if "standard deviation" in known:
        panels.append((known["standard deviation"], f"std of {label}", {"vmin": 0.0}))
    for axis, (values, title, style) in zip(axes, panels, strict=True):
        _draw_map(axis, values, title, **style)


def _draw_map(axis: Any, values: Array, title: str, **style: Any) -> None:
    if values.ndim == 3:
        title, values = f"{title}\nz = {len(values) // 2}", values[len(values) // 2]
    image = axis.imshow(values, origin="lower", aspect="auto" if _flat(values) else "equal", **style)
    axis.set_title(title, fontsize=9)
    axis.set(xlabel="x", ylabel="y")
    axis.figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03)


def _draw_curves(axis: Any, label: str, known: dict[str, Array]) -> None:
    predicted, std = known["surrogate"], known.get("standard deviation")
    points = np.arange(len(predicted))
    if std is not None:
        band = predicted - 2 * std, predicted + 2 * std
        axis.fill_between(points, *band, color=PREDICTED, alpha=0.25, lw=0, label="2 standard deviations")
    axis.plot(points, predicted, color=PREDICTED, label="surrogate")
    if "simulator" in known:
        axis.plot(points, known["simulator"], color=TRUE, ls="--", lw=1, label="simulator")
    axis.set(xlabel="x", ylabel=label)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _draw_entries(axis: Any, variable: Variable, known: dict[str, Array], rms: Array) -> None:
    """Draw the entries side by side; if their sizes differ much, each is divided by its training root mean square."""
    if rms.max() > 10 * rms.min():
        known = {name: values / np.where(rms > 0, rms, 1.0) for name, values in known.items()}
        axis.set_ylabel("divided by the training root mean square")
    predicted, std = known["surrogate"], known.get("standard deviation")
    places = np.arange(len(predicted))
    bars = None if std is None else 2 * std
    label = "surrogate" if std is None else "surrogate, 2 standard deviations"
    axis.errorbar(places, predicted, bars, fmt="o", ms=4, capsize=3, color=PREDICTED, label=label)
    if "simulator" in known:
        axis.plot(places, known["simulator"], "x", color=TRUE, label="simulator")
    _name_entries(axis.xaxis, variable, "output")
    axis.set(title="output")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def _name_entries(axis: Any, variable: Variable, default: str) -> None:
    if variable.components <= SHOWN and variable.names:
        rotation = 90 if variable.components > 8 else 0
        labels = [variable.label(i, default) for i in range(variable.components)]
        axis.set_ticks(np.arange(variable.components), labels, rotation=rotation, fontsize=8)
    else:
        axis.set_label_text("entry")


def _flat(values: Array) -> bool:
    """Whether a map is so long that it would be a mere line in true proportions."""
    ny, nx = values.shape
    return bool(max(nx, ny) > 4 * min(nx, ny))
