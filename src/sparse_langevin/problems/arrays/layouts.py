"""Layouts, which say what the dimensions of an array are: one letter for each dimension after the samples.

    v       a vector: parameters, or quantities of interest
    x       a curve                             cx      several on the same points
    yx      a field over a rectangle            cyx     several
    zyx     a field over a box                  czyx    several

``c`` counts channels. A component is a channel of a field or an entry of a vector, and may have its own name, unit and
scale. Any array can be seen as (samples, components, points), where a vector has one point.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparse_langevin.reports.page import plain
from sparse_langevin.surrogates.problem import Array

LAYOUTS = ("v", "x", "cx", "yx", "cyx", "zyx", "czyx")
DEFAULTS = {1: "v", 2: "v", 3: "yx", 4: "cyx", 5: "czyx"}  # by the number of dimensions, samples included


@dataclass(frozen=True)
class Variable:
    """Shape and meaning of one example of an array.

    Parameters
    ----------
    layout
        One of `LAYOUTS`.
    shape
        Shape of one example.
    names, units
        Names and units of the components; empty if there are none.
    """

    layout: str
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise ValueError(f"there is no layout {self.layout!r}: choose one of {', '.join(LAYOUTS)}")
        if len(self.layout) != len(self.shape) or min(self.shape) < 1:
            raise ValueError(
                f"layout {self.layout!r} is for examples with {len(self.layout)} dimension(s) of at least 1, got shape "
                f"{self.shape}: name another layout ({', '.join(LAYOUTS)}), or change the array's shape"
            )
        for what, given in (("names", self.names), ("units", self.units)):
            if given and len(given) != self.components:
                kind = "channels" if self.grid else "entries"
                raise ValueError(f"{len(given)} {what} were given for {self.components} {kind}: {', '.join(given)}")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"names must differ, got {', '.join(self.names)}")

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        layout: str | None = None,
        names: Sequence[str] | str | None = None,
        units: Sequence[str] | str | None = None,
    ) -> "Variable":
        """The variable in an array of shape (samples, ...), by default with the usual layout for its dimensions.

        A single string is the name of the only component, or the unit of all components.
        """
        if not 1 <= len(shape) <= 5:
            raise ValueError(f"an array has 1 to 5 dimensions, the samples first; got shape {tuple(shape)}")
        example = tuple(shape[1:]) or (1,)
        plain = cls(layout or DEFAULTS[len(shape)], example)
        names = (names,) if isinstance(names, str) else tuple(names or ())
        units = (units,) * plain.components if isinstance(units, str) else tuple(units or ())
        return cls(plain.layout, example, names, units)

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of points in each direction, the slowest first; empty for a vector."""
        return () if self.layout == "v" else self.shape[self.layout.startswith("c") :]

    @property
    def components(self) -> int:
        """Number of channels of a field, or of entries of a vector."""
        return self.shape[0] if self.layout[0] in "vc" else 1

    @property
    def size(self) -> int:
        """Number of values in one example."""
        return math.prod(self.shape)

    @property
    def points(self) -> int:
        """Number of values in one component."""
        return math.prod(self.grid)

    def parts(self, array: Array) -> Array:
        """Examples as (samples, components, points)."""
        return np.asarray(array).reshape(-1, self.components, self.points)

    def channels(self, example: Array) -> Array:
        """One example as (components, *grid)."""
        return np.asarray(example).reshape(self.components, *self.grid)

    def name(self, component: int, default: str) -> str:
        """Name of a component; the default, with a number if there are several, if it has none."""
        if self.names:
            return self.names[component]
        return default if self.components == 1 else f"{default} {component}"

    def label(self, component: int, default: str) -> str:
        """Name and unit of a component, for axes."""
        unit = self.units[component] if self.units else ""
        name = self.name(component, default)
        return plain(f"{name} [{unit}]" if unit else name)

    def as_json(self) -> dict[str, Any]:
        """The variable as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> "Variable":
        """The variable that `as_json` described."""
        return cls(body["layout"], *(tuple(body[name]) for name in ("shape", "names", "units")))

    def __str__(self) -> str:
        kind = {"v": "vector", "x": "curve", "y": "field", "z": "field"}[self.layout[-len(self.grid) or 0]]
        shape = " x ".join(map(str, self.grid or self.shape))
        several = f"{self.components} channels of " if self.layout.startswith("c") else ""
        names = f": {', '.join(self.names)}" if 0 < len(self.names) <= 12 else ""
        return f"{several}a {kind} of {shape} ({self.layout}){names}"


def seen_shape(inputs: Variable, outputs: Variable, low: bool) -> tuple[int, ...]:
    """Shape of what a network sees of an example: (channels, *grid) or (features,).

    Without a low fidelity it sees the inputs. With one, both are brought together on the grid of the outputs, or on
    that of the inputs if the outputs are a vector: entries of vectors become constant channels, and fields on another
    grid are interpolated. Fields that differ in their number of directions are joined to one vector.
    """
    if not low:
        return (inputs.components, *inputs.grid)
    if inputs.grid and outputs.grid and len(inputs.grid) != len(outputs.grid):
        return (inputs.size + outputs.size,)
    return (inputs.components + outputs.components, *(outputs.grid or inputs.grid))
