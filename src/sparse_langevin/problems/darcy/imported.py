"""Fields that users bring: permeabilities, with or without the velocities that belong to them.

A file is ``.npz`` or HDF5 with ``kappa`` (samples, ny, nx) and, optionally, ``velocity`` (samples, edges) and
``pressure`` (samples, ny, nx); or a ``.npy`` array of kappa alone. Without velocities the flow problem is solved. A
single kappa may also be (ny, nx).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparse_langevin.problems.darcy.errors import mass_residual
from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.solver import Neumann, Solution, check_permeabilities
from sparse_langevin.runtime.memory import require_memory
from sparse_langevin.storage.foreign import Sliced, opened_array, variables
from sparse_langevin.surrogates.problem import Inputs

NAMES = ("kappa", "velocity", "pressure")
LOST = 0.01  # largest share of the mass that may be lost; rounding to single precision loses about 1e-5


@dataclass(frozen=True)
class ImportedArrays:
    """A user's fields on one grid, with their shapes and values checked."""

    grid: Grid
    kappa: Array
    velocity: Array | None = None
    pressure: Array | None = None

    def __post_init__(self) -> None:
        samples = len(self.kappa)
        check_permeabilities(self.kappa, self.grid)
        if self.pressure is not None and self.velocity is None:
            raise ValueError(
                "there is a pressure without a velocity: give both, or kappa alone to have the flow problem solved"
            )
        shapes = {"velocity": (samples, self.grid.edges), "pressure": (samples, *self.grid.shape)}
        for name, shape in shapes.items():
            if (array := getattr(self, name)) is None:
                continue
            if array.shape != shape:
                hint = f"; its {self.grid.edges} entries are normal components on edges, x-edges first, see darcy.Grid"
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}{hint * (name == 'velocity')}")
            if not np.isfinite(array).all():
                bad = int(np.argmin(np.isfinite(array).reshape(samples, -1).all(1)))
                raise ValueError(f"sample {bad}: {name} is not finite")

    @classmethod
    def read(cls, grid: Grid, samples: int, path: Path) -> "ImportedArrays":
        """Read the first ``samples`` fields of a file."""
        arrays = read_arrays(path)
        if len(arrays["kappa"]) < samples:
            raise ValueError(f"{path} holds {len(arrays['kappa'])} samples, {samples} were asked for")
        return cls(grid, **{name: array[:samples] for name, array in arrays.items()})

    def check(self, flow: Flow) -> None:
        """Raise if velocities do not solve this flow problem: mass is lost, or flows through closed sides.

        In units of the largest velocity divided by the width of a cell, the residual of a right velocity is a rounding
        error, and that of a velocity with another domain or source is of order one.
        """
        if self.velocity is None:
            return
        scale = np.abs(self.velocity).max(1) / min(self.grid.hx, self.grid.hy) + abs(flow.source)
        lost = mass_residual(self.grid, self.velocity, flow.source) / scale
        worst = int(lost.argmax())
        if lost[worst] > LOST:
            raise ValueError(
                f"sample {worst}: the velocity does not conserve mass. |div u - f| is up to "
                f"{lost[worst] * scale[worst]:.3g} with source f = {flow.source:g} on [0, {self.grid.lx:g}] x "
                f"[0, {self.grid.ly:g}], {lost[worst]:.0%} of what it could be at most. Give the right --domain "
                "and --source, or accept such velocities with --any-residual"
            )
        x, y = self.grid.split(self.velocity)
        through = {"left": -x[..., 0], "right": x[..., -1], "bottom": -y[:, 0], "top": y[:, -1]}
        for side, condition in flow.conditions().items():
            if isinstance(condition, Neumann):
                excess = np.abs(through[side] - condition.outflow).max(1)
                worst = int(excess.argmax())
                if excess[worst] > LOST * np.abs(self.velocity[worst]).max():
                    raise ValueError(
                        f"sample {worst}: {getattr(flow, side)!r} should hold on the side {side}, but the outward "
                        f"velocity there differs from it by up to {excess[worst]:.3g}. Give the right condition with "
                        f"--{side}, or accept such velocities with --any-residual"
                    )

    def solution(self, index: int, source: Array) -> Solution | None:
        """The user's solution for one sample; None if it has to be computed. An unknown pressure is nan."""
        if self.velocity is None:
            return None
        velocity = self.velocity[index]
        pressure = np.full(self.grid.shape, np.nan) if self.pressure is None else self.pressure[index]
        return Solution(self.grid, velocity, pressure, float(mass_residual(self.grid, velocity, source)))


def read_arrays(path: Path) -> dict[str, Array]:
    """Read kappa, and velocity and pressure if they are there, from .npy, .npz or HDF5 (.h5, .hdf5)."""
    arrays = {}
    for name, variable in _names(path).items():
        with opened_array(path, variable) as array:
            _require_real(name, path, array)
            require_memory(8 * array.size, f"{name} in {path}", "use fewer samples")
            arrays[name] = np.array(array[...], dtype=float)  # a copy: what is mapped is read-only
    if list(arrays) == ["kappa"] and arrays["kappa"].ndim == 2:
        arrays["kappa"] = arrays["kappa"][None]
    _require_fields(path, arrays["kappa"].shape)
    return arrays


def open_kappa(path: Path) -> Inputs:
    """Open kappa alone, which is read as it is sliced; .npz files, which have no other way, are read at once."""
    names = _names(path)
    with opened_array(path, names["kappa"]) as array:
        _require_real("kappa", path, array)
        shape = tuple(array.shape)
    if path.suffix.lower() == ".npz" or (list(names) == ["kappa"] and len(shape) == 2):
        return read_arrays(path)["kappa"]
    _require_fields(path, shape)

    def read(start: int, stop: int) -> Array:
        with opened_array(path, names["kappa"]) as array:
            return np.array(array[start:stop], dtype=float)

    return Sliced(shape, read)


def _names(path: Path) -> dict[str, str]:
    """The variables of a file, by the names of our arrays."""
    names = {"kappa": ""} if path.suffix.lower() == ".npy" else {name: name for name in NAMES}
    there = variables(path)
    if names["kappa"] not in there:
        raise ValueError(f"{path} has no array 'kappa' of shape (samples, ny, nx): np.savez({path.name!r}, kappa=...)")
    return {name: variable for name, variable in names.items() if variable in there}


def _require_real(name: str, path: Path, array: Any) -> None:
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} in {path} must hold real numbers, got {array.dtype}")


def _require_fields(path: Path, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or 0 in shape:
        raise ValueError(f"kappa in {path} must have shape (samples, ny, nx), got {shape}")
