"""Linear layers that skip their zeros: inference on the CPU.

`sparsify` replaces those linear layers of a model that are sparse and large enough to become faster. It leaves
everything else as it is: convolutions, layers on other devices or in other precisions, and all layers if Numba cannot
be imported.
"""

import copy
import functools
import logging
import math
from collections import deque
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from sparse_langevin.runtime import threads
from sparse_langevin.sampling.kernels.engines import pieces

# For each number of weights, the share of zeros from which a layer becomes faster at batch sizes from 1 to 64
# (python -m benchmarks --only deploy). The dense weights of the first size do not fit into the cache, those of the
# second do.
MIN_ZEROS = ((3_000_000, 0.65), (500_000, 0.8))
SMALL = 300_000  # nonzeros, which take about 0.2 ms; with fewer, starting threads is not worthwhile
FEW = 2  # up to this many samples are faster one by one than packed

logger = logging.getLogger("sparse_langevin")


class SparseLinear(nn.Module):
    """A linear layer that keeps and multiplies only its nonzero weights, on as many threads as torch uses.

    The result equals that of the dense layer up to rounding, and does not depend on the number of threads. There is one
    difference: where the dense layer multiplies zero by infinity and gets NaN, this one skips the product. There are no
    gradients. The nonzeros are stored in float32, and their columns in 16 bits if there are at most 65,536 columns.

    Parameters
    ----------
    linear
        The layer to replace, in float32 on the CPU.

    Examples
    --------
    >>> dense = nn.Linear(300, 200)
    >>> dense.weight.data[:, 100:] = 0
    >>> sparse = SparseLinear(dense)
    >>> sparse
    SparseLinear(in_features=300, out_features=200, bias=True, zeros=66.7%)
    >>> x = torch.randn(5, 300)
    >>> torch.allclose(sparse(x), dense(x), atol=1e-5)
    True
    """

    values: Tensor
    columns: Tensor
    cuts: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        panel = _kernel().PANEL
        weight = linear.weight.detach()
        if not weight.is_cpu or weight.dtype != torch.float32:
            raise ValueError(f"SparseLinear is for float32 on the CPU, got {weight.dtype} on {weight.device}")
        self.out_features, self.in_features = weight.shape
        self.has_bias = linear.bias is not None
        bias = linear.bias.detach().clone() if self.has_bias else weight.new_zeros(self.out_features)
        rows, columns = weight.nonzero(as_tuple=True)
        panels = max(1, math.ceil(self.in_features / panel))
        counts = torch.bincount(rows * panels + columns // panel, minlength=self.out_features * panels)
        ends = counts.cumsum(0).view(self.out_features, panels)
        starts = torch.cat([torch.zeros(1, dtype=ends.dtype), ends[:-1, -1]])[: self.out_features]
        self.register_buffer("values", weight[rows, columns])
        self.register_buffer("columns", columns.to(torch.uint16 if self.in_features <= 2**16 else torch.uint32))
        self.register_buffer("cuts", torch.cat([starts[:, None], ends], 1))
        self.register_buffer("bias", bias)

    @property
    def weight(self) -> Tensor:
        """The dense weights, computed at each access; for code that reads a layer's weights instead of calling it."""
        rows = torch.arange(self.out_features).repeat_interleave(self.cuts[:, -1] - self.cuts[:, 0])
        dense = self.values.new_zeros(self.out_features, self.in_features)
        dense[rows, self.columns.long()] = self.values
        return dense

    def extra_repr(self) -> str:
        """Return the shape and the share of zeros."""
        zeros = 1.0 - len(self.values) / max(1, self.out_features * self.in_features)
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias}, zeros={zeros:.1%}"
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map x of shape (..., in_features) to x W' + bias."""
        self._check(x)
        kernel = _kernel()
        flat = x.detach().reshape(math.prod(x.shape[:-1]), self.in_features).contiguous()
        out = flat.new_empty(len(flat), self.out_features)
        matrix = tuple(part.numpy() for part in (self.values, self.columns, self.cuts, self.bias))
        if len(flat) <= FEW:
            for sample, result in zip(flat.numpy(), out.numpy(), strict=True):
                task = functools.partial(kernel.multiply_single, *matrix, sample, result)
                _in_pieces(task, self.out_features, len(self.values))
        else:
            blocks = math.ceil(len(flat) / kernel.LANES)
            # torch aligns memory with cache lines, NumPy does not; this saves a quarter of the time.
            packed = flat.new_empty(blocks, self.in_features, kernel.LANES).numpy()
            _in_pieces(functools.partial(kernel.pack, flat.numpy(), packed), self.in_features, packed.size)
            task = functools.partial(kernel.multiply_packed, *matrix, packed, out.numpy())
            _in_pieces(task, self.out_features, len(self.values) * blocks)
        return out.view(*x.shape[:-1], self.out_features)

    def _check(self, x: Tensor) -> None:
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"the input must have {self.in_features} features, got shape {tuple(x.shape)}")
        if not (x.is_cpu and self.values.is_cpu) or {x.dtype, self.values.dtype} != {torch.float32}:
            raise ValueError(
                f"SparseLinear is for float32 on the CPU, got {x.dtype} on {x.device} for weights in "
                f"{self.values.dtype} on {self.values.device}: use the dense model there"
            )
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                "SparseLinear has no gradients: call the model under torch.no_grad(), or train a dense model"
            )


