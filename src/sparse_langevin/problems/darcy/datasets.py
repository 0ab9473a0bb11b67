r"""Data sets of (kappa, velocity, pressure) by the thousand.

A data set is a folder:

    recipe.json          what was asked for; written first
    shard-00000.h5 ...   samples in order, ``shard_size`` to a file, each written whole
    manifest.json        versions, and the SHA-256 of every shard; written last

Sample i is a pure function of (recipe, i): any worker may make it, in any order. Stopped or killed at any moment, the
same call makes what is missing, and the finished folder has the same bytes whatever the number of workers.
"""

import errno
import io
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from threadpoolctl import threadpool_limits

from sparse_langevin.problems.darcy.channels import ImageCrops
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.imported import ImportedArrays
from sparse_langevin.problems.darcy.recipes import Recipe
from sparse_langevin.problems.darcy.solver import Solution, Solver
from sparse_langevin.runtime.interrupts import leave_signals_to_the_parent
from sparse_langevin.storage.files import TEMPORARY, require_new, sha256, write_atomically, write_new

logger = logging.getLogger(__name__)

RECIPE, MANIFEST = "recipe.json", "manifest.json"
ARRAYS = ("kappa", "velocity", "pressure", "mass_residual", "redraws", "test")


def generate(
    recipe: Recipe,
    folder: str | Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> "DarcyData":
    """Make a data set, or finish one that was begun.

    Parameters
    ----------
    recipe
        What to make.
    folder
        Where. A folder with another recipe, or with other files, is an error: nothing is overwritten.
    workers
        Processes; by default one per core. 0 works in this process.
    executor
        Any ``concurrent.futures`` executor instead, such as a cluster's.
    progress
        Called with (samples done, samples in all).
    """
    folder = Path(folder)
    finished = (folder / MANIFEST).exists()
    if not finished:
        recipe.fields()  # a bad recipe fails here, before anything is written
    _claim(folder, recipe)
    lost = [s for s in range(recipe.shards) if not (folder / _shard_name(s)).exists()]
    if lost:
        _require_space(folder, recipe)
        try:
            _make_missing(recipe, folder, workers, executor, progress or (lambda done, total: None))
        except ValueError:  # no such fields: the folder is free for others
            if len(lost) == recipe.shards and not finished:
                (folder / RECIPE).unlink()
            raise
    if not finished:
        _write_manifest(recipe, folder)
    return DarcyData(folder, verify=finished and bool(lost))


class DarcyData:
    """A finished data set; arrays are read when they are asked for.

    Parameters
    ----------
    folder
        As made by `generate`.
    verify
        Compare every shard with its SHA-256 first.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        try:
            self.manifest = json.loads((self.folder / MANIFEST).read_bytes())
        except OSError as error:
            begun = (self.folder / RECIPE).exists()
            hint = "it was begun but not finished: run the same command again" if begun else "there is no data set"
            raise ValueError(f"{self.folder} has no {MANIFEST}: {hint}") from error
        except ValueError as error:
            raise ValueError(f"{self.folder / MANIFEST} is damaged: {error}") from error
        try:
            self.recipe: dict[str, Any] = self.manifest["recipe"]
            self.grid = Grid(**self.recipe["grid"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.folder / MANIFEST} is not that of a data set") from error
        if verify:
            self.verify()

    def __len__(self) -> int:
        return int(self.recipe["samples"])

    def verify(self) -> None:
        """Raise if a shard is missing or was changed."""
        for name, digest in self.manifest["shards"].items():
            path = self.folder / name
            if not path.is_file() or sha256(path.read_bytes()) != digest:
                there = path.is_file()
                state = "does not match its SHA-256: delete it, and" if there else "is missing:"
                raise ValueError(f"{path} {state} run the same command again to remake it")

    def array(self, name: str, split: Literal["train", "test"] | None = None) -> Array:
        """One of the arrays kappa, velocity, pressure, mass_residual, redraws and test, over all or one part."""
        if name not in ARRAYS:
            raise ValueError(f"a data set holds {', '.join(ARRAYS)}; got {name!r}")
        if split not in ("train", "test", None):
            raise ValueError(f"a data set has the parts 'train' and 'test', or None for both; got {split!r}")
        parts = []
        for shard in self.manifest["shards"]:
            with _opened(self.folder / shard) as file:
                rows = file[name][:]
                if split is not None:
                    rows = rows[file["test"][:] == (split == "test")]
                parts.append(rows)
        return np.concatenate(parts)

    def sample(self, index: int) -> tuple[Array, Solution]:
        """Permeability and solution of one sample."""
        if not 0 <= index < len(self):
            raise ValueError(f"{self.folder} holds samples 0 to {len(self) - 1}, got {index}")
        shard, row = divmod(index, int(self.recipe["shard_size"]))
        with _opened(self.folder / _shard_name(shard)) as file:
            kappa, velocity, pressure, residual = (file[name][row] for name in ARRAYS[:4])
        return kappa, Solution(self.grid, velocity, pressure, float(residual))

    def export_npz(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write all arrays to one compressed .npz file."""
        require_new(Path(path), overwrite=overwrite)
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {name: self.array(name) for name in ARRAYS}
        if np.isnan(arrays["pressure"]).all():  # nobody brought it
            del arrays["pressure"]
        np.savez_compressed(buffer, **arrays)
        write_new(Path(path), buffer.getvalue(), overwrite=overwrite)


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """A shard for reading."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError) as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Delete it, and run the same command again to remake it"
        ) from error


def make_samples(recipe: Recipe, indices: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Samples, each a pure function of the recipe and its index."""
    fields, solver = recipe.fields(), Solver(recipe.grid, source=recipe.source)
    for index in indices:
        test = index >= recipe.first_test
        redraws, known = 0, None
        if isinstance(fields, ImportedArrays):
            kappa, known = fields.kappa[index], fields.solution(index, solver.source)
        else:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([recipe.seed, index])))
            kappa, redraws = fields.sample(rng, test=test) if isinstance(fields, ImageCrops) else fields.sample(rng)
        solution = known or solver.solve(kappa)
        yield {
            "kappa": kappa,
            "velocity": solution.velocity,
            "pressure": solution.pressure,
            "mass_residual": solution.mass_residual,
            "redraws": redraws,
            "test": test,
        }


