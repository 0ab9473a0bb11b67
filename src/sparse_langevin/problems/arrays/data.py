"""Data sets of any simulator: inputs and outputs as arrays, with the samples in front.

A data set is a folder:

    artefact.json                       layouts, names, units, split, and the SHA-256 of the sources and of every file
    inputs.npy, outputs.npy, low.npy    the arrays in their original order; single precision stays single
    order.npy, test.npy                 the order in which samples are used, and which of them are the test part
    statistics.json                     scales of the outputs, and the inputs whose logarithm is taken

``low`` are the outputs of a second, cheaper simulator: the network sees them, and learns the difference. The inputs of
the problem are then flat, (n, size of an input + size of an output), with ``low`` behind the inputs.
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.problems.arrays.layouts import Variable
from sparse_langevin.problems.arrays.problem import ArraysProblem
from sparse_langevin.problems.arrays.sources import Given, Source
from sparse_langevin.problems.arrays.statistics import statistics_of
from sparse_langevin.storage.artefact import Artefact
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import TEMPORARY, canonical, locked, sha256, sync_folder, write_atomically
from sparse_langevin.storage.foreign import mapped
from sparse_langevin.surrogates.problem import DATA_SET, Array, Split

ORDER, TEST, STATISTICS = "order.npy", "test.npy", "statistics.json"
Names = Sequence[str] | str | None


def import_arrays(
    inputs: Given,
    outputs: Given | None,
    folder: str | Path,
    *,
    low: Given | None = None,
    input_layout: str | None = None,
    output_layout: str | None = None,
    input_names: Names = None,
    output_names: Names = None,
    input_units: Names = None,
    output_units: Names = None,
    title: str | None = None,
    test_share: float = 0.2,
    shuffle: bool = True,
    seed: int = 0,
    samples: int | None = None,
) -> "ArraysData":
    """Make a data set from arrays with the samples in front; repeating the call changes nothing.

    Parameters
    ----------
    inputs, outputs
        An array, a file (.npy, .npz, .h5, .hdf5), ``FILE:name`` for one of its variables, or a folder of such files.
        Variables are called ``inputs`` or ``x``, and ``outputs`` or ``y``, unless named. If ``outputs`` is None, they
        are read from where the inputs are.
    folder
        Folder of the data set. One with other settings or other files is refused.
    low
        Outputs of a second, cheaper simulator for the same inputs, in the shape of the outputs.
    input_layout, output_layout
        Meaning of the dimensions, see `layouts`; by default ``v``, ``yx``, ``cyx`` and ``czyx`` for arrays of 2, 3, 4
        and 5 dimensions.
    input_names, output_names, input_units, output_units
        One for each channel of a field or entry of a vector. A single unit holds for all.
    title
        Title of reports; the folder's name unless given.
    test_share
        Share of the samples in the test part, in [0, 1).
    shuffle
        Whether the test part is drawn at random; otherwise it is the last samples.
    seed
        Seed of the drawing.
    samples
        Number of samples to use, the first ones; all unless given.
    """
    folder = Path(folder)
    if outputs is None and isinstance(inputs, np.ndarray):
        raise ValueError(
            "outputs are missing: they can be left out only if inputs is a file or a folder that holds them, too"
        )
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed!r}")
    given = {"inputs": inputs, "outputs": inputs if outputs is None else outputs, "low": low}
    sources = {name: Source.of(value, name) for name, value in given.items() if value is not None}
    shapes = {name: source.shape() for name, source in sources.items()}
    count = _count({name: shape for name, (shape, _) in shapes.items()}, samples)
    tested = _tested(count, test_share)
    variables = {
        "input": _variable("inputs", shapes["inputs"][0], input_layout, input_names, input_units),
        "output": _variable("outputs", shapes["outputs"][0], output_layout, output_names, output_units),
    }
    body = {
        "problem": "arrays",
        "title": title or os.path.basename(os.path.realpath(folder)) or "Surrogate of a simulator",
        "samples": count,
        "split": {"test": tested, "shuffle": bool(shuffle), "seed": int(seed)},
        "sources": {name: source.describe() for name, source in sources.items()},
        **{name: variable.as_json() for name, variable in variables.items()},
        "types": {name: dtype.str for name, (_, dtype) in shapes.items()},
    }
    with locked(folder):
        artefact = Artefact.claim(folder, DATA_SET, body)
        if artefact.files is None or artefact.lost():
            _write(artefact, sources)
    return ArraysData(folder)


class ArraysData:
    """A finished data set; arrays are read when they are asked for.

    Parameters
    ----------
    folder
        A folder made by `import_arrays`.
    verify
        Whether to compare every file with its SHA-256 first; what is read is compared in any case.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = Path(folder)
        self.artefact = Artefact.open(self.folder, DATA_SET, finished=True)
        with self.artefact.understood():
            body = self.artefact.body
            self.low = "low" in body["sources"]
            statistics = json.loads(self.artefact.read(STATISTICS))
            self.problem = ArraysProblem.from_json(body | {"low": self.low} | statistics)
            for count in (body["samples"], body["split"]["test"], body["split"]["seed"]):
                index(count)
        if verify:
            self.verify()

    def __len__(self) -> int:
        return int(self.artefact.body["samples"])

    def verify(self) -> None:
        """Raise if a file is missing or was changed."""
        self.artefact.verify()

    @property
    def fingerprint(self) -> str:
        """Digest of the examples, which identifies them."""
        return sha256(canonical(self.artefact.files))

    def indices(self, split: Split) -> NDArray[np.int64]:
        """Indices of a part's samples in the original arrays."""
        if split not in ("train", "test"):
            raise ValueError(f"a data set has the parts 'train' and 'test', got {split!r}")
        order, test = self._load(ORDER), self._load(TEST)
        if order.dtype.kind not in "iu" or test.dtype != bool or not order.shape == test.shape == (len(self),):
            raise DamagedError(self.folder / ORDER, f"it does not order {len(self)} samples", DATA_SET.remedy)
        if not ((order >= 0) & (order < len(order))).all():
            raise DamagedError(self.folder / ORDER, f"it has numbers beyond the {len(self)} samples", DATA_SET.remedy)
        chosen: NDArray[np.int64] = order[test[order] == (split == "test")]
        return chosen

    def inputs(self, split: Split) -> Array:
        """Inputs of one part, with the low fidelity behind them if there is one."""
        chosen = self.indices(split)
        values = self._rows("inputs.npy", chosen)
        if not self.low:
            return values
        parts = values, self._rows("low.npy", chosen)
        flat = [part.reshape(len(chosen), math.prod(part.shape[1:])) for part in parts]
        return np.concatenate(flat, axis=1)

    def outputs(self, split: Split) -> Array:
        """Outputs of one part."""
        return self._rows("outputs.npy", self.indices(split))

    def summary(self) -> dict[str, str]:
        """Names and values for ``info``."""
        body, problem = self.artefact.body, self.problem
        tested = body["split"]["test"]
        how = f"drawn with seed {body['split']['seed']}" if body["split"]["shuffle"] else "the last ones"
        logs = [problem.input.name(i, "input") for i, log in enumerate(problem.logs) if log]
        return {
            "problem": f"arrays, {problem.title}",
            "samples": f"{len(self)}: {len(self) - tested} to train, {tested} to test, {how}",
            "inputs": f"{problem.input}, from {body['sources']['inputs']['name']}",
            "outputs": f"{problem.output}, from {body['sources']['outputs']['name']}",
            **({"low fidelity": f"from {body['sources']['low']['name']}"} if self.low else {}),
            **({"logarithms": f"of {', '.join(logs)}"} if logs else {}),
            "network": f"{problem.default_network} unless another one is named",
        }

    def _load(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = mapped(self.artefact.path(name))
        return found

    def _rows(self, name: str, chosen: NDArray[np.int64]) -> Array:
        found, variable = self._load(name), self.problem.input if name == "inputs.npy" else self.problem.output
        if found.dtype.kind != "f" or found.shape != (len(self), *variable.shape):
            reason = f"it has {found.dtype} of shape {found.shape} for {len(self)} samples of {variable}"
            raise DamagedError(self.folder / name, reason, DATA_SET.remedy)
        return np.asarray(found[chosen], dtype=np.float64)


def open_data(folder: str | Path) -> ArraysData:
    """Open the finished data set in a folder."""
    return ArraysData(folder)


def _variable(label: str, shape: tuple[int, ...], layout: str | None, names: Names, units: Names) -> Variable:
    try:
        return Variable.of(shape, layout, names, units)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from error


def _count(shapes: dict[str, tuple[int, ...]], wanted: int | None) -> int:
    """Number of samples, the same in all arrays."""
    counts = {name: shape[0] for name, shape in shapes.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"the arrays differ in their number of samples, the first dimension: {found}")
    if shapes.get("low", shapes["outputs"]) != shapes["outputs"]:
        raise ValueError(f"low has shape {shapes['low']}, but must have that of the outputs, {shapes['outputs']}")
    there = counts["inputs"]
    if wanted is not None and not 1 <= wanted <= there:
        raise ValueError(f"{wanted} samples were asked for, but there are {there}")
    return there if wanted is None else int(wanted)


def _tested(count: int, share: float) -> int:
    if not 0 <= share < 1:
        raise ValueError(f"test_share is a share in [0, 1), got {share!r} (20 % is 0.2)")
    tested = math.ceil(round(share * count, 6))
    if count - tested < 2:
        raise ValueError(
            f"{count} samples leave {count - tested} to train on, but at least 2 are needed: bring more samples, or "
            "use a smaller test_share"
        )
    return tested


def _write(artefact: Artefact, sources: dict[str, Source]) -> None:
    """Write the missing files and seal the folder, or free it again if the sources are invalid."""
    folder, body = artefact.folder, artefact.body
    split, count = body["split"], body["samples"]
    try:
        for name, source in sources.items():
            variable = body["input" if name == "inputs" else "output"]
            shape, dtype = (count, *variable["shape"]), np.dtype(body["types"][name])
            if not (folder / f"{name}.npy").exists():
                write_array(folder / f"{name}.npy", shape, dtype, source.pieces(count, dtype))
    except ValueError:
        if artefact.files is None:
            for name in sources:
                (folder / f"{name}.npy").unlink(missing_ok=True)
            artefact.abandon()
        raise
    order = np.arange(count)
    if split["shuffle"]:
        np.random.Generator(np.random.Philox(split["seed"])).shuffle(order)
    test = np.zeros(count, bool)
    test[order[count - split["test"] :]] = True
    write_array(folder / ORDER, order.shape, order.dtype, [order])
    write_array(folder / TEST, test.shape, test.dtype, [test])
    x, y = (np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ("inputs", "outputs"))
    statistics = statistics_of(Variable.from_json(body["input"]), Variable.from_json(body["output"]), x, y, ~test)
    write_atomically(folder / STATISTICS, json.dumps(statistics).encode())
    if artefact.files is None:
        artefact.seal([*(f"{name}.npy" for name in sources), ORDER, TEST, STATISTICS])
    else:
        artefact.verify()


def write_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], pieces: Iterable[NDArray[Any]]) -> None:
    """Write an .npy file piece by piece; it appears only when it is complete."""
    temporary = path.with_name(f"{TEMPORARY}{path.name}")
    head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    try:
        with open(temporary, "wb") as file:
            np.lib.format.write_array_header_1_0(file, head)
            for piece in pieces:
                file.write(piece.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
