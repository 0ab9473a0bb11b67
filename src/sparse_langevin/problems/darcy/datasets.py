r"""Data sets with thousands of samples (kappa, velocity, pressure).

A data set is a folder:

    artefact.json        the recipe and, once all shards are made, their SHA-256; see `storage.artefact`
    shard-00000.h5 ...   samples in order, ``shard_size`` to a file, each written whole

Sample i is a pure function of (recipe, i): any worker may make it, in any order. After a stop
at any moment the same call makes what is missing, and the finished folder has the same bytes for any number of workers.
"""

import errno
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from threadpoolctl import threadpool_limits

from sparse_langevin.problems.darcy.channels import ImageCrops
from sparse_langevin.problems.darcy.flow import Flow
from sparse_langevin.problems.darcy.grid import Array, Grid
from sparse_langevin.problems.darcy.imported import ImportedArrays
from sparse_langevin.problems.darcy.problem import DarcyProblem
from sparse_langevin.problems.darcy.recipes import Recipe
from sparse_langevin.problems.darcy.solver import Solution
from sparse_langevin.runtime.processes import each
from sparse_langevin.storage.artefact import MANIFEST, Artefact, require_same
from sparse_langevin.storage.errors import DamagedError, MismatchError
from sparse_langevin.storage.files import (
    canonical,
    locked,
    require_new,
    require_regular,
    sha256,
    sweep,
    write_atomically,
    write_new,
)
from sparse_langevin.storage.foreign import own_dataset
from sparse_langevin.surrogates import problem
from sparse_langevin.surrogates.problem import Split

DATA_SET = replace(problem.DATA_SET, packages=("numpy", "scipy", "h5py", "qdldl"))
ARRAYS = ("kappa", "velocity", "pressure", "mass_residual", "redraws", "test")

RECIPE = {"kind": str, "settings": dict, "samples": int, "shard_size": int, "seed": int}  # what is used of a recipe


