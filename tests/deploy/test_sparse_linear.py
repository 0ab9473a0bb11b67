"""Sparse layers compute what dense ones do."""

import copy
import sys

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin.deploy import SparseLinear, sparse_linear, sparsify
from sparse_langevin.problems.darcy import EncoderDecoder, Grid


def linear(inputs, outputs, zeros=0.7, *, bias=True, seed=0):
    torch.manual_seed(seed)
    layer = nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)
    layer.weight.mul_(torch.rand_like(layer.weight) >= zeros)
    return layer


def exact(layer, x):
    """In float64, and a bound for the error of a sum in float32 in any order."""
    x, weight = x.double().numpy(), layer.weight.double().numpy()
    bias = 0.0 if layer.bias is None else layer.bias.double().numpy()
    bound = (weight.shape[1] + 2) * 2.0**-24 * (np.abs(x) @ np.abs(weight.T) + np.abs(bias))
    return x @ weight.T + bias, bound


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(sparse_linear, "SMALL", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("batch", [0, 1, 2, 3, 15, 16, 17, 64, 100])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (8, 64), (100, 65), (300, 131), (2500, 40), (70_000, 5)], ids=str)
def test_equal_to_float64_within_rounding(shape, batch):
    layer = linear(*shape)
    x = torch.randn(batch, shape[0])
    expected, bound = exact(layer, x)
    result = SparseLinear(layer)(x)
    assert result.shape == (batch, shape[1]) and result.is_contiguous()
    assert (np.abs(result.numpy() - expected) <= bound).all()


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.99, 1.0])
def test_any_share_of_zeros_and_empty_rows(zeros):
    layer = linear(90, 70, zeros)
    layer.weight[10:20] = 0
    for batch in (1, 20):
        x = torch.randn(batch, 90)
        expected, bound = exact(layer, x)
        assert (np.abs(SparseLinear(layer)(x).numpy() - expected) <= bound).all()


def test_random_shapes():
    generator = np.random.default_rng(0)
    for seed in range(30):
        inputs, outputs, batch = generator.integers(1, 200, 3).tolist()
        layer = linear(inputs, outputs, generator.uniform(), bias=bool(generator.integers(2)), seed=seed)
        x = torch.randn(batch, inputs)
        expected, bound = exact(layer, x)
        assert (np.abs(SparseLinear(layer)(x).numpy() - expected) <= bound).all()


@pytest.mark.parametrize("batch", [1, 2, 5, 40])
def test_the_number_of_threads_does_not_change_a_bit(two_threads, batch):
    layer = SparseLinear(linear(2100, 203))
    x = torch.randn(batch, 2100)
    both = layer(x)
    torch.set_num_threads(1)
    assert torch.equal(layer(x), both)


def test_any_leading_dimensions_and_strides():
    layer = linear(50, 30)
    sparse = SparseLinear(layer)
    x = torch.randn(4, 50, 6).transpose(1, 2)
    assert torch.allclose(sparse(x), layer(x), atol=1e-5) and sparse(x).shape == (4, 6, 30)
    assert torch.allclose(sparse(x[0, 0]), layer(x[0, 0]), atol=1e-5) and sparse(x[0, 0]).shape == (30,)
    assert sparse(torch.empty(0, 3, 50)).shape == (0, 3, 30)


def test_columns_have_16_bits_where_they_fit():
    assert SparseLinear(linear(65_536, 2)).columns.dtype == torch.uint16
    assert SparseLinear(linear(65_537, 2)).columns.dtype == torch.uint32


def test_dense_weights_can_be_had_back():
    layer = linear(1500, 20)
    assert torch.equal(SparseLinear(layer).weight, layer.weight)


def test_copies_and_states_work():
    first, second = linear(80, 60), linear(80, 60)
    second.bias.add_(1)
    one, x = copy.deepcopy(SparseLinear(first)), torch.randn(3, 80)
    one.load_state_dict(SparseLinear(second).state_dict())
    assert torch.equal(one(x), SparseLinear(second)(x))


