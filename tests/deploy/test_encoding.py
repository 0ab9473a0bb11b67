"""Every encoding gives back what it was given, bit for bit."""

import math

import pytest
import torch

from sparse_langevin.deploy.encoding import Layer, decode, encode

SHAPES = [(1, 1), (3, 5), (7, 64), (40, 33), (8, 3, 3, 3), (2, 3, 5), (0, 4), (4, 0), (2, 65_535), (2, 70_000)]


def weight(shape, zeros, seed=0):
    generator = torch.Generator().manual_seed(seed)
    dense = torch.randn(shape, generator=generator)
    return dense.masked_fill(torch.rand(shape, generator=generator) < zeros, 0.0)


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def round_trip(tensor, values):
    layer, arrays = encode("w", tensor, weight=True, values=values)
    return layer, decode("w", layer, arrays)


@pytest.mark.parametrize("values", ["packed", "float32"])
@pytest.mark.parametrize("zeros", [0.0, 0.02, 0.7, 0.97, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_round_trip_is_exact(shape, zeros, values):
    tensor = weight(shape, zeros)
    layer, back = round_trip(tensor, values)
    assert same_bits(back, tensor)
    assert layer.nonzeros == int(tensor.count_nonzero()) and layer.shape == shape


@pytest.mark.parametrize(
    ("shape", "zeros", "encoding"),
    [
        ((100, 100), 0.0, "dense"),
        ((100, 100), 0.01, "dense"),
        ((100, 100), 0.7, "bitmap"),
        ((100, 1000), 0.99, "indices"),
        ((2, 65_535), 0.99, "indices"),
        ((2, 65_536), 0.99, "bitmap"),
        ((32, 64, 3, 3), 0.7, "bitmap"),
    ],
)
def test_the_smallest_encoding_is_taken(shape, zeros, encoding):
    tensor = weight(shape, zeros)
    layer, arrays = encode("w", tensor, weight=True, values="float32")
    assert layer.encoding == encoding
    size = sum(array.numel() * array.element_size() for array in arrays.values())
    nonzeros, total, rows = int(tensor.count_nonzero()), tensor.numel(), len(tensor)
    possible = [4 * total, 4 * nonzeros + -(-total // 8)]
    possible += [6 * nonzeros + 2 * rows] if total // rows < 65_536 else []
    assert size == min(possible)


@pytest.mark.parametrize("values", ["packed", "float32"])
def test_unusual_numbers_come_back(values):
    tensor = torch.tensor([[0.0, 2.0, float("nan"), float("inf")], [-float("inf"), 1e-45, -3.4e38, 1.0]])
    sparse = torch.cat([tensor, torch.zeros(30, 4)])
    assert same_bits(round_trip(sparse, values)[1], sparse)
    dense = weight((9, 9), 0.0)
    dense[0, 0] = -0.0
    assert same_bits(round_trip(dense, values)[1], dense)


def test_a_negative_zero_of_a_sparse_weight_is_a_zero():
    tensor = torch.randn(50, 50) * (torch.rand(50, 50) >= 0.7)
    layer, back = round_trip(tensor, "packed")
    assert layer.nonzeros == int(tensor.count_nonzero()) and torch.equal(back, tensor)
    assert not bool(back.signbit()[back == 0].any())


def test_a_full_last_column_and_empty_rows():
    tensor = torch.zeros(50, 600)
    tensor[3] = torch.arange(600) + 1.0
    tensor[:20:2, 599] = 7.0
    layer, back = round_trip(tensor, "float32")
    assert layer.encoding == "indices" and same_bits(back, tensor)


@pytest.mark.parametrize(("values", "bits"), [("short", 16), ("float16", 11), ("bfloat16", 8)])
def test_rounded_values_are_the_nearest(values, bits):
    tensor = weight((60, 80), 0.7)
    layer, back = round_trip(tensor, values)
    assert layer.dtype == "float32" and back.dtype == torch.float32
    assert torch.equal(back == 0, tensor == 0)
    assert bool(((back - tensor).abs() <= 2.0**-bits * tensor.abs()).all())
    assert not torch.equal(back, tensor)


def test_numbers_too_large_for_float16_are_refused():
    with pytest.raises(ValueError, match=r"'w' has numbers up to 70000, too large for float16"):
        encode("w", torch.full((2, 2), 7e4), weight=True, values="float16")


@pytest.mark.parametrize(("values", "most"), [("packed", 3.5), ("short", 2.5)])
def test_packing_takes_few_bytes(values, most):
    _, arrays = encode("w", weight((500, 500), 0.0), weight=True, values=values)
    assert sum(array.numel() * array.element_size() for array in arrays.values()) < most * 250_000


def test_short_numbers_are_rounded_to_even():
    unit = 2.0**-15
    tensor = torch.tensor([[1 + unit / 2, 1 + 1.5 * unit, -1 - 0.51 * unit, 2 - unit / 4, 1e-45, math.inf]])
    wanted = torch.tensor([[1.0, 1 + 2 * unit, -1 - unit, 2.0, 0.0, math.inf]])
    assert torch.equal(round_trip(tensor, "short")[1], wanted)
    with pytest.raises(ValueError, match="too large for short"):
        encode("w", torch.full((2, 2), torch.finfo(torch.float32).max), weight=True, values="short")


@pytest.mark.parametrize(
    "tensor",
    [torch.arange(6), torch.rand(2, 3, dtype=torch.float64), torch.tensor(3.0), torch.rand(4, 4).bfloat16()],
)
def test_what_is_no_weight_is_stored_as_it_is(tensor):
    layer, arrays = encode("b", tensor, weight=True, values="float16")
    assert layer.values == "plain" and torch.equal(decode("b", layer, arrays), tensor)


@pytest.mark.parametrize("zeros", [0.0, 0.7, 0.99])
@pytest.mark.parametrize("values", ["packed", "float32"])
def test_arrays_that_do_not_fit_are_refused(zeros, values):
    layer, arrays = encode("w", weight((30, 200), zeros), weight=True, values=values)
    fields = vars(layer)
    for wrong in (
        {"nonzeros": layer.nonzeros + 1} if layer.encoding != "dense" else {"shape": (30, 201)},
        {"shape": (31, 200)} if layer.encoding != "bitmap" else {"nonzeros": layer.nonzeros - 1},
    ):
        with pytest.raises(ValueError, match="'w'"):
            decode("w", Layer(**fields | wrong), arrays)
    for name in arrays:
        with pytest.raises(KeyError):
            decode("w", layer, {other: array for other, array in arrays.items() if other != name})