def generate(
    recipe: Recipe,
    folder: str | Path,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> "DarcyData":
    """Make a data set, or finish one that was started.

    Parameters
    ----------
    recipe
        What the data set is.
    folder
        Folder of the data set. One with another recipe or with other files is an error: nothing is overwritten.
    workers
        Number of processes, one per core by default; 0 works in this process.
    executor
        A ``concurrent.futures`` executor to use instead, such as a cluster's.
    progress
        Called with (samples done, samples in all).
    """
    folder, wanted = Path(folder), recipe.as_json()
    known = _known(folder, wanted)
    if known is None or known.files is None:
        recipe.fields()  # a bad recipe fails here, before anything is written
    elif not known.lost():
        return DarcyData(folder)
    with locked(folder):
        artefact = _known(folder, wanted) or Artefact.claim(folder, DATA_SET, wanted)
        try:
            _require_space(folder, recipe)
            _make_missing(recipe, folder, workers, executor, progress or (lambda done, total: None))
        except (ValueError, OSError):  # there are no such fields, or there is no space: free the folder again
            if artefact.files is None and not any(folder.glob("shard-*.h5")):
                artefact.abandon()
            raise
        sweep(folder)  # files of workers that died
        if artefact.files is None:
            artefact.seal(map(_shard_name, range(recipe.shards)))
    return DarcyData(folder, verify=artefact.files is not None)


class DarcyData:
    """A finished data set; arrays are read when they are asked for.

    Parameters
    ----------
    folder
        A folder made by `generate`.
    verify
        Whether to compare every shard with its SHA-256 first.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        self.artefact = _of_earlier_version(self.folder) or Artefact.open(self.folder, DATA_SET, finished=True)
        self.recipe = self.artefact.body
        with self.artefact.understood():
            self.grid = Grid(**self.recipe["grid"])
            self.problem = DarcyProblem(self.grid, Flow.from_json(self.recipe))
            for name, kind in RECIPE.items():
                if not isinstance(self.recipe[name], kind):
                    raise TypeError(f"{name} is {self.recipe[name]!r}")
        self.manifest: dict[str, Any] = {
            "recipe": self.recipe,
            "versions": self.artefact.versions,
            "shards": self.artefact.files,
        }
        if verify:
            self.verify()

    def __len__(self) -> int:
        return int(self.recipe["samples"])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the recipe and of the files' contents, which identifies the data."""
        return sha256(canonical({"recipe": self.recipe, "shards": self.artefact.files}))

    def inputs(self, split: Split) -> Array:
        """Permeabilities of one part."""
        return self.array("kappa", split)

    def outputs(self, split: Split) -> Array:
        """Velocities of one part."""
        return self.array("velocity", split)

    def summary(self) -> dict[str, str]:
        """Names and values for ``info``."""
        from sparse_langevin.problems.darcy.summary import summary

        return summary(self)

    def verify(self) -> None:
        """Raise if a shard is missing or was changed; reading a shard checks it, too."""
        self.artefact.verify()

    def array(self, name: str, split: Split | None = None) -> Array:
        """One of the arrays kappa, velocity, pressure, mass_residual, redraws and test, of one part or of both."""
        if name not in ARRAYS:
            raise ValueError(f"a data set holds {', '.join(ARRAYS)}; got {name!r}")
        if split not in ("train", "test", None):
            raise ValueError(f"a data set has the parts 'train' and 'test', or None for both; got {split!r}")
        parts = []
        for shard in self.artefact.files or ():
            with self._shard(shard) as arrays:
                rows = arrays(name)[:]
                if split is not None:
                    rows = rows[arrays("test")[:] == (split == "test")]
                parts.append(rows)
        if not parts:
            raise DamagedError(self.folder / MANIFEST, "it names no files", DATA_SET.remedy)
        return np.concatenate(parts)

    @contextmanager
    def _shard(self, name: str) -> Iterator[Callable[[str], Any]]:
        """The arrays in a file, by name; they must be as the recipe says, and errors name the file."""
        shapes = {"velocity": (self.grid.edges,), "kappa": self.grid.shape, "pressure": self.grid.shape}

        def array(of: str) -> Any:
            found = own_dataset(file, of)
            if found.dtype.kind not in "fiub" or found.shape[1:] != shapes.get(of, ()):
                raise ValueError(f"{of!r} is {found.dtype} of shape {found.shape}, not what the recipe says")
            return found

        path = self.artefact.path(name)
        try:
            with h5py.File(path, "r") as file:
                yield array
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise DamagedError(path, " ".join(str(error).split()), DATA_SET.remedy) from error

    def sample(self, index: int) -> tuple[Array, Solution]:
        """Permeability and solution of one sample."""
        if not 0 <= index < len(self):
            raise ValueError(f"{self.folder} holds samples 0 to {len(self) - 1}, got {index}")
        shard, row = divmod(index, int(self.recipe["shard_size"]))
        with self._shard(_shard_name(shard)) as arrays:
            kappa, velocity, pressure, residual = (arrays(name)[row] for name in ARRAYS[:4])
        return kappa, Solution(self.grid, velocity, pressure, float(residual))

    def export_npz(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write all arrays to one compressed .npz file."""
        require_new(Path(path), overwrite=overwrite)
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {name: self.array(name) for name in ARRAYS}
        if np.isnan(arrays["pressure"]).all():  # imported without it
            del arrays["pressure"]
        np.savez_compressed(buffer, **arrays)
        write_new(Path(path), buffer.getvalue(), overwrite=overwrite)


def make_samples(recipe: Recipe, indices: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Make samples, each a pure function of the recipe and its index."""
    fields, solver = recipe.fields(), recipe.flow.solver(recipe.grid)
    for index in indices:
        test = index >= recipe.first_test
        redraws, known = 0, None
        if isinstance(fields, ImportedArrays):
            kappa, known = fields.kappa[index], fields.solution(index, solver.source)
        else:
            rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([recipe.seed, index])))
            kappa, redraws = fields.sample(rng, test=test) if isinstance(fields, ImageCrops) else fields.sample(rng)
        try:
            solution = known or solver.solve(kappa)
        except ValueError as error:
            raise ValueError(f"sample {index}: {error}") from error
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
    with threadpool_limits(limits=1):  # the same bytes on any machine, and workers do not compete for cores
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
    """Make the missing shards."""
    missing = [s for s in range(recipe.shards) if not (folder / _shard_name(s)).exists()]
    done = recipe.samples - sum(min(recipe.shard_size, recipe.samples - s * recipe.shard_size) for s in missing)
    progress(done, recipe.samples)
    with closing(each(_make_shard, [(recipe, shard, str(folder)) for shard in missing], workers, executor)) as made:
        for count in made:
            done += count
            progress(done, recipe.samples)


def _known(folder: Path, wanted: dict[str, Any]) -> Artefact | None:
    """The data set in a folder, finished or not, which must have the wanted recipe; None if there is none."""
    found = _of_earlier_version(folder)
    if found is None and (folder / MANIFEST).exists():
        found = Artefact.open(folder, DATA_SET)
    if found is not None:
        require_same(f"the data set in {folder}", found.body, wanted)
    return found


def _of_earlier_version(folder: Path) -> Artefact | None:
    """A finished data set of format 1, with recipe.json and manifest.json; None if there is none."""
    if not (folder / "recipe.json").exists() or (folder / MANIFEST).exists():
        return None
    path = folder / "manifest.json"
    if not path.exists():
        raise MismatchError(f"the data set in {folder} was begun by an earlier version: generate it in another folder")
    require_regular(path)
    try:
        found = json.loads(path.read_bytes())
        return Artefact(folder, DATA_SET, dict(found["recipe"]), dict(found["versions"]), dict(found["shards"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedError(path, repr(error), "Generate the data set again in another folder") from error


def _require_space(folder: Path, recipe: Recipe) -> None:
    """Raise before the work starts if the disk is too small for it."""
    there = sum(p.stat().st_size for p in folder.glob("shard-*.h5"))
    free = shutil.disk_usage(folder).free
    if recipe.bytes - there > free:
        raise OSError(
            errno.ENOSPC,
            f"not enough disk space: {(recipe.bytes - there) / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free",
            str(folder),
        )


def _shard_name(shard: int) -> str:
    return f"shard-{shard:05d}.h5"
