r"""BatchNorm: statistics of the batch while a chain is sampled, and of the training inputs in predictions.

In training mode a BatchNorm layer normalises by the mean and the variance over the batch B, so that the likelihood of
an example depends on the examples beside it. A chain then samples the density proportional to

    prior(beta) * exp E_B [N/n sum_(i in B) log p(y_i | x_i, B, beta)],

where B is a random batch of n examples. The size of batches is thus part of the target. For n = N this is the posterior
of a network that normalises by statistics of all training inputs; for smaller n it approximates it, with noise in the
statistics of relative size 1/sqrt(n). The running averages that the layers keep have no part in it: they depend on the
path of the chain and not on a single sample.

Predictions must not depend on which inputs are predicted together. So for each posterior sample the statistics are
estimated anew from training inputs (as in stochastic weight averaging: Izmailov et al., 2018), and kept fixed while the
sample predicts. They are torch's running statistics, whose variances are the unbiased ones, n/(n - 1) times those that
the layer divides by in training mode. A layer that is in eval mode while it is sampled is frozen: its statistics are
constants of the model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from sparse_langevin.sampling.batches import Batches, move
from sparse_langevin.sampling.likelihoods import call_model

LAYERS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_INITIAL = {"running_mean": 0.0, "running_var": 1.0, "num_batches_tracked": 0.0}


class BatchNorms:
    """The layers of a model that have running statistics, in the modes in which a chain begins."""

    def __init__(self, model: nn.Module) -> None:
        found = {name: layer for name, layer in model.named_modules() if _has_statistics(layer)}
        for name, layer in found.items():
            if layer.training and not isinstance(layer, LAYERS):
                raise ValueError(
                    f"layer {name!r}, {type(layer).__name__}, has running statistics in training mode. They depend on "
                    "the path of the chain and not on a single sample, and only those of BatchNorm can be estimated "
                    "anew for predictions. Use GroupNorm or LayerNorm, InstanceNorm with track_running_stats=False "
                    "(which uses each example's own statistics), or call .eval() on the layer to freeze them."
                )
        self._modes = [(name, layer, layer.training) for name, layer in found.items()]
        self._buffers = [b for layer in found.values() if layer.training for b in layer.buffers(recurse=False)]
        self.live = tuple(name for name, layer in found.items() if layer.training)
        """Names of the layers that normalise by the batch."""

    def check(self) -> None:
        """Raise an error if a layer has changed its mode since the chain began."""
        for name, layer, training in self._modes:
            if layer.training != training:
                was, now = ("training", "eval") if training else ("eval", "training")
                raise ValueError(
                    f"the normalisation layer {name!r} was in {was} mode when the sampler was created and is in {now} "
                    f"mode now, which would change what the chain samples: call .{'train' if training else 'eval'}() "
                    "on it before the next step, or create a new sampler"
                )

    def settings(self) -> dict[str, str]:
        """Return what a resumed chain must have in common, as text."""
        return {"batch_norms": repr(self.live)} if self.live else {}

    @contextmanager
    def restored(self, *, only_on_error: bool = False) -> Iterator[None]:
        """Put the running statistics back afterwards, so that a bad batch or a mere look leaves no trace in them."""
        before, failed = [buffer.clone() for buffer in self._buffers], True
        try:
            yield
            failed = False
        finally:
            if failed or not only_on_error:
                for buffer, value in zip(self._buffers, before, strict=True):
                    buffer.copy_(value)


def as_batches(statistics: Any) -> Iterable[Any]:
    """Return training inputs as an iterable of batches that can be iterated many times.

    Parameters
    ----------
    statistics
        One batch of inputs (a tensor, or a mapping of named inputs), or an iterable of batches such as the loader of
        the training data. Each of its batches is a tensor, a mapping of named inputs, or a tuple or list whose first
        entry is the inputs, such as (inputs, targets).
    """
    if isinstance(statistics, Tensor | Mapping):
        return [statistics]
    if isinstance(statistics, tuple) or not isinstance(statistics, Iterable):
        raise TypeError(
            "statistics must be a tensor of training inputs or an iterable of batches such as a DataLoader, got "
            f"{type(statistics).__name__}: put a single batch (inputs, targets) into a list"
        )
    if iter(statistics) is statistics:
        raise TypeError(
            f"statistics are read once for every posterior sample, but a {type(statistics).__name__} can be iterated "
            "only once: pass a list, Batches(...) or a DataLoader"
        )
    return statistics


def estimate(
    model: nn.Module, parameters: Mapping[str, Tensor], names: Sequence[str], batches: Iterable[Any]
) -> dict[str, Tensor]:
    """Return the running statistics of BatchNorm layers for given parameters, as buffers for ``functional_call``.

    They are averages over the batches, each of which counts the same. All other layers are in the mode in which the
    model is, such as dropout in eval mode, and the buffers of the model itself do not change.

    Parameters
    ----------
    model
        The model, in eval mode.
    parameters
        Its parameters by name.
    names
        Names of the BatchNorm layers.
    batches
        Training inputs, see `as_batches`.
    """
    layers = {name: _layer(model, name) for name in names}
    buffers = {
        f"{name}.{key}".lstrip("."): torch.full_like(buffer, _INITIAL[key])
        for name, layer in layers.items()
        for key, buffer in layer.named_buffers(recurse=False)
        if key in _INITIAL
    }

    def call(*args: Any, **named: Any) -> Tensor:
        output: Tensor = functional_call(model, {**parameters, **buffers}, args, named)
        return output

    if isinstance(batches, Batches):
        batches = _first_epoch(batches)
    device, count = next(iter(parameters.values())).device, 0
    with torch.no_grad(), _averaging(list(layers.values())):
        for batch in batches:
            call_model(call, move(_inputs(batch), device))
            count += 1
    if not count:
        raise ValueError("statistics gave no batches: pass the training inputs, or a loader that is not empty")
    return buffers


@contextmanager
def _averaging(layers: Sequence[Any]) -> Iterator[None]:
    """Let BatchNorm layers normalise by the batch and average its statistics with equal weights."""
    before = [(layer.training, layer.momentum) for layer in layers]
    try:
        for layer in layers:
            layer.training, layer.momentum = True, None
        yield
    finally:
        for layer, (training, momentum) in zip(layers, before, strict=True):
            layer.training, layer.momentum = training, momentum


def _first_epoch(loader: Batches) -> Batches:
    """Return a copy, so that all samples see the same batches and the user's loader stays where it is."""
    loader = copy(loader)
    loader.set_epoch(0)
    return loader


def _layer(model: nn.Module, name: str) -> nn.Module:
    layer = dict(model.named_modules()).get(name)
    if not isinstance(layer, LAYERS) or not _has_statistics(layer):
        seen = "nothing" if layer is None else type(layer).__name__
        raise ValueError(
            f"the samples are of another model: in theirs, {name!r} is a BatchNorm layer with running statistics, in "
            f"this one it is {seen}. Pass the model that was sampled."
        )
    return layer


def _inputs(batch: Any) -> Any:
    """Return the inputs of a batch, which may have targets beside them."""
    if isinstance(batch, tuple | list) and batch:
        return batch[0]
    if not isinstance(batch, Tensor | Mapping):
        raise TypeError(
            "each batch of statistics must be a tensor, a mapping of named inputs, or (inputs, targets), got "
            f"{type(batch).__name__}"
        )
    return batch


def _has_statistics(layer: nn.Module) -> bool:
    return getattr(layer, "running_mean", None) is not None
