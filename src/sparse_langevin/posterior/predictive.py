r"""The posterior predictive distribution: what the samples of a bank say about new inputs.

At each output it is the mixture sum_s w_s N(F(x; beta_s), sigma_s^2), with weights w_s proportional to the step sizes.
Its mean and standard deviation are accumulated sample by sample. Quantiles need the outputs of all samples at once: the
inputs are cut into chunks whose outputs fit into ``memory``, and the samples are read once for each chunk.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin.posterior.encoding import Sample
from sparse_langevin.posterior.mixture import Mixture
from sparse_langevin.sampling.batch_norm import as_batches, estimate
from sparse_langevin.sampling.evaluation import evaluating
from sparse_langevin.sampling.likelihoods import call_model

Transform = Callable[[Tensor], Tensor]
MEMORY = 2**28  # bytes


class Samples(Protocol):
    """A bank, or a list of samples."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Sample]: ...


@dataclass(frozen=True)
class Prediction:
    """The prediction at some inputs: a mean and its spread, in the units of the output."""

    mean: Tensor
    """Mean over the posterior samples; the output of a single network if there are none."""
    std: Tensor | None = None
    """Standard deviation due to the parameters alone; None for a single network."""
    noise_std: float | Tensor | None = None
    """Standard deviation of the observation noise: root mean square of sigma. None for a single network."""
    quantiles: Tensor | None = None
    """Quantiles of a new observation, of shape (levels, examples, ...), if they were asked for."""
    samples: int = 0
    """Number of posterior samples used; 0 for a single network."""

    @property
    def total_std(self) -> Tensor:
        """Standard deviation of a new observation; without observation noise it is `std`.

        Noise belongs to regression. Predictions of a classifier, or of a model with a log-likelihood of your own, have
        ``noise_std = 0``: the model's output then varies with the parameters only, and so does this number.
        """
        if self.std is None or self.noise_std is None:
            raise ValueError("a single network has no spread: keep posterior samples (train --samples 20)")
        return (self.std.square() + self.noise_std**2).sqrt()


