"""Pictures of a sample: permeability, pressure, and both components of the velocity."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.solver import Solution
from sparse_langevin.reports.page import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sample_figure(kappa: ArrayLike, solution: Solution, title: str = "") -> "Figure":
    """Four panels: permeability, pressure, velocity in x and in y at the cells' centres."""
    from matplotlib.figure import Figure  # slow to import, and no global state of pyplot is touched

    grid = solution.grid
    figure = Figure(figsize=(12.5, 0.5 + 2.5 * max(0.6, min(grid.ly / grid.lx, 2.0))), layout="constrained")
    axes = figure.subplots(1, 4)
    velocity_x, velocity_y = solution.centre_velocity()
    decades = np.max(kappa) > 100 * np.min(kappa)
    draw_field(axes[0], grid, kappa, "permeability $\\kappa$", scale="log" if decades else "linear")
    draw_field(axes[1], grid, solution.pressure, "pressure $p$")
    draw_field(axes[2], grid, velocity_x, "velocity $u_x$")
    draw_field(axes[3], grid, velocity_y, "velocity $u_y$", scale="symmetric")
    if title:
        figure.suptitle(plain(title))
    return figure


def prediction_figure(grid: Grid, kappa: Array, true: Array | None, predicted: Array, std: Array | None) -> "Figure":
    """Permeability, and both components of the velocity: truth and error if known, prediction, deviation if any."""
    from matplotlib.figure import Figure

    columns = 1 + (2 if true is not None else 0) + (std is not None)
    figure = Figure(figsize=(3.1 * columns + 3.1, 5.8))
    figure.set_layout_engine("constrained", w_pad=0.1)  # otherwise labels of colour bars touch the edge
    axes = figure.subplots(2, columns + 1)
    draw_field(axes[0, 0], grid, kappa, "permeability $\\kappa$")
    axes[1, 0].set_axis_off()
    for row, name in enumerate("xy"):
        answer = grid.centre_velocity(predicted)[row]
        panels: list[tuple[Array, str, dict[str, Any]]] = [(answer, f"$u_{name}$, surrogate", {})]
        if true is not None:
            truth = grid.centre_velocity(true)[row]
            limits = {"limits": (min(truth.min(), answer.min()), max(truth.max(), answer.max()))}
            panels = [(truth, f"$u_{name}$, solver", limits), (answer, f"$u_{name}$, surrogate", limits)]
            panels.append((answer - truth, f"error of $u_{name}$", {"scale": "symmetric"}))
        if std is not None:
            panels.append((grid.centre_velocity(std)[row], f"std of $u_{name}$", {}))
        for axis, (values, label, style) in zip(axes[row, 1:], panels, strict=True):
            draw_field(axis, grid, values, label, **style)
    return figure


def draw_field(
    axis: Any,
    grid: Grid,
    field: ArrayLike,
    label: str,
    *,
    scale: Literal["linear", "log", "symmetric"] = "linear",
    limits: tuple[float, float] | None = None,
) -> None:
    """Draw one field over the cells, with axes and a colour bar; a symmetric scale is white at zero."""
    values = np.asarray(field)
    axis.set(title=label, xlabel="x", ylabel="y", xlim=(0, grid.lx), ylim=(0, grid.ly), aspect="equal")
    if not np.isfinite(values).all():
        axis.text(0.5 * grid.lx, 0.5 * grid.ly, "not known", ha="center", va="center")
        return
    style: dict[str, Any] = {"cmap": "viridis"}
    if scale == "symmetric":
        limit = float(np.abs(values).max()) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    elif scale == "log":
        style["norm"] = "log"
    if limits is not None:
        style |= {"vmin": limits[0], "vmax": limits[1]}
    image = axis.imshow(values, origin="lower", extent=(0, grid.lx, 0, grid.ly), **style)
    axis.figure.colorbar(image, ax=axis, fraction=0.046, pad=0.03)
