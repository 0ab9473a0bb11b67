"""The layers with gradients of their own, against torch's."""

import pytest
import torch
from torch import nn

from sparse_langevin.darcy.layers import HalvingPool, InputConv2d


def gradients(layer, x, *wanted):
    torch.manual_seed(1)
    out = layer(x)
    weights = torch.randn_like(out)
    return out, *torch.autograd.grad((out * weights).sum(), wanted)


@pytest.mark.parametrize("size", [(6, 4), (7, 4), (5, 3)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pool_is_torchs(size, layout):
    x = torch.randn(3, 2, *size, dtype=torch.float64).to(memory_format=layout).requires_grad_()
    for mine, theirs in zip(
        gradients(HalvingPool(), x, x), gradients(nn.AvgPool2d(2, ceil_mode=True), x, x), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_convolution_is_torchs(needs_gradient):
    mine = InputConv2d(5).double()
    theirs = nn.Conv2d(1, 5, 3, padding=1).double()
    theirs.load_state_dict(mine.state_dict())
    x = torch.randn(3, 1, 7, 6, dtype=torch.float64, requires_grad=needs_gradient)
    also = [x] if needs_gradient else []
    for a, b in zip(
        gradients(mine, x, mine.weight, mine.bias, *also),
        gradients(theirs, x, theirs.weight, theirs.bias, *also),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_second_derivatives_too():
    """Hessian-vector products, which the Gamma correction needs."""

    def product(convolution, pool):
        x = torch.linspace(-1, 1, 2 * 6 * 4, dtype=torch.float64).view(2, 1, 6, 4)
        loss = pool(convolution(x).tanh()).square().sum()
        parameters = [convolution.weight, convolution.bias]
        first = torch.autograd.grad(loss, parameters, create_graph=True)
        return torch.autograd.grad(sum(g.sum() for g in first), parameters)

    mine, theirs = InputConv2d(3).double(), nn.Conv2d(1, 3, 3, padding=1).double()
    theirs.load_state_dict(mine.state_dict())
    for a, b in zip(product(mine, HalvingPool()), product(theirs, nn.AvgPool2d(2)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
