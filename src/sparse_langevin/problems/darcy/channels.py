r"""Channelised media: crops of an image, and a generator of sinuous channels that needs no image.

Both give integer facies (0 is the background) and map each facies to a permeability.
"""

import math
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.storage.foreign import opened_array

Facies = NDArray[np.int64]
PIXELS = 50_000_000  # in an image: more would take minutes and gigabytes
STEEPEST = 1000  # wavelengths that a channel's bends may reach
MOST = 10_000  # channels in a field; a field needs more only if they are too narrow for the grid


@dataclass(frozen=True)
class Channels:
    r"""Sinuous channels of one orientation in a background.

    A channel's centre line is amplitude * sin(2 pi s/wavelength + phase), with s along the channel; width,
    amplitude and wavelength vary from channel to channel by ``variation``. Lengths are in units of the domain.

    Parameters
    ----------
    grid
        Grid of the field.
    permeability
        Permeability of the background and of the channels.
    width
        Width of a channel, on average.
    amplitude
        Amplitude of a channel's bends, on average.
    wavelength
        Wavelength of a channel's bends, on average.
    density
        Share of the area inside channels: channels are added until it is reached.
    orientation
        Angle of the channels to the x-axis, in degrees.
    variation
        Relative spread of width, amplitude and wavelength, and spread of the orientation in units of 30 degrees.
    """

    grid: Grid
    permeability: tuple[float, float] = (1.0, 10.0)
    width: float = 0.08
    amplitude: float = 0.08
    wavelength: float = 0.6
    density: float = 0.26
    orientation: float = 0.0
    variation: float = 0.25

    def __post_init__(self) -> None:
        _check_permeability(self.permeability, 2)
        for name in ("width", "wavelength"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"Channels.{name} must be a positive number, got {getattr(self, name)!r}")
        if not math.isfinite(self.orientation):
            raise ValueError(f"Channels.orientation is an angle in degrees, got {self.orientation!r}")
        if not 0 <= self.amplitude <= STEEPEST * self.wavelength:
            raise ValueError(
                f"Channels.amplitude must lie between 0 and {STEEPEST} wavelengths, got {self.amplitude!r} for a "
                f"wavelength of {self.wavelength!r}"
            )
        if not 0 <= self.variation < 1:
            raise ValueError(f"Channels.variation must lie in [0, 1), got {self.variation!r}")
        if not 0 < self.density < 1:
            raise ValueError(f"Channels.density is a share of the area between 0 and 1, got {self.density!r}")
        # Each channel covers, of what is not covered yet, about its width as a share of the domain's.
        if -math.log1p(-self.density) * min(self.grid.lx, self.grid.ly) > MOST * self.width:
            raise ValueError(f"more than {MOST} channels would be needed: {self._too_narrow}")

    def facies(self, rng: np.random.Generator) -> Facies:
        """Draw 0 for background and 1 for channel, shape (ny, nx)."""
        x, y = self.grid.centres()
        reach = math.hypot(self.grid.lx, self.grid.ly) / 2
        cover = np.zeros(self.grid.shape, dtype=np.int64)
        for _ in range(MOST):
            if cover.mean() >= self.density:
                return cover
            spread = np.exp(self.variation * rng.standard_normal(3))
            width, amplitude, wavelength = np.array([self.width, self.amplitude, self.wavelength]) * spread
            angle = math.radians(self.orientation + 30 * self.variation * rng.standard_normal())
            along = (x - self.grid.lx / 2) * math.cos(angle) + (y - self.grid.ly / 2) * math.sin(angle)
            across = -(x - self.grid.lx / 2) * math.sin(angle) + (y - self.grid.ly / 2) * math.cos(angle)
            phase = 2 * math.pi * (along / wavelength + rng.random())
            offset = reach * rng.uniform(-1, 1)
            slope = amplitude * 2 * math.pi / wavelength * np.cos(phase)
            distance = np.abs(across - offset - amplitude * np.sin(phase)) / np.sqrt(1 + slope**2)
            cover |= distance < width / 2
        raise ValueError(f"{MOST} channels cover {cover.mean():.2%} of the cells: {self._too_narrow}")

    @property
    def _too_narrow(self) -> str:
        return (
            f"for density = {self.density:g}, channels of width {self.width:g} are too narrow for cells of "
            f"{self.grid.hx:.3g} by {self.grid.hy:.3g}; use wider channels, a finer grid or a lower density"
        )

    def sample(self, rng: np.random.Generator) -> tuple[Array, int]:
        """Draw one permeability field; channels are never redrawn, so the second value is 0."""
        return np.asarray(self.permeability, dtype=float)[self.facies(rng)], 0


