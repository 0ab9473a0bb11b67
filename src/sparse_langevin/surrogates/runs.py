r"""The folder of a training run, and what can be asked of it.

run.json             settings, data set, versions; written first
history.jsonl        learning curves, one line per evaluation
checkpoints/         see `runs`
samples/             posterior samples, see `posterior`
model.safetensors    the finished network with the normalisation of its data
chain-1/, ...        runs of further chains, if there are some; this folder itself is that of chain 0
result.json          counts, seconds, SHA-256 of the model; written last
"""

import itertools
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.parameter import UninitializedParameter

from sparse_langevin.posterior import PosteriorBank, Sample
from sparse_langevin.problems.darcy.datasets import DarcyData
from sparse_langevin.problems.darcy.grid import Grid
from sparse_langevin.problems.darcy.network import Surrogate
from sparse_langevin.problems.darcy.tensors import Normalisation
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.storage.checkpoint import CheckpointError
from sparse_langevin.storage.files import TEMPORARY, sha256, write_atomically
from sparse_langevin.storage.lines import read_lines
from sparse_langevin.storage.runs import Record
from sparse_langevin.surrogates.settings import Settings, make_network

RUN, RESULT, MODEL, SAMPLES, CHAIN = "run.json", "result.json", "model.safetensors", "samples", "chain-"
HISTORY = "history.jsonl"
FORMAT = 2
COUNTS = ("parameters", "sparse_parameters", "zeros", "layers", "epochs", "seconds", "inclusion", "model_sha256")