def test_the_default_precision_does_not_matter():
    layer, x = linear(80, 60, bias=False), torch.randn(4, 80)
    torch.set_default_dtype(torch.float64)
    try:
        sparse = SparseLinear(layer)
        results = [sparse(x), sparse(x[:1]), sparse.weight]
    finally:
        torch.set_default_dtype(torch.float32)
    for result, expected in zip(results, (layer(x), layer(x[:1]), layer.weight), strict=True):
        assert result.dtype == torch.float32 and torch.allclose(result, expected, atol=1e-5)


def test_inference_mode():
    layer = linear(80, 60)
    with torch.inference_mode():
        x = torch.randn(4, 80)
        assert torch.allclose(SparseLinear(layer)(x), layer(x), atol=1e-5)


def test_wrong_input_is_refused():
    layer = SparseLinear(linear(8, 4))
    with pytest.raises(ValueError, match=r"must have 8 features, got shape \(2, 7\)"):
        layer(torch.zeros(2, 7))
    with pytest.raises(ValueError, match=r"float32 on the CPU, got torch.float64 .* use the dense model"):
        layer(torch.zeros(2, 8, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"float32 on the CPU, got torch.float64"):
        SparseLinear(linear(8, 4).double())
    with pytest.raises(RuntimeError, match="no gradients"):
        layer(torch.zeros(2, 8, requires_grad=True))
    with torch.no_grad():
        layer(torch.zeros(2, 8, requires_grad=True))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = linear(100, 100, 0.9)
        self.b = nn.Sequential(self.a, nn.ReLU(), linear(100, 100, 0.1))
        self.attention = nn.MultiheadAttention(100, 4, batch_first=True)
        self.c = linear(100, 100, 0.9).double()
        self.d = linear(100, 100, 0.9)
        self.d.register_forward_hook(lambda *_: None)

    def forward(self, x):
        x = self.b(self.a(x))
        return self.d(self.attention(x, x, x)[0])


def test_sparsify_replaces_only_what_it_can():
    model = Shared()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sparse = sparsify(model, min_zeros=0.5)
    assert isinstance(sparse.a, SparseLinear) and sparse.b[0] is sparse.a
    assert [type(m) for m in (sparse.b[2], sparse.c, sparse.d)] == [nn.Linear] * 3
    assert not any(isinstance(layer, SparseLinear) for layer in sparse.attention.modules())
    assert not sparse.training and model.training and type(model.a) is nn.Linear
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    x = torch.randn(2, 5, 100)
    with torch.no_grad():
        assert torch.allclose(sparse(x), model.eval()(x), atol=1e-5)


def test_sparsify_by_default_takes_what_gains():
    def types(layer):
        return type(sparsify(layer))

    assert types(linear(1000, 3000, 0.7)) is SparseLinear
    assert types(linear(1000, 3000, 0.6)) is nn.Linear
    assert types(linear(1000, 1000, 0.85)) is SparseLinear
    assert types(linear(1000, 1000, 0.7)) is nn.Linear
    assert types(linear(100, 100, 0.99)) is nn.Linear
    with pytest.raises(ValueError, match=r"min_zeros must be a share in \[0, 1\], got 70"):
        sparsify(linear(3, 3), min_zeros=70)


def test_the_whole_network_is_equal(two_threads):
    torch.manual_seed(0)
    model = EncoderDecoder(Grid(12, 12)).requires_grad_(False)
    for name in model.SPARSE:
        model.get_parameter(name).mul_(torch.rand_like(model.get_parameter(name)) >= 0.7)
    sparse = sparsify(model, min_zeros=0.6)
    assert [type(sparse.encode[6]), type(sparse.decode[8])] == [SparseLinear] * 2
    assert type(sparse.decode[6]) is nn.Linear and type(sparse.encode[2]) is nn.Conv2d
    for batch in (1, 5, 20):
        x = torch.randn(batch, 1, 12, 12)
        assert torch.allclose(sparse(x), model(x), rtol=1e-4, atol=1e-6)


def test_without_numba_all_stays_dense(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "sparse_langevin.deploy.sparse_kernel", None)
    monkeypatch.delattr("sparse_langevin.deploy.sparse_kernel", raising=False)
    sparse_linear._kernel.cache_clear()
    layer = linear(50, 50)
    assert type(sparsify(layer, min_zeros=0.5)) is nn.Linear
    assert "all layers stay dense" in caplog.text
    sparse_linear._kernel.cache_clear()