@dataclass(frozen=True)
class ImageCrops:
    """Random crops of one image of facies.

    With a random split, training and test crops overlap, and a test error says little about new media. A blocked split
    cuts the image into ``blocks`` by ``blocks`` tiles, gives a share of the tiles to the test set, and takes every
    crop from inside one tile: no pixel is in both.

    Parameters
    ----------
    facies
        Integers 0, 1, ... of shape (rows, columns); see `read_facies`. The first row becomes the lowest y.
    grid
        Grid of the field; a crop has one pixel per cell.
    permeability
        One value per facies.
    split
        ``"random"`` or ``"blocked"``.
    test_share
        Share of the tiles of a blocked split that belong to the test set.
    blocks
        Tiles per side of a blocked split.
    seed
        Seed of the choice of test tiles.
    """

    facies: Facies
    grid: Grid
    permeability: Sequence[float] = (1.0, 10.0)
    split: Literal["random", "blocked"] = "random"
    test_share: float = 0.2
    blocks: int = 5
    seed: int = 0
    _test_tiles: NDArray[np.bool_] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_permeability(self.permeability, int(self.facies.max()) + 1)
        rows, columns = self.facies.shape
        if self.split not in ("random", "blocked"):
            raise ValueError(f"split must be 'random' or 'blocked', got {self.split!r}")
        tiles = self.blocks if self.split == "blocked" else 1
        if rows // tiles < self.grid.ny or columns // tiles < self.grid.nx:
            part = (
                f"a tile of the image (1/{tiles} of {columns} by {rows})"
                if tiles > 1
                else f"the image ({columns} by {rows})"
            )
            raise ValueError(f"{part} is smaller than a crop of {self.grid.nx} by {self.grid.ny} pixels")
        if tiles > 1 and not 0 < self.test_share < 1:
            raise ValueError(f"test_share of a blocked split must lie between 0 and 1, got {self.test_share!r}")
        count = min(tiles**2 - 1, max(1, round(self.test_share * tiles**2))) if tiles > 1 else 0
        chosen = np.zeros(tiles**2, dtype=bool)
        chosen[np.random.default_rng(self.seed).permutation(tiles**2)[:count]] = True
        object.__setattr__(self, "_test_tiles", chosen)

    def corner(self, rng: np.random.Generator, *, test: bool) -> tuple[int, int]:
        """Row and column of a random crop's first pixel; with a random split, ``test`` makes no difference."""
        rows, columns = self.facies.shape
        tiles = self.blocks if self.split == "blocked" else 1
        own = np.flatnonzero(self._test_tiles == test) if tiles > 1 else np.zeros(1, dtype=int)
        tile_row, tile_column = divmod(int(own[rng.integers(len(own))]), tiles)
        top, bottom = rows * tile_row // tiles, rows * (tile_row + 1) // tiles
        left, right = columns * tile_column // tiles, columns * (tile_column + 1) // tiles
        return int(rng.integers(top, bottom - self.grid.ny + 1)), int(rng.integers(left, right - self.grid.nx + 1))

    def sample(self, rng: np.random.Generator, *, test: bool = False) -> tuple[Array, int]:
        """Draw one permeability field; crops are never redrawn, so the second value is 0."""
        row, column = self.corner(rng, test=test)
        crop = self.facies[row : row + self.grid.ny, column : column + self.grid.nx]
        return np.asarray(self.permeability, dtype=float)[crop], 0


def read_facies(path: str | Path) -> Facies:
    """Read an image (PNG, TIFF, ...) or .npy array as facies: its distinct values become 0, 1, ... in rising order."""
    path = Path(path)
    try:
        if path.suffix.lower() == ".npy":
            with opened_array(path) as array:
                _require_few_pixels(array.size)
                pixels = np.asarray(array[...])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the limit is ours
                image = Image.open(path)
            with image:
                _require_few_pixels(image.width * image.height)
                pixels = np.asarray(image if image.mode in ("1", "L", "I", "I;16", "F") else image.convert("L"))
    except FileNotFoundError as error:
        raise ValueError(f"there is no image {path}") from error
    except (OSError, ValueError, EOFError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not an image or array that can be read: {error}") from error
    if pixels.ndim != 2:
        raise ValueError(f"{path} must hold one value per pixel, got shape {pixels.shape}")
    if not np.isfinite(pixels).all():
        raise ValueError(f"{path} has pixels that are not finite")
    values, facies = np.unique(pixels, return_inverse=True)
    if len(values) > 16:
        raise ValueError(
            f"{path} has {len(values)} distinct values, so it is not an image of facies: reduce it to a few first"
        )
    return np.asarray(facies, dtype=np.int64).reshape(pixels.shape)


def _require_few_pixels(pixels: int) -> None:
    if pixels > PIXELS:
        raise ValueError(f"it has {pixels:,} pixels, and at most {PIXELS:,} are read: cut a part out of it")


def _check_permeability(permeability: Sequence[float], facies: int) -> None:
    values = np.asarray(permeability, dtype=float)
    if values.shape != (facies,) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"permeability needs {facies} positive values, one per facies, got {tuple(permeability)}")
