"""The codec: standardised by NumPy's moments, exact round trips, derivatives, constants, logarithms."""

import itertools

import numpy as np
import pytest
import torch

from sparse_langevin.problems.arrays import ArraysProblem, Variable
from sparse_langevin.problems.arrays.layouts import LAYOUTS
from tests.problems.arrays.small import examples, problem


def fitted(made, x, y):
    codec = made.codec()
    codec.fit(torch.from_numpy(x), torch.from_numpy(y))
    return codec


@pytest.mark.parametrize(("first", "second", "low"), [*itertools.product(LAYOUTS, LAYOUTS, (False, True))])
def test_round_trip_and_derivatives(first, second, low):
    made = problem(first, second, low=low)
    x, y = (3e4 * part + 7e4 for part in examples(made))
    codec = fitted(made, x, y)
    inputs, outputs = torch.from_numpy(x), torch.from_numpy(y)
    encoded = codec.encode_outputs(outputs, inputs)
    assert encoded.shape == (6, made.output.size) and encoded.dtype == torch.float64
    back = codec.decode(encoded) + (codec.offset(inputs) if low else 0)
    assert torch.allclose(back, outputs, rtol=1e-12, atol=0)
    assert codec.encode(inputs).shape == (6, *made.seen_shape)
    if (first, second) in (("v", "cx"), ("yx", "cyx")):
        wanted = inputs[:2].clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda values: codec.encode(values), wanted, eps=1.0)
        answer = encoded[:2].clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda values: codec.decode(values), answer, rtol=1e-6)
    twin = made.codec()
    twin.load_state_dict(codec.state_dict())
    assert torch.equal(twin.encode(inputs), codec.encode(inputs))


def test_inputs_have_one_mean_and_deviation_per_component():
    made = problem("cyx", "v")
    x, y = examples(made, 50)
    x[:, 1] = 40 + 3 * x[:, 1]
    encoded = fitted(made, x, y).encode(torch.from_numpy(x)).numpy()
    assert np.allclose(encoded, (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True))


def test_outputs_have_one_mean_per_number_and_one_deviation_per_component():
    made = problem("v", "cyx")
    x, y = examples(made, 50)
    y[:, 1] = 40 + 3 * y[:, 1]
    codec = fitted(made, x, y)
    std = np.sqrt(np.square(y - y.mean(0)).mean((0, 2, 3)))
    wanted = (y - y.mean(0)) / std[:, None, None]
    found = codec.encode_outputs(torch.from_numpy(y), torch.from_numpy(x)).numpy()
    assert np.allclose(found, wanted.reshape(50, -1))
    assert np.allclose(codec.noise_scale.numpy(), np.broadcast_to(std[:, None, None], made.output_shape))
    vector = problem("x", "v")
    x, y = examples(vector, 50)
    assert np.allclose(fitted(vector, x, y * np.arange(1, 6)).noise_scale.numpy(), (y * np.arange(1, 6)).std(0))


def test_constants():
    made = problem("v", "v")
    x, y = examples(made, 10)
    x[:, 2], y[:, 1], y[:, 3] = 0.1, 0.3, 0.0
    codec = fitted(made, x, y)
    assert codec.encode(torch.from_numpy(x))[:, 2].abs().max() < 1e-15
    encoded = codec.encode_outputs(torch.from_numpy(y), torch.from_numpy(x))
    assert encoded[:, [1, 3]].abs().max() < 1e-9
    answer = codec.decode(encoded + 1)  # whatever a network says of them
    assert torch.allclose(answer[:, [1, 3]], torch.tensor([0.3, 0.0], dtype=torch.float64), rtol=1e-5, atol=1e-5)
    assert (codec.noise_scale > 0).all()
    made = problem("v", "v", low=True)
    x, y = examples(made, 10)
    y[:] = x[:, 5:]  # the cheaper simulator is exact
    assert torch.isfinite(fitted(made, x, y).encode_outputs(torch.from_numpy(y), torch.from_numpy(x))).all()


def test_logarithms_have_derivatives_everywhere():
    made = ArraysProblem(Variable("v", (2,)), Variable("v", (1,)), logs=(True, False))
    x = np.abs(np.random.default_rng(0).standard_normal((20, 2))) + 0.1
    x[:, 1] -= 5  # negative where no logarithm is taken
    codec = fitted(made, x, x[:, :1])
    wanted = np.stack([np.log(x[:, 0]), x[:, 1]], axis=1)
    assert np.allclose(codec.encode(torch.from_numpy(x)).numpy(), (wanted - wanted.mean(0)) / wanted.std(0))
    assert torch.autograd.gradcheck(codec.encode, torch.from_numpy(x).requires_grad_())
    assert codec.remarks() == {"logarithms": "of input 0"}


def test_the_low_fidelity_is_offset_and_seen():
    made = problem("yx", "yx", low=True)
    x, y = examples(made, 8)
    size = made.input.size
    codec = fitted(made, x, y)
    assert np.array_equal(codec.offset(torch.from_numpy(x)).numpy(), x[:, size:].reshape(y.shape))
    difference = (y.reshape(8, -1) - x[:, size:]).reshape(y.shape)
    scale = np.sqrt(np.square(difference - difference.mean(0)).mean())
    assert np.allclose(codec.noise_scale.numpy(), scale)
    seen = codec.encode(torch.from_numpy(x)).numpy()
    low = x[:, size:].reshape(y.shape)
    assert np.allclose(seen[:, 1], (low - low.mean()) / low.std())
    assert "difference" in codec.remarks()["low fidelity"]


def test_vectors_become_constant_channels_beside_a_low_field():
    made = problem("v", "yx", low=True)
    x, y = examples(made, 8)
    seen = fitted(made, x, y).encode(torch.from_numpy(x)).numpy()
    assert np.ptp(seen[:, :5], axis=(2, 3)).max() == 0
    assert np.allclose(seen[:, :5, 0, 0], (x[:, :5] - x[:, :5].mean(0)) / x[:, :5].std(0))


def test_fields_on_another_grid_are_interpolated():
    made = ArraysProblem(Variable("x", (20,)), Variable("x", (10,)), low=True)
    x = np.tile(np.arange(20.0), (3, 1)) * np.array([[1.0], [2.0], [3.0]])
    low = np.random.default_rng(0).standard_normal((3, 10))
    seen = fitted(made, np.concatenate([x, low], 1), low + 1).encode(torch.from_numpy(np.concatenate([x, low], 1)))
    halves = x.reshape(3, 10, 2).mean(2)  # of a linear function, at the middle of two cells
    assert np.allclose(seen[:, 0].numpy(), (halves - x.mean()) / x.std())
