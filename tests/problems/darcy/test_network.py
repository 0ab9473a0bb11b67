"""The paper's network: its size, any grid, and physical units at both ends."""

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin.problems.darcy import (
    DarcyEncoderDecoder,
    DarcyProblem,
    EncoderDecoder,
    Grid,
    Normalisation,
    Recipe,
    generate,
    mass_residual,
)
from sparse_langevin.surrogates import Surrogate


def test_size_at_fifty_by_fifty():
    parameters = dict(EncoderDecoder(Grid(50, 50)).named_parameters())
    assert sum(p.numel() for p in parameters.values()) == 8_269_179
    assert sum(parameters[name].numel() for name in EncoderDecoder.SPARSE) == 6_102_320


@pytest.mark.parametrize("network", [EncoderDecoder, DarcyEncoderDecoder])
@pytest.mark.parametrize("grid", [Grid(25, 25), Grid(12, 7), Grid(1, 1)])
def test_any_grid(grid, network):
    made = network(grid, channels=(4, 4, 4, 4), hidden=20)
    assert made(torch.zeros(3, 1, *grid.shape)).shape == (3, grid.edges)


def test_the_network_can_be_darcys_law():
    """With the right two additions it answers permeability times gradient, normalised, whatever the gradient."""
    grid, rng = Grid(4, 3), np.random.default_rng(0)
    kappa = rng.uniform(1, 3, (20, *grid.shape))
    total, count = np.zeros((20, grid.edges)), np.zeros(grid.edges)
    for cell, edges in enumerate(grid.cell_edges()):
        total[:, edges] += kappa.reshape(20, -1)[:, [cell]]
        count[edges] += 1
    beside, usual = total / count, rng.standard_normal(grid.edges)
    network = DarcyEncoderDecoder(grid, channels=(2, 2, 2, 2), hidden=5).double()
    network.conserve = nn.Identity()
    maps = Normalisation(grid.edges)
    scales = {"kappa_mean": kappa.mean(), "kappa_std": kappa.std(), "velocity_mean": kappa.mean() * usual}
    scales |= {"velocity_std": 0.7, "kappa_log": 0.0}
    maps.load_state_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in scales.items()})
    with torch.no_grad():
        inputs = maps.encode(torch.from_numpy(kappa))
        gradient = usual + EncoderDecoder.forward(network, inputs).numpy() * 0.7 / kappa.mean()
        network.scale.fill_(kappa.std() / kappa.mean())
        network.direct.copy_(torch.from_numpy(kappa.std() * usual / 0.7))
        velocity = maps.decode(network(inputs)).numpy()
    np.testing.assert_allclose(velocity, beside * gradient, rtol=1e-10)


def test_its_answers_conserve_mass(tmp_path):
    """With any weights: the divergence and the flow through closed sides are those of the training data."""
    data = generate(Recipe("kle", 12, Grid(8, 6), {"terms": 4}, source=2.5), tmp_path / "data", workers=0)
    kappa, velocity = (torch.from_numpy(data.array(name)) for name in ("kappa", "velocity"))
    maps = Normalisation.of(kappa, velocity)
    network = DarcyEncoderDecoder(data.grid, channels=(2, 2, 2, 2), hidden=5)
    with torch.no_grad():
        network.direct.copy_(torch.randn(data.grid.edges))
    predicted = Surrogate(network, data.problem, maps).predict(kappa[:3].numpy())
    assert float(mass_residual(data.grid, predicted, 2.5).max()) < 1e-3
    _, y = data.grid.split(predicted)
    assert float(y[:, [0, -1]].abs().max()) < 1e-6
    network.check_targets(maps.encode_outputs(velocity, kappa).float())
    with pytest.raises(ValueError, match=r"differ in their sources .* of their variance is out of reach"):
        network.check_targets(torch.randn(12, data.grid.edges))


def test_fields_move_to_the_network():
    grid = Grid(6, 4)
    surrogate = Surrogate(DarcyEncoderDecoder(grid), DarcyProblem(grid), Normalisation(grid.edges)).to("meta")
    assert surrogate.encode(np.ones((3, 4, 6))).device.type == "meta"


def test_surrogate_takes_and_gives_physical_units():
    grid = Grid(4, 3)
    generator = torch.Generator().manual_seed(0)
    kappa, velocity = (
        torch.rand(20, 3, 4, generator=generator) + 5,
        7 * torch.randn(20, grid.edges, generator=generator),
    )
    normalisation = Normalisation.of(kappa, velocity)
    surrogate = Surrogate(EncoderDecoder(grid, channels=(2, 2, 2, 2), hidden=5), DarcyProblem(grid), normalisation)
    by_hand = 7 * surrogate((kappa - kappa.mean()).unsqueeze(1) / kappa.std(correction=0))
    by_hand = by_hand * (velocity - velocity.mean(0)).square().mean().sqrt() / 7 + velocity.mean(0)
    assert torch.allclose(surrogate.predict(kappa.numpy()).float(), by_hand, rtol=1e-4, atol=1e-4)
    other = Normalisation.of(kappa * 2, velocity)
    again = Surrogate(EncoderDecoder(grid, channels=(2, 2, 2, 2), hidden=5), DarcyProblem(grid), other)
    again.load_state_dict(surrogate.state_dict())  # the normalisation travels with the weights
    assert torch.equal(again.predict(kappa.numpy()), surrogate.predict(kappa.numpy()))
    kappa[3, 1, 2] = -1.0
    with pytest.raises(ValueError, match=r"sample 3: kappa must be positive"):
        surrogate.predict(kappa.numpy())
