"""Two layers of the network whose gradients are faster on a CPU than torch's own, and equal up to rounding.

torch's average pool and its gradient are slow there, and so is the gradient of a convolution whose single input channel
needs no gradient: as a product of matrices it takes a third of the time. Other devices use torch's own layers.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class HalvingPool(nn.Module):
    """Average over blocks of 2 by 2, with odd sides rounded up: ``nn.AvgPool2d(2, ceil_mode=True)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Pool images (batch, channels, height, width)."""
        if _ours(x) and x.shape[-1] % 2 == x.shape[-2] % 2 == 0:
            pooled: Tensor = _Halving.apply(x)  # type: ignore[no-untyped-call]
            return pooled
        return functional.avg_pool2d(x, 2, ceil_mode=True)


class InputConv2d(nn.Conv2d):
    """A convolution of 3 by 3 with padding, for images with one channel that seldom need a gradient themselves."""

    def __init__(self, channels: int) -> None:
        super().__init__(1, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve images (batch, 1, height, width)."""
        if _ours(x) and self.bias is not None:
            out: Tensor = _InputConvolution.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return out
        return super().forward(x)


def _ours(x: Tensor) -> bool:
    """Whether to use our own gradients: on a CPU, unless a graph of torch's own layers is wanted."""
    return x.is_cpu and not torch.compiler.is_compiling()


class _Halving(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        rows = x[..., ::2, :] + x[..., 1::2, :]
        return (rows[..., ::2] + rows[..., 1::2]).mul_(0.25)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing has to be kept for the gradient."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        *outer, height, width = grad.shape
        blocks = (grad * 0.25)[..., :, None, :, None].expand(*outer, height, 2, width, 2)
        return blocks.reshape(*outer, 2 * height, 2 * width)

    @staticmethod
    def jvp(ctx: Any, x: Tensor) -> Tensor:
        return functional.avg_pool2d(x, 2)


class _InputConvolution(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.conv2d(x, weight, bias, padding=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        patches = functional.unfold(x, 3, padding=1)  # (batch, 9, pixels)
        grads = grad.flatten(2)  # (batch, channels, pixels)
        of_weight = torch.bmm(grads, patches.transpose(1, 2)).sum(0)
        of_x = functional.conv_transpose2d(grad, weight, padding=1) if ctx.needs_input_grad[0] else None
        return of_x, of_weight.view(-1, 1, 3, 3), grads.sum((0, 2))

    @staticmethod
    def jvp(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        old_x, old_weight = ctx.saved_tensors
        return functional.conv2d(x, old_weight, bias, padding=1) + functional.conv2d(old_x, weight, padding=1)
