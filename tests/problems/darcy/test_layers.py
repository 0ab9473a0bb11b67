"""The layers with gradients of their own, against torch's."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jvp, vmap

from sparse_langevin.problems.darcy.layers import HalvingPool, InputConv2d


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


def over_one_at_a_time(f, parameters, x):
    return grad(lambda z: vmap(lambda one: f(parameters, one[None]))(z).sum())(x)


def of_a_gradient(f, parameters, x):
    return grad(lambda z: sum(g.square().sum() for g in grad(f)(parameters, z).values()))(x)


def forward_mode(f, parameters, x):
    moved = {name: torch.ones_like(value) for name, value in parameters.items()}
    return jvp(f, (parameters, x), (moved, x.cos()))[1]


def curvature(f, parameters, x):
    return hessian(f, argnums=1)(parameters, x)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's own, in forward mode
@pytest.mark.parametrize("transform", [over_one_at_a_time, of_a_gradient, forward_mode, curvature])
def test_function_transforms(transform):
    """An input that seems to need no gradient may get one from an outer transform."""
    x = torch.linspace(-1, 1, 2 * 6 * 4, dtype=torch.float64).view(2, 1, 6, 4)
    torch.manual_seed(0)
    mine = nn.Sequential(InputConv2d(3), nn.Tanh(), HalvingPool()).double()
    theirs = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2)).double()
    theirs.load_state_dict(mine.state_dict())

    def results(model):
        parameters = {name: value.detach() for name, value in model.named_parameters()}
        return transform(lambda p, z: functional_call(model, p, (z,)).sin().sum(), parameters, x)

    assert results(theirs).abs().max() > 1e-3
    torch.testing.assert_close(results(mine), results(theirs), rtol=1e-12, atol=1e-12)
