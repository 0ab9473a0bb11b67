"""Error measures: closed forms, quadrature, and NumPy against torch."""

import numpy as np
import pytest
import torch

from sparse_langevin.problems.darcy import Grid, e1, e2, energy, mass_residual, pressure_error

GRID = Grid(5, 7, 1.3, 0.6)
rng = np.random.default_rng(0)
U, V = rng.normal(size=(2, 3, 4, GRID.edges))
KAPPA = np.exp(rng.normal(size=(3, 4, *GRID.shape)))


def test_energy_of_known_fields():
    grid = Grid(4, 4)
    constant = np.concatenate([np.full(grid.x_edges, 2.0), np.full(grid.edges - grid.x_edges, 3.0)])
    assert energy(grid, constant) == pytest.approx(13.0)
    linear = np.concatenate([np.tile(np.linspace(0, 1, 5), 4), np.zeros(20)])  # u = (x, 0): int x^2 = 1/3
    assert energy(grid, linear) == pytest.approx(1 / 3)


def test_energy_is_the_quadrature_of_the_rt0_field():
    nodes, weights = np.polynomial.legendre.leggauss(3)
    x, y = GRID.split(U)
    total = np.zeros((3, 4))
    for s, ws in zip(nodes, weights, strict=True):
        for t, wt in zip(nodes, weights, strict=True):
            ux = x[..., :-1] * (1 - s) / 2 + x[..., 1:] * (1 + s) / 2
            uy = y[..., :-1, :] * (1 - t) / 2 + y[..., 1:, :] * (1 + t) / 2
            total += (ws * wt / 4 * (ux**2 + uy**2) / KAPPA).sum((-2, -1)) * GRID.hx * GRID.hy
    np.testing.assert_allclose(energy(GRID, U, KAPPA), total, rtol=1e-13)


def test_relative_errors():
    np.testing.assert_allclose(e1(GRID, 1.01 * V, V), 0.01, rtol=1e-12)
    np.testing.assert_allclose(e2(GRID, 0.9 * V, V, KAPPA), 0.1, rtol=1e-12)
    np.testing.assert_allclose(pressure_error(1.5 * KAPPA, KAPPA), 0.5, rtol=1e-12)
    assert e1(GRID, U, V).shape == (3, 4)


def test_numpy_and_torch_agree():
    u, v, kappa = (torch.from_numpy(a) for a in (U, V, KAPPA))
    for ours, theirs in (
        (e1(GRID, U, V), e1(GRID, u, v)),
        (e2(GRID, U, V, KAPPA), e2(GRID, u, v, kappa)),
        (pressure_error(KAPPA, 2 + KAPPA), pressure_error(kappa, 2 + kappa)),
        (mass_residual(GRID, U, 0.5), mass_residual(GRID, u, 0.5)),
    ):
        assert isinstance(theirs, torch.Tensor)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="has 82 edges, got shape"):
        energy(GRID, U[..., :-1])
    with pytest.raises(ValueError, match="kappa must have shape"):
        energy(GRID, U, KAPPA[..., :-1])
