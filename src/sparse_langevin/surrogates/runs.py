"""The folder of a training run, and what can be read from it.

artefact.json        problem, settings, data set and versions; once finished, also the digests of the files below
history.jsonl        learning curves, one line per evaluation
checkpoints/         see `storage.runs`
samples/             posterior samples, see `posterior`
model.safetensors    the finished network with the codec of its data
result.json          counts and seconds
recalibration.jsonl  factors for the error bars, once they were asked for; see `calibration`
chain-1/, ...        runs of further chains, if there are any; this folder itself belongs to chain 0
"""

import itertools
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as checked
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sparse_langevin.posterior import PosteriorBank, Sample
from sparse_langevin.storage.artefact import Artefact, require_same
from sparse_langevin.storage.errors import DamagedError, MismatchError, MissingError
from sparse_langevin.storage.files import locked, sha256, write_atomically
from sparse_langevin.storage.lines import read_lines
from sparse_langevin.storage.runs import RUN, Record
from sparse_langevin.surrogates.problem import DataSet, Problem, open_data, problem_from_json
from sparse_langevin.surrogates.settings import Settings
from sparse_langevin.surrogates.surrogate import Surrogate, empty_surrogate, require_outline

RESULT, MODEL, SAMPLES, CHAIN, HISTORY = "result.json", "model.safetensors", "samples", "chain-", "history.jsonl"


@checked
class _Layer:
    size: int
    zeros: int


@checked
class _Result:
    """What is used of a result."""

    parameters: int
    sparse_parameters: int
    zeros: int
    epochs: int
    steps: int
    seconds: float
    layers: dict[str, _Layer]
    inclusion: dict[str, list[int]]
    remarks: dict[str, str]


