"""Fashion-MNIST as tensors: 50,000 images to train on, 10,000 to choose settings by, 10,000 for the table.

Two kinds of images from elsewhere are the test of doubt: scikit-learn's handwritten digits, enlarged from 8x8 to 28x28,
and the test images themselves, turned by 90 degrees.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.classification import idx

PACKAGE = "dataset-fashion-mnist"
FOLDER = Path("/usr/share/datasets/fashion-mnist")  # of the Debian package
SIDE, CLASSES = 28, 10
VALIDATION = 6  # one in so many of the training images, the last ones, is kept back to choose settings by
Part = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Data:
    """Images (n, 1, 28, 28) with pixels in [0, 1], and labels."""

    train: Part
    validation: Part
    test: Part
    outside: dict[str, Tensor]
    """Images that are not like those trained on, by name."""


def load(folder: Path) -> Data:
    """Read the four files of Fashion-MNIST from a folder, gzipped or not."""
    x, y = _pair(folder, "train")
    test = _pair(folder, "t10k")
    kept = len(x) - len(x) // VALIDATION
    outside = {"digits": digits(), "rotated": torch.rot90(test[0], 1, (2, 3)).contiguous()}
    return Data((x[:kept], y[:kept]), (x[kept:], y[kept:]), test, outside)


def digits() -> Tensor:
    """Return scikit-learn's 1,797 handwritten digits with the size of Fashion-MNIST's images."""
    from sklearn.datasets import load_digits

    pixels = torch.tensor(load_digits().images[:, None] / 16, dtype=torch.float32)
    return torch.nn.functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", align_corners=False)


def missing(folder: Path) -> list[str]:
    """Return the names of the files that are not in a folder."""
    names = [name for part in ("train", "t10k") for name in _names(part)]
    return [name for name in names if _find(folder, name) is None]


def _names(part: str) -> tuple[str, str]:
    return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


def _pair(folder: Path, part: str) -> Part:
    paths = [_find(folder, name) for name in _names(part)]
    if None in paths:
        raise FileNotFoundError(f"{folder} has no {', '.join(missing(folder))}: give the folder of Fashion-MNIST")
    images, labels = (idx.read(path, dimensions) for path, dimensions in zip(paths, (3, 1), strict=True) if path)
    _require_match(images, labels, folder, part)
    pixels = torch.from_numpy(images.astype(np.float32) / 255).unsqueeze(1)
    return pixels, torch.from_numpy(labels.astype(np.int64))


def _require_match(images: NDArray[np.uint8], labels: NDArray[np.uint8], folder: Path, part: str) -> None:
    if images.shape[1:] != (SIDE, SIDE) or len(labels) != len(images) or labels.max() >= CLASSES:
        raise ValueError(
            f"the files {part}-* in {folder} hold images of shape {images.shape} and {len(labels)} labels up to "
            f"{labels.max()}; images of {SIDE} x {SIDE} and as many labels below {CLASSES} are needed"
        )
