"""Networks: shapes over all layouts and odd sizes, gradients everywhere, sizes, refusals."""

import itertools

import numpy as np
import pytest
import torch

from sparse_langevin.deploy import export_onnx
from sparse_langevin.problems.arrays import ArraysProblem, Variable
from sparse_langevin.problems.arrays.layouts import LAYOUTS
from sparse_langevin.problems.arrays.networks import NETWORKS, Decoder, Encoder, UNet
from tests.problems.arrays.small import examples, problem


@pytest.mark.parametrize(("first", "second", "low"), [*itertools.product(LAYOUTS, LAYOUTS, (False, True))])
def test_shapes_and_gradients(first, second, low):
    made = problem(first, second, low=low)
    torch.manual_seed(0)
    network = made.networks[made.default_network](made)
    seen = torch.randn(2, *made.seen_shape)
    answer = network(seen)
    assert answer.shape == (2, made.output.size)
    (answer * torch.randn_like(answer)).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0, name
    assert torch.allclose(network(seen[1:])[0], answer[1], atol=1e-5)  # examples do not know of each other


@pytest.mark.parametrize("first", [3, 5, 8, 17])
@pytest.mark.parametrize("second", [1, 7, 12, 30])
def test_any_size_of_grid(first, second):
    field, vector = Variable("cyx", (2, first, second)), Variable("v", (3,))
    other = Variable("yx", (second, first))
    for network, x, y in (
        (UNet, field, field),
        (UNet, field, other),
        (Encoder, field, vector),
        (Decoder, vector, field),
    ):
        made = ArraysProblem(x, y)
        assert network(made, width=2)(torch.randn(3, *made.seen_shape)).shape == (3, y.size)


def test_every_output_of_a_unet_depends_on_every_input():
    made = ArraysProblem(Variable("yx", (21, 18)), Variable("yx", (21, 18)))
    torch.manual_seed(0)
    network = UNet(made, width=4).double()
    seen = torch.randn(1, 1, 21, 18, dtype=torch.float64, requires_grad=True)
    for place in (0, 200, 21 * 18 - 1):
        (slope,) = torch.autograd.grad(network(seen)[0, place], seen)
        assert (slope != 0).all()


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((4,), (3,), "mlp"),
        ((4,), (100,), "mlp"),
        ((64, 64), (64, 64), "unet"),
        ((3, 3), (3, 3), "mlp"),
        ((64, 64), (3,), "encoder"),
        ((4,), (64, 64), "decoder"),
        ((32, 32, 32), (64, 64), "encoder-decoder"),
        ((32, 32, 32), (32, 32, 32), "unet"),
    ],
)
def test_defaults_are_small(first, second, chosen):
    layouts = {1: "v", 2: "yx", 3: "zyx"}
    made = ArraysProblem(*(Variable(layouts[len(shape)], shape) for shape in (first, second)))
    assert made.default_network == chosen
    size = sum(p.numel() for p in NETWORKS[chosen](made).parameters())
    assert 30_000 < size < 1_000_000


@pytest.mark.parametrize(
    ("network", "shapes", "options", "message"),
    [
        ("unet", ("v", "yx"), {}, "needs fields with the same number of directions.*to use decoder"),
        ("encoder", ("v", "v"), {}, "needs fields as inputs, but"),
        ("decoder", ("yx", "yx"), {}, "needs vectors"),
        ("encoder-decoder", ("yx", "v"), {}, "needs fields"),
        ("mlp", ("v", "v"), {"width": 0}, "width must be an integer at least 1, got 0"),
        ("unet", ("yx", "yx"), {"depth": 1.5}, "depth must be an integer"),
        ("encoder", ("yx", "v"), {"hidden": "4"}, "hidden must be"),
    ],
)
def test_what_is_refused(network, shapes, options, message):
    with pytest.raises(ValueError, match=message):
        NETWORKS[network](problem(*shapes), **options)


def test_depth_is_the_number_of_halvings():
    made = problem("yx", "yx")
    assert [len(UNet(made, depth=depth).down) for depth in (0, 1, 9)] == [0, 1, 2]  # 9 x 14, 5 x 7, 3 x 4


class Physical(torch.nn.Module):
    """Physical inputs to physical outputs, in single precision outside."""

    def __init__(self, network, codec):
        super().__init__()
        self.network, self.codec = network, codec

    def forward(self, inputs):
        inputs = inputs.double()
        answer = self.codec.decode(self.network(self.codec.encode(inputs).float()))
        low = self.codec.offset(inputs)
        return (answer if low is None else answer + low).float()


@pytest.mark.parametrize(
    ("first", "second", "low"), [("cx", "x", False), ("yx", "cyx", True), ("v", "zyx", True), ("zyx", "yx", False)]
)
def test_export_to_onnx(first, second, low, tmp_path):
    made = problem(first, second, low=low, logs=(True,) * problem(first, second).input.components)
    x, y = (np.exp(part) for part in examples(made))
    codec = made.codec()
    codec.fit(torch.from_numpy(x), torch.from_numpy(y))
    torch.manual_seed(0)
    model = Physical(made.networks[made.default_network](made), codec)
    assert export_onnx(model, torch.from_numpy(x).float(), tmp_path / "network.onnx") < 1e-4