class Predictive:
    """The predictive distribution of a model at some inputs.

    Parameters
    ----------
    samples
        A `PosteriorBank`, or a list of its samples.
    model
        The model that was sampled. It is called in eval mode.
    inputs
        A tensor, a tuple of positional inputs, or a mapping of named inputs. The first dimension of inputs and outputs
        counts the examples.
    transform
        A function applied to each output, such as a softmax for classification or a change of units.
    noise_scale
        The factor that turns sigma into the units of the transformed output: a number, or a tensor of the shape of an
        output.
    batch_size
        Number of examples in one call of the model; None for all examples of a chunk.
    memory
        Bytes that the outputs of all samples may take when they are needed at the same time.
    statistics
        Training inputs, needed if the model was sampled with BatchNorm layers in training mode: one tensor, or an
        iterable of batches such as the loader of the training data, whose batches may have targets beside the inputs.
        Each time a sample is read, the running statistics of these layers are estimated anew for it, as averages over
        the batches. Batches of the size that the chain was sampled with are best. The model's own statistics do not
        change.
    """

    def __init__(
        self,
        samples: Samples,
        model: nn.Module,
        inputs: Any,
        *,
        transform: Transform | None = None,
        noise_scale: float | Tensor = 1.0,
        batch_size: int | None = None,
        memory: int = MEMORY,
        statistics: Any = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, or None for all examples at once, got {batch_size!r}")
        self.samples, self.model, self.inputs = samples, model, inputs
        self.statistics = None if statistics is None else as_batches(statistics)
        self.transform, self.noise_scale = transform, noise_scale
        self.batch_size, self.memory = batch_size, memory

    def moments(self, observe: Callable[[Sample, Tensor], None] = lambda sample, output: None) -> Prediction:
        """Return mean and standard deviations, in one pass; ``observe`` is called with each sample and its output."""
        total = noise = 0.0
        count, dtype = 0, torch.float32
        mean = square = None
        with evaluating(self.model):
            for sample in self._samples():
                answer = self._output(sample, self.inputs)
                dtype, output = answer.dtype, answer.double()
                observe(sample, output)
                count += 1
                if mean is None or square is None:
                    mean, square = torch.zeros_like(output), torch.zeros_like(output)
                total += sample.weight
                if total > 0:
                    change = output - mean
                    mean += change * (sample.weight / total)
                    square += sample.weight * change * (output - mean)
                noise += sample.weight * sample.noise**2
        if mean is None or square is None or total == 0:
            raise _no_samples()
        std = (square / total).clamp_(min=0).sqrt().to(dtype)
        return Prediction(mean.to(dtype), std, (noise / total) ** 0.5 * self.noise_scale, samples=count)

    def mixtures(self, *, noise: bool = True) -> Iterator[tuple[slice, Mixture]]:
        """Yield the distribution chunk by chunk: a slice of the examples, and the mixture at their outputs."""
        chunks = self._chunks()
        for rows in chunks:
            # No variable refers to a chunk here, so that its memory is freed before the next one is computed.
            yield rows, self._mixture(None if len(chunks) == 1 else rows, noise)

    def mixture(self, *, noise: bool = True) -> Mixture:
        """Return the distribution at all examples at once, whatever memory that takes."""
        return self._mixture(None, noise)

    def quantiles(self, levels: Sequence[float], *, noise: bool = True) -> Tensor:
        """Return quantiles (levels, examples, ...) of a new observation, or of the model's output without ``noise``."""
        parts = []
        for _, mixture in self.mixtures(noise=noise):
            parts.append(torch.from_numpy(mixture.quantile(levels).astype(mixture.means.dtype)))
            del mixture
        return torch.cat(parts, dim=1)

    def draw(self, count: int, *, noise: bool = True, seed: int = 0) -> Tensor:
        """Return draws (count, examples, ...); each draw uses one posterior sample at all inputs."""
        generator = torch.Generator().manual_seed(seed)
        # Two passes over the samples: one for the weights, one for the outputs.
        weights = torch.tensor([sample.weight for sample in self._samples()], dtype=torch.float64)
        if not weights.sum() > 0:
            raise _no_samples()
        chosen = torch.multinomial(weights, count, replacement=True, generator=generator)
        draws: list[Tensor | None] = [None] * count
        with evaluating(self.model):
            for number, sample in enumerate(self._samples()):
                mine = (chosen == number).nonzero().flatten().tolist()
                if not mine:
                    continue
                output = self._output(sample, self.inputs)
                for i in mine:
                    error = torch.randn(output.shape, generator=generator, dtype=output.dtype) if noise else 0.0
                    draws[i] = output + sample.noise * self.noise_scale * error
        return torch.stack([draw for draw in draws if draw is not None])

    def _samples(self) -> Iterator[Sample]:
        shapes = {name: p.shape for name, p in self.model.named_parameters()}
        trained = {name for name, p in self.model.named_parameters() if p.requires_grad}
        for sample in self.samples:
            for name, value in sample.parameters.items():
                if shapes.get(name) != value.shape:
                    raise ValueError(
                        f"the samples are of another model: their {name!r} has shape {tuple(value.shape)}, the model's "
                        f"{tuple(shapes[name]) if name in shapes else 'is missing'}. Pass the model that was sampled."
                    )
            if missing := sorted(trained - sample.parameters.keys()):
                raise ValueError(
                    f"the samples are of another model: they have no {missing[0]!r}. Pass the model that was sampled, "
                    "or freeze the parameter if it was not meant to be sampled."
                )
            yield sample

    def _output(self, sample: Sample, inputs: Any) -> Tensor:
        tensors = self._tensors(sample)

        def call(*args: Any, **named: Any) -> Tensor:
            output: Tensor = functional_call(self.model, tensors, args, named)
            return output

        size = self.batch_size
        rows = _rows(inputs) if size is not None else 0
        if size is None or rows <= size:
            output = call_model(call, inputs)
        else:
            parts = [call_model(call, _part(inputs, slice(i, min(i + size, rows)))) for i in range(0, rows, size)]
            output = torch.cat(parts)
        return (output if self.transform is None else self.transform(output)).cpu()

    def _tensors(self, sample: Sample) -> dict[str, Tensor]:
        """Return the parameters of a sample on the model's device, and the statistics that belong to them."""
        device = next(self.model.parameters()).device
        parameters = {name: value.to(device) for name, value in sample.parameters.items()}
        if not sample.batch_norms:
            return parameters
        if self.statistics is None:
            raise ValueError(
                f"the model was sampled with BatchNorm in training mode (layer {sample.batch_norms[0]!r}), so its "
                "running statistics do not belong to any one sample: pass training inputs, such as statistics=loader, "
                "to estimate them for each sample"
            )
        return parameters | estimate(self.model, parameters, sample.batch_norms, self.statistics)

    def _mixture(self, rows: slice | None, noise: bool) -> Mixture:
        """Return the distribution of some of the examples, or of all if ``rows`` is None."""
        with evaluating(self.model):
            outputs, weights, sigmas = self._together(self.inputs if rows is None else _part(self.inputs, rows))
        if rows is not None and outputs.shape[1] != rows.stop - rows.start:
            raise ValueError(
                f"{rows.stop - rows.start} examples gave an output of shape {outputs.shape[1:]}: its first dimension "
                "does not count them, so they cannot be processed in chunks. Increase memory to process all at once."
            )
        return Mixture.of(outputs, self._noise(outputs, sigmas) if noise else 0.0, weights)

    def _together(self, inputs: Any) -> tuple[np.ndarray, list[float], list[float]]:
        """Return the outputs (S, ...) of all samples, their weights and their noise levels."""
        outputs, weights, sigmas = None, [], []
        for number, sample in enumerate(self._samples()):
            output = self._output(sample, inputs).numpy()
            if outputs is None:  # filled sample by sample, since stacking a list would need twice the memory
                outputs = np.empty((len(self.samples), *output.shape), output.dtype)
            outputs[number] = output
            weights.append(sample.weight)
            sigmas.append(sample.noise)
        if outputs is None or sum(weights) == 0:
            raise _no_samples()
        return outputs[: len(weights)], weights, sigmas

    def _noise(self, outputs: np.ndarray, sigmas: list[float]) -> np.ndarray:
        if isinstance(self.noise_scale, Tensor) and self.noise_scale.dim():
            scale = self.noise_scale.cpu().numpy()
            shape = (len(sigmas),) + (1,) * (outputs.ndim - 1)
            return np.broadcast_to(np.reshape(sigmas, shape) * scale, outputs.shape)
        return np.array(sigmas) * float(self.noise_scale)

    def _chunks(self) -> list[slice]:
        """Cut the examples into chunks whose outputs under all samples fit into memory together."""
        rows = _rows(self.inputs)
        first = next(self._samples(), None)
        if first is None:
            raise _no_samples()
        if rows < 2:
            return [slice(0, rows)]
        with evaluating(self.model):
            output = self._output(first, _part(self.inputs, slice(0, 1)))
        # Noise that differs between outputs takes another float64 number for each.
        each = output.element_size() + 8 * isinstance(self.noise_scale, Tensor)
        per_row = len(self.samples) * output.numel() * each
        size = max(1, self.memory // max(1, per_row))
        return [slice(i, min(i + size, rows)) for i in range(0, rows, size)]


def _rows(inputs: Any) -> int:
    """Return the number of examples."""
    parts = inputs.values() if isinstance(inputs, Mapping) else inputs if isinstance(inputs, tuple | list) else [inputs]
    return len(next(iter(parts)))


def _part(inputs: Any, rows: slice) -> Any:
    """Return some of the examples."""
    if isinstance(inputs, Mapping):
        return {name: value[rows] for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(value[rows] for value in inputs)
    return inputs[rows]


def _no_samples() -> ValueError:
    return ValueError(
        "the posterior bank has no samples of positive weight: run the sampler for longer than burn_in + thin steps, "
        "with step sizes above zero"
    )
