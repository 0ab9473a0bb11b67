"""Mixtures against scipy.stats, numpy and numerical integration."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from sparse_langevin.posterior import Mixture, mixture

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(7, 5)) * [0.01, 0.5, 1, 3, 30]
STDS = RNG.uniform(0.5, 2, 7)
WEIGHTS = RNG.uniform(0, 1, 7) * [1, 1, 0, 1, 1, 1, 0.01]
FULL = STDS[:, None] * RNG.uniform(0.5, 2, 5)
LEVELS = (1e-6, 0.025, 0.3, 0.5, 0.95, 1 - 1e-6)
POINTS = np.array([-3.0, -0.2, 0.0, 1.0, 20.0])


def scipy_cdf(x, i, stds):
    spread = stds[:, i] if stds.ndim == 2 else stds
    return float(WEIGHTS @ stats.norm.cdf(x, MEANS[:, i], spread) / WEIGHTS.sum())


@pytest.fixture(params=[STDS, FULL], ids=["one std a sample", "stds by output"])
def stds(request):
    return request.param


def test_cdf_density_and_moments(stds):
    mix = Mixture.of(MEANS, stds, WEIGHTS)
    share = WEIGHTS / WEIGHTS.sum()
    spreads = np.broadcast_to(stds if stds.ndim == 2 else stds[:, None], MEANS.shape)
    assert mix.cdf(POINTS) == pytest.approx([scipy_cdf(x, i, stds) for i, x in enumerate(POINTS)], rel=1e-12)
    density = share @ stats.norm.pdf(POINTS, MEANS, spreads)
    assert mix.log_density(POINTS) == pytest.approx(np.log(density), rel=1e-12)
    mean = share @ MEANS
    assert mix.mean() == pytest.approx(mean, rel=1e-12)
    assert mix.std() == pytest.approx(np.sqrt(share @ (spreads**2 + MEANS**2) - mean**2), rel=1e-8)


def test_quantiles_solve_for_the_level(stds):
    found = Mixture.of(MEANS, stds, WEIGHTS).quantile(LEVELS)
    for row, level in zip(found, LEVELS, strict=True):
        for i, value in enumerate(row):
            exact = optimize.brentq(lambda x, i=i, p=level: scipy_cdf(x, i, stds) - p, -200, 200, xtol=1e-13)
            assert value == pytest.approx(exact, abs=1e-8)


def test_quantiles_of_components_far_apart():
    """Newton's method alone would leave the flat stretch between them for infinity."""
    mix = Mixture.of([[-1e6], [0.0], [1e6]], 1e-3, [0.2, 0.5, 0.3])
    assert mix.quantile([0.1, 0.5, 0.9]).ravel() == pytest.approx(
        [-1e6, stats.norm.ppf(0.6, scale=1e-3), 1e6 + stats.norm.ppf(2 / 3, scale=1e-3)], abs=1e-6
    )
    assert -1e6 < mix.quantile(0.2).item() < 0


def test_one_component_is_a_normal_distribution():
    mean, std = np.array([0.0, 3.0]), np.array([1.0, 0.1])
    mix = Mixture.normal(mean, std)
    assert mix.quantile(LEVELS) == pytest.approx(stats.norm.ppf(np.array(LEVELS)[:, None], mean, std), rel=1e-9)
    y = np.array([0.7, 2.8])
    z = (y - mean) / std
    closed = std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert mix.crps(y) == pytest.approx(closed, rel=1e-12)


def integrated_crps(cdf, y, low, high, jumps=()):
    """The integral of (F(x) - 1[x >= y])^2 itself."""
    cuts = sorted({low, y, high, *(j for j in jumps if low < j < high)})
    parts = [
        integrate.quad(lambda x: (cdf(x) - (x >= y)) ** 2, a, b, limit=500, epsabs=1e-11) for a, b in pairwise(cuts)
    ]
    return sum(value for value, _ in parts)


def test_crps_is_the_integral(stds):
    found = Mixture.of(MEANS, stds, WEIGHTS).crps(POINTS)
    for i, y in enumerate(POINTS):
        exact = integrated_crps(lambda x, i=i: scipy_cdf(x, i, stds), y, -150, 150, MEANS[:, i])
        assert found[i] == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_ensembles(weights):
    mix = Mixture.of(MEANS, weights=weights)
    share = np.ones(7) if weights is None else weights
    for level in (0.05, 1 / 7, 0.5, 0.95):
        exact = np.quantile(MEANS, level, axis=0, weights=share, method="inverted_cdf")
        assert np.array_equal(mix.quantile(level)[0], exact)
    crps = mix.crps(POINTS)
    for i, y in enumerate(POINTS):
        values = MEANS[:, i]
        steps = integrated_crps(lambda x, v=values: share @ (v <= x) / share.sum(), y, -150, 150, values)
        assert crps[i] == pytest.approx(steps, rel=1e-8)
    assert mix.cdf(POINTS) == pytest.approx(share @ (MEANS <= POINTS) / share.sum())
    assert mix.points and np.isnan(mix.log_density(POINTS)).all()
    narrow = Mixture.of(MEANS, 1e-9, weights)
    assert crps == pytest.approx(narrow.crps(POINTS), abs=1e-8)
    assert mix.quantile([0.31, 0.77]) == pytest.approx(narrow.quantile([0.31, 0.77]), abs=1e-7)


def test_outputs_are_worked_off_in_slabs(monkeypatch, stds):
    whole = Mixture.of(MEANS.reshape(7, 5, 1), stds.reshape(7, 5, 1) if stds.ndim == 2 else stds, WEIGHTS)
    expected = whole.quantile([0.2, 0.9]), whole.cdf(0.3), whole.crps(0.3), whole.std()
    monkeypatch.setattr(mixture, "SLAB", 14)
    found = whole.quantile([0.2, 0.9]), whole.cdf(0.3), whole.crps(0.3), whole.std()
    for one, other in zip(expected, found, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    assert found[0].shape == (2, 5, 1) and found[1].shape == (5, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0], [2.0]], [1.0, 0.0]), "all positive, or all zero"),
        (([[1.0], [2.0]], -1.0), "all positive"),
        (([[1.0], [2.0]], [1.0, 1.0, 1.0]), r"means \(S, ...\).*got \(2, 1\), \(3,\) and \(2,\)"),
        (([[1.0], [2.0]], 1.0, [1.0, -1.0]), "must not be negative"),
        (([[1.0], [2.0]], 1.0, [0.0, 0.0]), "not all zero"),
        ((np.zeros((0, 3)), 1.0), "not all zero"),
    ],
)
def test_bad_mixtures(arguments, message):
    with pytest.raises(ValueError, match=message):
        Mixture.of(*arguments)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, np.nan])
def test_bad_levels(level):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Mixture.of(MEANS, 1.0).quantile(level)
