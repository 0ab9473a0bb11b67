r"""A bank of posterior samples, thinned, weighted by step size, in memory or on disk.

With decreasing steps the posterior mean of phi is estimated by sum_k eps_k phi(beta_k) / sum_k eps_k; each sample
therefore carries the step size it was drawn with. On disk a sample is one safetensors file, written under a temporary
name and renamed, so a crash loses at most the sample being written.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin.evaluation import evaluating
from sparse_langevin.files import write_atomically
from sparse_langevin.likelihoods import call_model
from sparse_langevin.sampler import Info, Sampler


@dataclass(frozen=True)
class Sample:
    """One posterior sample: named parameters, their noise level and their weight in averages."""

    chain: int
    step: int
    weight: float
    sigma: float
    parameters: dict[str, Tensor]


@dataclass(frozen=True)
class Prediction:
    """Mean and spread of the posterior predictive distribution."""

    mean: Tensor
    std: Tensor
    """Standard deviation due to the parameters alone."""
    noise_std: float
    """Standard deviation of the observation noise: root mean square of sigma."""

    @property
    def total_std(self) -> Tensor:
        """Standard deviation of a new observation."""
        return (self.std.square() + self.noise_std**2).sqrt()


class PosteriorBank:
    """Collects every ``thin``-th sample after ``burn_in`` steps.

    Parameters
    ----------
    thin
        Steps between samples.
    burn_in
        Steps before the first sample is taken.
    folder
        Where to keep the samples; in memory if None. A run with checkpoints needs a folder.

    Examples
    --------
    >>> bank = PosteriorBank(thin=2)
    >>> sampler = sgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=10, step_size=1e-4)
    >>> for _ in range(10):
    ...     bank.collect(sampler, sampler.step(torch.ones(10, 3), torch.ones(10, 1)))
    >>> len(bank)
    5
    """

    def __init__(self, *, thin: int = 10, burn_in: int = 0, folder: str | Path | None = None) -> None:
        if thin < 1 or burn_in < 0:
            raise ValueError(f"PosteriorBank needs thin >= 1 and burn_in >= 0, got thin={thin!r}, burn_in={burn_in!r}")
        self.thin, self.burn_in = thin, burn_in
        self.folder = Path(folder) if folder is not None else None
        self._memory: list[Sample] = []
        self._opened: set[int] = set()

    def __repr__(self) -> str:
        return f"PosteriorBank(thin={self.thin}, burn_in={self.burn_in})"

    def collect(self, sampler: Sampler, info: Info) -> None:
        """Take a sample if one is due after this step."""
        if info.step <= self.burn_in or (info.step - self.burn_in) % self.thin:
            return
        parameters = sampler.flat.views(sampler.flat.vector.detach().cpu().clone())
        sample = Sample(sampler.chain, info.step, info.step_size, sampler.sigma, parameters)
        if self.folder is None:
            self._memory.append(sample)
        else:
            self._open(self.folder, sample)
            # One entry: the format's writer puts several in no particular order, and files are to be reproducible.
            fields = {"chain": sample.chain, "step": sample.step, "weight": sample.weight, "sigma": sample.sigma}
            meta = {"sample": json.dumps(fields)}
            data = save({n: t.contiguous().clone() for n, t in parameters.items()}, metadata=meta)
            write_atomically(self.folder / f"sample-{sample.chain:03d}-{sample.step:09d}.safetensors", data)

    def __len__(self) -> int:
        return len(self._memory) if self.folder is None else len(self._files())

    def __iter__(self) -> Iterator[Sample]:
        if self.folder is None:
            yield from self._memory
        else:
            yield from map(_read_sample, self._files())

    def count(self, chain: int) -> int:
        """Number of samples of one chain."""
        return sum(sample.chain == chain for sample in self._memory) + len(self._files(chain))

    def rewind(self, chain: int, step: int, expected: int) -> None:
        """Forget a chain's samples taken after ``step``; a run that resumes there will take them again."""
        kept = sum(_place(path)[1] <= step for path in self._files(chain))
        if kept != expected:
            raise RuntimeError(
                f"the posterior bank in {self.folder} holds {kept} samples up to step {step}, but the checkpoint was "
                f"saved with {expected}: give the bank of this run, restore its files, or start the run in a new folder"
            )
        for path in self._files(chain):
            if _place(path)[1] > step:
                path.unlink()

    def predict(
        self, model: nn.Module, inputs: object, *, transform: Callable[[Tensor], Tensor] | None = None
    ) -> Prediction:
        """Average the model's output over the samples, in eval mode; memory does not grow with their number.

        Parameters
        ----------
        model
            The model that was sampled.
        inputs
            A tensor, a tuple of positional or a mapping of named inputs.
        transform
            Applied to each output before averaging, such as a softmax for classification.
        """
        with evaluating(model):
            return self._average(model, inputs, transform)

    def _average(self, model: nn.Module, inputs: object, transform: Callable[[Tensor], Tensor] | None) -> Prediction:
        device = next(model.parameters()).device
        total = 0.0
        mean = square = None
        noise = 0.0
        for sample in self:
            parameters = {name: value.to(device) for name, value in sample.parameters.items()}
            output = call_model(lambda *a, p=parameters, **k: functional_call(model, p, a, k), inputs)
            output = (output if transform is None else transform(output)).double()
            total += sample.weight
            if mean is None or square is None:
                mean, square = torch.zeros_like(output), torch.zeros_like(output)
            if total > 0:
                change = output - mean
                mean += change * (sample.weight / total)
                square += sample.weight * change * (output - mean)
            noise += sample.weight * sample.sigma**2
        if mean is None or square is None or total == 0:
            raise ValueError(
                "the posterior bank has no samples of positive weight: run the sampler for longer than burn_in + thin "
                "steps, with step sizes above zero"
            )
        dtype = next(model.parameters()).dtype
        return Prediction(mean.to(dtype), (square / total).clamp_(min=0).sqrt().to(dtype), (noise / total) ** 0.5)

    def _files(self, chain: int | None = None) -> list[Path]:
        """Files of all chains or of one, by chain and step."""
        found = self.folder.glob("sample-*-*.safetensors") if self.folder is not None else ()
        return sorted((path for path in found if chain in (None, _place(path)[0])), key=_place)

    def _open(self, folder: Path, sample: Sample) -> None:
        """Before a chain's first sample: insist that the folder has no later ones, which must be another run's."""
        if sample.chain in self._opened:
            return
        folder.mkdir(parents=True, exist_ok=True)
        if any(_place(path)[1] >= sample.step for path in self._files(sample.chain)):
            raise ValueError(f"{folder} already holds samples of another run: choose another folder or empty it")
        self._opened.add(sample.chain)


def _place(path: Path) -> tuple[int, int]:
    """Chain and step in a file's name."""
    _, chain, step = path.stem.split("-")
    return int(chain), int(step)


def _read_sample(path: Path) -> Sample:
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads(file.metadata()["sample"])
            parameters = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
    except (SafetensorError, OSError, TypeError, KeyError, ValueError) as error:
        raise RuntimeError(
            f"posterior sample {path} is damaged ({error}): delete the file to go on without it"
        ) from error
    return Sample(**meta, parameters=parameters)