def _make_shard(recipe: Recipe, shard: int, folder: str) -> int:
    """Make one shard and write it whole; return its number of samples."""
    start = shard * recipe.shard_size
    stop = min(start + recipe.shard_size, recipe.samples)
    with threadpool_limits(limits=1):  # the same bytes on any machine, and no fight between workers
        rows = list(make_samples(recipe, range(start, stop)))
    image = h5py.File(f"shard-{shard}", "w", driver="core", backing_store=False, libver=("v110", "v110"))
    with image:
        for name in ARRAYS:
            image.create_dataset(name, data=np.stack([np.asarray(row[name]) for row in rows]), track_times=False)
        image.flush()
        data = image.id.get_file_image()
    write_atomically(Path(folder) / _shard_name(shard), data)
    return stop - start


def _make_missing(
    recipe: Recipe,
    folder: Path,
    workers: int | None,
    executor: Executor | None,
    progress: Callable[[int, int], None],
) -> None:
    """Make the shards that are not there; a worker that dies is replaced."""
    failures = 0
    while missing := [s for s in range(recipe.shards) if not (folder / _shard_name(s)).exists()]:
        done = recipe.samples - sum(_shard_samples(recipe, s) for s in missing)
        progress(done, recipe.samples)
        if workers == 0 and executor is None:
            for shard in missing:
                done += _make_shard(recipe, shard, str(folder))
                progress(done, recipe.samples)
            continue
        size = min(workers or os.cpu_count() or 1, len(missing))
        pool = executor or ProcessPoolExecutor(size, initializer=leave_signals_to_the_parent)
        try:
            futures: list[Future[int]] = [pool.submit(_make_shard, recipe, shard, str(folder)) for shard in missing]
            for future in as_completed(futures):
                done += future.result()
                failures = 0
                progress(done, recipe.samples)
        except BrokenProcessPool:
            failures += 1
            if executor is not None or failures > 10:
                raise
            logger.warning("a worker process died; its shard is made again")
        finally:
            if executor is None:
                pool.shutdown(cancel_futures=True)


def _claim(folder: Path, recipe: Recipe) -> None:
    """Enter the recipe into a new folder, or insist that the folder has the same one."""
    wanted = recipe.as_json()
    path = folder / RECIPE
    if path.exists():
        try:
            there = json.loads(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        for name, value in wanted.items():
            if there.get(name) != value:
                raise ValueError(
                    f"{folder} holds a data set with {name} = {there.get(name)}, now it is {value}: "
                    "use the same settings, or another folder"
                )
    elif folder.exists() and any(p for p in folder.iterdir() if not p.name.startswith(TEMPORARY)):
        raise ValueError(f"{folder} exists and is not a data set of ours: choose another folder")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(wanted, indent=1, sort_keys=True).encode())
    for leftover in folder.glob(f"{TEMPORARY}*"):
        leftover.unlink()


def _require_space(folder: Path, recipe: Recipe) -> None:
    """Fail before the work, not after half of it, when the disk is too small."""
    there = sum(p.stat().st_size for p in folder.glob("shard-*.h5"))
    free = shutil.disk_usage(folder).free
    if recipe.bytes - there > free:
        raise OSError(
            errno.ENOSPC,
            f"no disk space: {(recipe.bytes - there) / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free",
            str(folder),
        )


def _write_manifest(recipe: Recipe, folder: Path) -> None:
    names = [_shard_name(shard) for shard in range(recipe.shards)]
    manifest = {
        "recipe": recipe.as_json(),
        "versions": {name: version(name) for name in ("sparse-langevin", "numpy", "scipy", "h5py", "qdldl")},
        "shards": {name: sha256((folder / name).read_bytes()) for name in names},
    }
    write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())


def _shard_name(shard: int) -> str:
    return f"shard-{shard:05d}.h5"


def _shard_samples(recipe: Recipe, shard: int) -> int:
    return min(recipe.shard_size, recipe.samples - shard * recipe.shard_size)
