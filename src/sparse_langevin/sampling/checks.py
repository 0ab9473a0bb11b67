"""Checks of what users pass to a sampler, and their error messages."""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sparse_langevin.sampling.flat import FlatParameters, named_parameters_of, unknown_name
from sparse_langevin.sampling.health import warn
from sparse_langevin.sampling.priors import Prior, as_prior, default_prior


def as_count(value: Any, name: str, *, low: int = 0, high: float = math.inf) -> int:
    """Return ``value`` as an int; it must be an integer, NumPy's included, in [low, high)."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not low <= operator.index(value) < high:
        bound = f"at least {low}" if math.isinf(high) else f"in [{low}, 2**{round(math.log2(high))})"
        raise ValueError(f"{name} must be an integer {bound}, got {value!r}")
    return operator.index(value)


def require_finite(
    flat: FlatParameters, curvature: Tensor | None, loss: float, data: Any, step: int, *, squares: bool
) -> None:
    """Raise an error, before anything has changed, if the loss, a gradient or a curvature is not finite.

    With ``squares`` the squares of the gradient must be finite too.
    """
    # One pass: the sum of squares is finite only if every square is. The rest of the function finds the culprit.
    total = torch.dot(flat.grad, flat.grad) if curvature is None else torch.dot(flat.grad, flat.grad) + curvature.sum()
    if math.isfinite(float(total)) and math.isfinite(loss):
        return
    used = flat.grad.square() if squares else flat.grad
    bad = _not_finite(flat.views(used).items())
    if curvature is not None:
        bad += _not_finite(flat.views(curvature).items())
    if not bad and math.isfinite(loss):
        return
    where = f"the gradient of parameter {bad[0]!r}" if bad else "the loss"
    more = f" (and of {len(bad) - 1} more)" if len(bad) > 1 else ""
    in_data = _not_finite(_tensors(data))
    in_weights = _not_finite(flat.views(flat.vector).items())
    if in_data:
        cause = f"The batch holds NaN or infinity in {in_data[0]}: clean the data."
    elif in_weights:
        cause = f"The weights of {in_weights[0]!r} are not finite: the chain diverged, use a smaller step size."
    else:
        cause = "The batch is finite, so the model overflowed: use a smaller step size, or check the model."
    raise FloatingPointError(
        f"step {step}: {where}{more} is not finite, the loss is {loss:g}. {cause} "
        f"The sampler is unchanged, at step {step - 1}."
    )


def assign_priors(
    model: nn.Module, flat: FlatParameters, prior: Prior | Mapping[str, Prior] | None, dense: Prior
) -> dict[str, Prior]:
    """Return the prior of each block."""
    shapes = {entry.name: entry.shape for entry in flat.entries}
    sparse = [block.name for block in flat.sparse_blocks]
    priors = {block.name: as_prior(dense, "dense_prior") for block in flat.blocks if not block.sparse}
    usual = default_prior(len(sparse))
    prior = usual if prior is None else prior
    if not isinstance(prior, Mapping):
        if as_prior(prior, "prior").vectors and not sparse:
            raise ValueError(f"{prior!r} needs sparse layers, but none were found: name them with sparse=[...]")
        return priors | {name: prior.for_layer(shapes[name]) for name in sparse}
    priors |= {name: usual.for_layer(shapes[name]) for name in sparse}
    for key, value in prior.items():
        names = named_parameters_of(model, key)
        if not names <= set(sparse):
            raise ValueError(f"prior names {key!r}, which is not a sparse layer. " + unknown_name(key, sparse))
        given = as_prior(value, f"the prior of layer {key!r}")
        priors |= {name: given.for_layer(shapes[name]) for name in names}
    return priors


def require_same_layout(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise an error if a state does not have the names, shapes and precisions of this sampler's state."""
    for part in ("tensors", "scalars"):
        if odd := mine[part].keys() ^ theirs[part].keys():
            raise ValueError(f"the state belongs to another sampler: only one of the two has {', '.join(sorted(odd))}")
    for name, tensor in mine["tensors"].items():
        other = theirs["tensors"][name]
        if tensor.shape != other.shape or tensor.dtype != other.dtype:
            raise ValueError(
                f"the state belongs to another sampler: {name!r} is {other.dtype} of shape {tuple(other.shape)} there, "
                f"{tensor.dtype} of shape {tuple(tensor.shape)} here"
            )


def check_arguments(
    train: Iterable[Any],
    steps: int | None,
    epochs: int | None,
    evaluate_every: int | None,
    save_every: int,
    control_variates: int | None,
) -> int | None:
    """Check the arguments of `fit`; return the number of batches in an epoch, or None if it is not known."""
    if (steps is None) == (epochs is None):
        raise ValueError(f"give either steps or epochs, got steps={steps!r} and epochs={epochs!r}")
    counts = {"steps": steps, "epochs": epochs, "evaluate_every": evaluate_every, "save_every": save_every}
    counts |= {"control_variates": control_variates}
    for name, value in counts.items():
        if value is not None:
            as_count(value, name, low=1)
    if not isinstance(train, Iterable):
        raise TypeError(f"train must be an iterable of batches such as Batches(x, y, batch_size=64), got {train!r}")
    try:
        length = len(train)  # type: ignore[arg-type]
    except TypeError:  # no length, or a DataLoader over an iterable data set
        length = None
    if length == 0:
        raise ValueError("the loader is empty: it has no batches")
    return length


def check_pruning(sampler: Any, bank: Any, total: int | None) -> None:
    """Raise an error if pruning does not end within the run, and warn if samples are taken before it ends."""
    plan = sampler.pruning
    if plan is None:
        return
    if total is not None and sampler.steps + total < plan.end:
        raise ValueError(
            f"pruning ends at step {plan.end}, but the run stops at step {sampler.steps + total}: the finished model "
            f"would miss the target of {plan.target:.0%} zeros. Use Pruning(end=...) within the run, or more steps."
        )
    if bank is not None and bank.burn_in + bank.thin < plan.end:
        warn(
            f"the bank takes its first sample at step {bank.burn_in + bank.thin}, before pruning ends at step "
            f"{plan.end}: its samples mix denser and sparser models. Use PosteriorBank(burn_in={plan.end})."
        )


def _not_finite(tensors: Iterable[tuple[str, Tensor]]) -> list[str]:
    return [name for name, t in tensors if t.is_floating_point() and not bool(torch.isfinite(t).all())]


def _tensors(data: Any, path: str = "batch") -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors in a nested batch, with the path to each."""
    if isinstance(data, Tensor):
        yield path, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _tensors(value, f"{path}[{key!r}]")
    elif isinstance(data, tuple | list):
        for i, value in enumerate(data):
            yield from _tensors(value, f"{path}[{i}]")
