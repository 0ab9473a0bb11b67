"""Recipes of data sets: their fields, grid, flow problem, split and seed."""

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sparse_langevin.problems.darcy.channels import Channels, ImageCrops, read_facies
from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.imported import ImportedArrays
from sparse_langevin.problems.darcy.kle import KLE
from sparse_langevin.problems.darcy.solver import SIDES
from sparse_langevin.storage.files import sha256

FILE_SETTING = {"image": "image", "arrays": "file"}  # by kind, the setting with the path of a user's file


@dataclass(frozen=True)
class Recipe:
    """Everything that determines a data set.

    Parameters
    ----------
    kind
        ``"kle"``, ``"channels"``, ``"image"`` or ``"arrays"`` (a user's own fields, see `imported`).
    samples
        Number of samples; the last ``round(test_share * samples)`` are the test set.
    grid
        Grid of the fields.
    settings
        Keywords of `KLE`, `Channels` or `ImageCrops` (with ``image``, a path, instead of facies), or ``file``, the
        path of the arrays.
    source
        The constant source of the flow problem.
    sides
        Boundary conditions that differ from the paper's: ``"pressure VALUE"`` or ``"flow VALUE"`` by side, ``"left"``,
        ``"right"``, ``"bottom"`` or ``"top"``; see `Flow`.
    seed
        Seed of the samples.
    test_share
        Share of the samples in the test set.
    shard_size
        Number of samples in a file.
    """

    kind: Literal["kle", "channels", "image", "arrays"]
    samples: int
    grid: Grid = field(default_factory=lambda: Grid(50, 50))
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: float = 1.0
    seed: int = 0
    test_share: float = 0.2
    shard_size: int = 100
    sides: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flow  # raises if there is no such flow  # noqa: B018
        if self.kind not in ("kle", "channels", "image", "arrays"):
            raise ValueError(f"kind must be 'kle', 'channels', 'image' or 'arrays', got {self.kind!r}")
        for name in ("samples", "shard_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not 0 <= self.test_share < 1:
            raise ValueError(f"test_share must lie in [0, 1), got {self.test_share!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer >= 0, got {self.seed!r}")
        file = FILE_SETTING.get(self.kind)
        if file and file not in self.settings:
            raise ValueError(f"a data set of kind {self.kind!r} needs settings={{{file!r}: path, ...}}")

    @property
    def flow(self) -> Flow:
        """The flow problem, without its permeability."""
        unknown = sorted(self.sides.keys() - set(SIDES))
        if unknown:
            raise ValueError(f"there is no side {unknown[0]!r}: sides are {', '.join(SIDES)}")
        return Flow(float(self.source), **self.sides)

    @property
    def shards(self) -> int:
        """Number of files."""
        return -(-self.samples // self.shard_size)

    @property
    def first_test(self) -> int:
        """Index of the first test sample."""
        return self.samples - round(self.test_share * self.samples)

    def as_json(self) -> dict[str, Any]:
        """The recipe as JSON, with the SHA-256 of a user's file in place of its path."""
        data = asdict(self) | {"settings": dict(self.settings)}
        del data["sides"]
        data |= self.flow.as_json()
        if name := FILE_SETTING.get(self.kind):
            path = Path(self.settings[name])
            if not path.is_file():
                raise ValueError(f"there is no file {path}")
            data["settings"][name] = sha256(path.read_bytes())
        result: dict[str, Any] = json.loads(json.dumps(data, sort_keys=True))
        return result

    def fields(self) -> KLE | Channels | ImageCrops | ImportedArrays:
        """The source of the permeability fields."""
        settings = dict(self.settings)
        try:
            if self.kind == "kle":
                return KLE(self.grid, **settings)
            if self.kind == "channels":
                return Channels(self.grid, **settings)
            if self.kind == "arrays":
                unchecked = settings.pop("any_residual", False)
                fields = _read_arrays(self.grid, self.samples, Path(settings.pop("file")), **settings)
                if not unchecked:
                    fields.check(self.flow)
                return fields
            facies = _read_facies(Path(settings.pop("image")))
            return ImageCrops(facies, self.grid, test_share=self.test_share, seed=self.seed, **settings)
        except TypeError as error:
            raise ValueError(f"unknown setting of a {self.kind!r} data set: {error}") from error

    @property
    def bytes(self) -> int:
        """Size of the finished data set, up to the headers of its files."""
        return self.samples * 8 * (2 * self.grid.cells + self.grid.edges)


# Once per process: sorting the pixels of a large image takes a second, and so does checking large arrays.
_read_facies = functools.lru_cache(maxsize=1)(read_facies)
_read_arrays = functools.lru_cache(maxsize=1)(ImportedArrays.read)