def sparsify(model: nn.Module, *, min_zeros: float | None = None) -> nn.Module:
    """Copy a model for inference, with `SparseLinear` in place of the linear layers that are sparse enough.

    The copy is in eval mode and without gradients; the model itself does not change.

    Parameters
    ----------
    model
        Any module.
    min_zeros
        Share of zeros from which a layer is replaced, whatever its size. The default was measured and depends on the
        size of the layer, see `MIN_ZEROS`.
    """
    if min_zeros is not None and not 0.0 <= min_zeros <= 1.0:
        raise ValueError(f"min_zeros must be a share in [0, 1], got {min_zeros!r}")
    result = copy.deepcopy(model).requires_grad_(False).eval()
    chosen = [layer for layer in result.modules() if _gains(layer, min_zeros)]
    try:
        replaced: dict[nn.Module, nn.Module] = {layer: SparseLinear(layer).eval() for layer in chosen}
    except ImportError as error:
        logger.warning("numba cannot be imported (%s): all layers stay dense", error)
        return result
    for parent in list(result.modules()):
        for name, child in parent.named_children():
            if child in replaced:
                setattr(parent, name, replaced[child])
    return replaced.get(result, result)


def require_dense(model: nn.Module) -> None:
    """Raise an error for a model made by `sparsify`, because its layers cannot be stored."""
    for name, layer in model.named_modules():
        if isinstance(layer, SparseLinear):
            raise ValueError(f"{name or 'the model'!r} is a SparseLinear: pass the dense model from before sparsify")


def _gains(layer: nn.Module, min_zeros: float | None) -> TypeGuard[nn.Linear]:
    """Whether `SparseLinear` can replace a layer and would be faster."""
    if type(layer) is not nn.Linear or layer._forward_hooks or layer._forward_pre_hooks:
        return False
    size = layer.weight.numel()
    enough = [share for weights, share in MIN_ZEROS if size >= weights] if min_zeros is None else [min_zeros]
    if not enough or not layer.weight.is_cpu or layer.weight.dtype != torch.float32:
        return False
    return int(layer.weight.count_nonzero()) <= (1.0 - enough[0]) * size


def _in_pieces(task: Any, length: int, work: int) -> None:
    """Call task(first, last) for all of range(length), on several threads if there is enough to do."""
    count = torch.get_num_threads() if work >= SMALL else 1
    if count == 1:
        task(0, length)
        return
    piece = math.ceil(length / (2 * count))  # only two for each thread, because large pieces use the cache better
    threads.run(deque(functools.partial(task, *ends) for ends in pieces(length, piece)), count)


@functools.cache
def _kernel() -> Any:
    from sparse_langevin.deploy import sparse_kernel  # numba takes half a second to import, and may be missing

    return sparse_kernel
