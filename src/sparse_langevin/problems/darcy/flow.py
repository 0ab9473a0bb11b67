"""The flow problem without its permeability: a constant source, and a condition on each side of the domain.

A side has either a pressure or an outward flow, constant along it: ``"pressure 1"``, ``"flow 0"``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.solver import SIDES, Condition, Dirichlet, Neumann, Solver

KINDS: dict[str, Callable[[float], Condition]] = {"pressure": Dirichlet, "flow": Neumann}


@dataclass(frozen=True)
class Flow:
    """A source and four boundary conditions; the defaults are the paper's.

    Parameters
    ----------
    source
        The source f in div u = f.
    left
        ``"pressure VALUE"``, or ``"flow VALUE"`` with the outward normal velocity.
    right
        The same for the right side.
    bottom, top
        The same for these sides.

    Examples
    --------
    >>> Flow(source=0.0, top="flow 0.5").closed
    ('bottom', 'top')
    """

    source: float = 1.0
    left: str = "pressure 1"
    right: str = "pressure 0"
    bottom: str = "flow 0"
    top: str = "flow 0"

    def __post_init__(self) -> None:
        if not math.isfinite(self.source):
            raise ValueError(f"source must be a finite number, got {self.source!r}")
        for side in SIDES:
            kind, value = _parsed(side, getattr(self, side))
            short = f"{value:g}"
            text = short if float(short) == value else repr(value)  # one spelling for each value, and no digit lost
            object.__setattr__(self, side, f"{kind} {text}")

    def conditions(self) -> dict[str, Condition]:
        """Condition on each side, for the solver."""
        parsed = {side: _parsed(side, getattr(self, side)) for side in SIDES}
        return {side: KINDS[kind](value) for side, (kind, value) in parsed.items()}

    @property
    def closed(self) -> tuple[str, ...]:
        """Sides whose flow is given, and therefore the same for every permeability."""
        return tuple(side for side, condition in self.conditions().items() if isinstance(condition, Neumann))

    def solver(self, grid: Grid) -> Solver:
        """A solver of this problem on a grid."""
        return Solver(grid, source=self.source, **self.conditions())

    def as_json(self) -> dict[str, Any]:
        """The source, and the conditions that differ from the paper's, as JSON."""
        usual = Flow()
        sides = {side: getattr(self, side) for side in SIDES if getattr(self, side) != getattr(usual, side)}
        return {"source": self.source} | ({"sides": sides} if sides else {})

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Flow":
        """The flow problem that `as_json` described."""
        return cls(float(body["source"]), **body.get("sides", {}))

    def describe(self) -> str:
        """The source and all sides in words."""
        return ", ".join(f"{name} {value}" for name, value in asdict(self).items())


def _parsed(side: str, text: str) -> tuple[str, float]:
    kind, _, number = text.replace("=", " ").partition(" ")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind not in KINDS or not math.isfinite(value):
        raise ValueError(f"{side} must be 'pressure VALUE' or 'flow VALUE', such as 'pressure 1'; got {text!r}")
    return kind, value