@dataclass(frozen=True)
class SurrogateRun:
    """A training run in a folder, begun or finished."""

    path: Path
    settings: Settings
    grid: Grid
    data: str
    """Where the data set was: seen from the run's folder, or from where the command was given."""
    data_sha256: str
    """Of the data set's recipe."""
    versions: dict[str, str]

    @classmethod
    def open(cls, path: str | Path) -> "SurrogateRun":
        """The run in a folder."""
        path = Path(path)
        try:
            content = (path / RUN).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ValueError(f"{path} is not a run: it has no {RUN}. 'sparse-langevin train' makes one") from error
        try:
            found = json.loads(content)
            if found["format"] != FORMAT:
                raise ValueError(f"it was made by another version, in format {found['format']}: train again")
            settings, grid = Settings.from_json(found["settings"]), Grid(**found["grid"])
            return cls(path, settings, grid, str(found["data"]), found["data_sha256"], found["versions"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path / RUN} cannot be read: {error}") from error

    @classmethod
    def at(cls, path: str | Path, settings: Settings, data: DarcyData) -> "SurrogateRun":
        """The run of these settings in a folder, or one that can begin there; raise if the folder holds another."""
        path = Path(path)
        if (path / RUN).exists():
            there = cls.open(path)
            for name in settings.differences(there.settings):
                before, now = getattr(there.settings, name), getattr(settings, name)
                raise ValueError(
                    f"the run in {path} was started with {name} = {before}, now it is {now}: "
                    "resume with the same settings, or choose another folder"
                )
            there.check_data(data)
            return there
        if path.exists() and (not path.is_dir() or any(p for p in path.iterdir() if not p.name.startswith(TEMPORARY))):
            raise ValueError(f"{path} exists and is not a run of ours: choose another folder")
        where = os.path.relpath(data.folder.resolve(), path.resolve())  # ".." leads out of where a link points
        return cls(path, settings, data.grid, where, fingerprint(data), _versions())

    def begin(self) -> None:
        """Enter the settings into the folder, unless they are there."""
        if (self.path / RUN).exists():
            return
        self.path.mkdir(parents=True, exist_ok=True)
        content = {
            "format": FORMAT,
            "settings": self.settings.as_json(),
            "grid": vars(self.grid),
            "data": self.data,
            "data_sha256": self.data_sha256,
            "versions": self.versions,
        }
        write_atomically(self.path / RUN, json.dumps(content, indent=1).encode())

    def check_data(self, data: DarcyData) -> None:
        """Raise if a data set is not the one that the run was started with."""
        if fingerprint(data) != self.data_sha256:
            raise ValueError(
                f"the run in {self.path} was started with the data set {self.data}, and {data.folder} is another: "
                "use the same data, or choose another folder"
            )

    def find_data(self, other: str | Path | None = None) -> DarcyData:
        """The run's data set, or another one on the same grid."""
        if other is None:
            place = next((p for p in (self.path / self.data, Path(self.data)) if p.exists()), None)
            if place is None:
                raise ValueError(
                    f"the data set of the run in {self.path} is not at {self.data} any more: say where with --data"
                )
            data = DarcyData(place)
            self.check_data(data)
            return data
        data = DarcyData(other)
        if data.grid != self.grid:
            raise ValueError(
                f"{data.folder} has {data.grid.nx} by {data.grid.ny} cells, but the network in {self.path} was trained "
                f"on {self.grid.nx} by {self.grid.ny}"
            )
        if fingerprint(data) != self.data_sha256 and (seen := self._seen(data)):
            warnings.warn(
                f"{seen} test fields in {data.folder} were training data of the run in {self.path}: their errors say "
                "nothing about new fields; generate a data set with another --seed",
                stacklevel=2,
            )
        return data

    def _seen(self, data: DarcyData) -> int:
        """How many test fields of another data set the run was trained on, as far as its own data are there."""
        try:
            trained = {sha256(field.tobytes()) for field in self.find_data().array("kappa", "train")}
        except ValueError:
            return 0
        return sum(sha256(field.tobytes()) in trained for field in data.array("kappa", "test"))

    @property
    def finished(self) -> bool:
        """Whether the training has come to its end."""
        return (self.path / RESULT).exists()

    @property
    def result(self) -> dict[str, Any]:
        """What stood at the end: parameters, zeros, seconds, ..."""
        if not self.finished:
            raise ValueError(f"the run in {self.path} is not finished: the same train command goes on with it")
        try:
            found: dict[str, Any] = json.loads((self.path / RESULT).read_bytes())
            if missing := [name for name in COUNTS if name not in found]:
                raise ValueError(f"it has no {missing[0]}")
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{self.path / RESULT} is damaged: {error}") from error
        if not self.history():
            raise CheckpointError(f"{self.path / HISTORY} is missing or empty, but the run is finished: restore it")
        return found

    def history(self) -> list[Record]:
        """Learning curves: one record per evaluation."""
        path = self.path / HISTORY
        if not path.exists():
            return []
        try:
            found: list[Record] = read_lines(path)
            if any("step" not in record for record in found):
                raise ValueError("a line is not a record")
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged: {error}. Restore it") from error
        return found

    def finish(self, surrogate: Surrogate, result: dict[str, Any]) -> None:
        """Save the finished network, then the result."""
        # Copies: the format has no tensors that share memory, as tied weights do.
        model = save(
            {name: tensor.detach().cpu().clone().contiguous() for name, tensor in surrogate.state_dict().items()}
        )
        write_atomically(self.path / MODEL, model)
        content = result | {"model_sha256": sha256(model)}
        write_atomically(self.path / RESULT, json.dumps(content, indent=1).encode())

    @cached_property
    def _tensors(self) -> dict[str, Tensor]:
        path, digest = self.path / MODEL, self.result["model_sha256"]
        try:
            content = path.read_bytes()
            if sha256(content) != digest:
                raise ValueError("it does not match its SHA-256")
            return load(content)
        except (OSError, ValueError, SafetensorError) as error:
            raise CheckpointError(
                f"{path} is damaged: {error}. Restore it, or delete {self.path / RESULT} and train again to finish"
            ) from error

    def surrogate(self) -> Surrogate:
        """The finished network: raw permeability in, raw velocity out."""
        surrogate = empty_surrogate(self.settings, self.grid)
        try:
            surrogate.load_state_dict(self._tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"{self.settings.network} is not the network any more that was trained in {self.path}: {reason}"
            ) from error
        return surrogate.eval()

    def bank(self) -> PosteriorBank:
        """The posterior samples that were kept."""
        return PosteriorBank(folder=self.path / SAMPLES)

    def chains(self) -> list["SurrogateRun"]:
        """The run itself, and those of its further chains."""
        found = {path.parent.name.removeprefix(CHAIN): path.parent for path in self.path.glob(f"{CHAIN}*/{RUN}")}
        return [self, *(SurrogateRun.open(found[i]) for i in sorted(filter(str.isdecimal, found), key=int))]

    def samples(self) -> "Pool":
        """The posterior samples of all chains."""
        chains = self.chains()
        for chain in chains:
            if not chain.finished:
                raise ValueError(f"the chain in {chain.path} is not finished: the same train command goes on with it")
        return Pool([chain.bank() for chain in chains])


@dataclass(frozen=True)
class Pool:
    """The samples of several banks, one after the other."""

    banks: list[PosteriorBank]

    def __len__(self) -> int:
        return sum(map(len, self.banks))

    def __iter__(self) -> Iterator[Sample]:
        return itertools.chain.from_iterable(self.banks)


def epochs_done(path: Path) -> float:
    """How far the run in a folder is, from the last line of its learning curve."""
    try:
        history = SurrogateRun.open(path).history()
    except ValueError:  # not begun
        return 0.0
    return float(history[-1]["epoch"]) if history else 0.0


def find_device(name: str | torch.device | None) -> torch.device:
    """The device of that name, if torch can use it here; torch's default if None."""
    try:
        return torch.zeros((), device=name).device
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise ValueError(f"torch cannot use the device {str(name)!r} on this machine: {reason}") from error


def empty_surrogate(settings: Settings, grid: Grid) -> Surrogate:
    """A network with its first weights, and a normalisation that is to be filled in."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.chain_seed)
        network = make_network(settings.network, grid)
        if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
            with evaluating(network):  # lazy layers take their shapes from what they see first
                network(torch.zeros(2, 1, *grid.shape))
    return Surrogate(network, grid, Normalisation.identity(grid))


def fingerprint(data: DarcyData) -> str:
    """Identifies a data set by its recipe and the bytes of its files."""
    content = {"recipe": data.recipe, "shards": data.manifest["shards"]}
    return sha256(json.dumps(content, sort_keys=True).encode())


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("sparse-langevin", "torch", "numpy", "numba")}