@dataclass(frozen=True)
class SurrogateRun:
    """A training run in a folder, finished or not."""

    path: Path
    problem: Problem
    settings: Settings
    data: str
    """Path of the data set: relative to the run's folder or, if not found there, to the working directory."""
    data_sha256: str
    """Fingerprint of the data set."""
    versions: dict[str, str]
    trust: bool = False
    """Whether a network from outside this package may be imported."""

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> "SurrogateRun":
        """Open the run in a folder; ``trust`` allows importing a network from outside this package."""
        path = Path(path)
        try:
            found = Artefact.open(path, RUN)
        except MissingError as error:
            raise MissingError(f"{path} is not a run: 'sparse-langevin train' makes one") from error
        if "settings" not in (body := found.body):
            raise MismatchError(f"{path} is a run of fit, not of a surrogate: it has no settings")
        with found.understood():
            settings = Settings.from_json(body["settings"])
            problem = problem_from_json(body["problem"])
            return cls(path, problem, settings, str(body["data"]), body["data_sha256"], found.versions, trust)

    @classmethod
    def at(cls, path: str | Path, settings: Settings, data: DataSet) -> "SurrogateRun":
        """The run with these settings in a folder, new if there is none; raise if the folder holds something else."""
        path = Path(path)
        # Without links, as ".." leaves the folder that a link points to.
        where = os.path.relpath(os.path.realpath(data.folder), os.path.realpath(path))
        wanted = cls(path, data.problem, settings, where, data.fingerprint, RUN.versions(), trust=True)
        try:
            there = cls.open(path, trust=True)
        except MissingError:
            if path.exists() and (not path.is_dir() or any(p for p in path.iterdir() if not p.name.startswith("."))):
                raise ValueError(f"{path} exists and is not a run of ours: choose another folder") from None
            return wanted
        require_same(f"the run in {path}", there.settings.as_json(), settings.as_json())
        there.check_data(data)
        return there

    def begin(self) -> None:
        """Write the settings to the folder, unless they are there."""
        body = {
            "problem": self.problem.as_json(),
            "settings": self.settings.as_json(),
            "data": self.data,
            "data_sha256": self.data_sha256,
        }
        with locked(self.path):
            if not (self.path / "artefact.json").exists():
                Artefact.claim(self.path, RUN, body)

    def check_data(self, data: DataSet) -> None:
        """Raise if this is not the data set that the run was started with."""
        if data.fingerprint != self.data_sha256:
            raise ValueError(
                f"the run in {self.path} was started with the data set {self.data}, and {data.folder} is another: "
                "use the same data, or choose another folder"
            )

    def find_data(self, other: str | Path | None = None) -> DataSet:
        """The run's data set, or another one of the same problem."""
        if other is None:
            place = next((p for p in (self.path / self.data, Path(self.data)) if p.exists()), None)
            if place is None:
                raise ValueError(
                    f"the data set of the run in {self.path} is no longer at {self.data}: say where it is with --data"
                )
            data = open_data(place)
            self.check_data(data)
            return data
        data = open_data(other)
        require_same(f"the network in {self.path}", self.problem.identity(), data.problem.identity())
        if data.fingerprint != self.data_sha256 and (seen := self._seen(data)):
            warnings.warn(
                f"{seen} test examples in {data.folder} were training data of the run in {self.path}: their errors say "
                "nothing about new examples; make a data set with another seed",
                stacklevel=2,
            )
        return data

    def _seen(self, data: DataSet) -> int:
        """Number of test examples that the run was trained on; 0 if its own data are not found."""
        try:
            trained = {sha256(example.tobytes()) for example in self.find_data().inputs("train")}
        except ValueError:
            return 0
        return sum(sha256(example.tobytes()) in trained for example in data.inputs("test"))

    @cached_property
    def _sealed(self) -> Artefact:
        """The finished run, with the digests of its files."""
        found = Artefact.open(self.path, RUN)
        if found.files is None:
            raise ValueError(f"the run in {self.path} is not finished: resume it with the same train command")
        return found

    @property
    def finished(self) -> bool:
        """Whether the training is finished."""
        try:
            return Artefact.open(self.path, RUN).files is not None
        except MissingError:
            return False

    @cached_property
    def result(self) -> dict[str, Any]:
        """Counts and costs of the finished run: parameters, zeros, seconds, ..."""
        try:
            data = self._sealed.read(RESULT)
            TypeAdapter(_Result).validate_json(data, strict=True)
            found: dict[str, Any] = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DamagedError(self.path / RESULT, f"it is not a run's result ({error})", RUN.remedy) from error
        return found

    def history(self) -> list[Record]:
        """Learning curves: one record per evaluation."""
        if self.finished:
            self._sealed.path(HISTORY)
        found = read_lines(self.path / HISTORY, remedy=RUN.remedy)
        if not all(isinstance(value, int | float) for record in found for value in record.values()):
            raise DamagedError(self.path / HISTORY, "it has entries that are not numbers", RUN.remedy)
        if self.finished and not found:
            raise DamagedError(self.path / HISTORY, "it is empty", RUN.remedy)
        return found

    def finish(self, surrogate: Surrogate, result: dict[str, Any]) -> None:
        """Save the finished network and the result, and seal the run."""
        # Copies, because the format does not allow tensors that share memory, such as tied weights.
        state = surrogate.state_dict()
        model = save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in state.items()})
        with locked(self.path):
            write_atomically(self.path / MODEL, model)
            write_atomically(self.path / RESULT, json.dumps(result, indent=1).encode())
            Artefact.open(self.path, RUN).seal([MODEL, RESULT, HISTORY])

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        try:
            return load(self._sealed.read(MODEL))
        except SafetensorError as error:
            raise DamagedError(self.path / MODEL, str(error), RUN.remedy) from error

    def surrogate(self) -> Surrogate:
        """The finished network, from physical inputs to physical outputs."""
        tensors = self._tensors
        try:
            held = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            require_outline(self.settings, self.problem, held, trust=self.trust)
            surrogate = empty_surrogate(self.settings, self.problem, trust=self.trust)
            surrogate.load_state_dict(tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            name = self.settings.network or self.problem.default_network
            raise ValueError(f"{name} has changed since it was trained in {self.path}: {reason}") from error
        return surrogate.eval()

    def bank(self) -> PosteriorBank:
        """The posterior samples that were kept."""
        return PosteriorBank(folder=self.path / SAMPLES)

    def chains(self) -> list["SurrogateRun"]:
        """The run itself and those of its further chains."""
        numbers = sorted(int(n) for p in self.path.glob(f"{CHAIN}*") if (n := p.name.removeprefix(CHAIN)).isdecimal())
        found = [self.path / f"{CHAIN}{i}" for i in numbers]
        return [self, *(SurrogateRun.open(p, trust=self.trust) for p in found if (p / "artefact.json").exists())]

    def samples(self) -> "Pool":
        """The posterior samples of all chains."""
        chains = self.chains()
        for chain in chains:
            if not chain.finished:
                raise ValueError(f"the chain in {chain.path} is not finished: resume it with the same train command")
        return Pool([chain.bank() for chain in chains])

    def trusted(self) -> "SurrogateRun":
        """The same run, allowed to import a network from outside this package."""
        return replace(self, trust=True)


@dataclass(frozen=True)
class Pool:
    """The samples of several banks, one after the other."""

    banks: list[PosteriorBank]

    def __len__(self) -> int:
        return sum(map(len, self.banks))

    def __iter__(self) -> Iterator[Sample]:
        return itertools.chain.from_iterable(self.banks)


def epochs_done(path: Path) -> float:
    """Number of epochs that the run in a folder has done, by the last line of its learning curve."""
    try:
        history = SurrogateRun.open(path).history()
    except (MissingError, DamagedError):  # not started, or a line is being written
        return 0.0
    return float(history[-1]["epoch"]) if history else 0.0
