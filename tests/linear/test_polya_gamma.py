"""Draws of Polya-Gamma variables against their moments, their transform, and their distribution by its series."""

import functools

import numpy as np
import pytest
from scipy import integrate, special, stats

from sparse_langevin.linear import polya_gamma

LIMIT = 4.5  # standard errors: one of 150,000 sound comparisons is refused
B = (0.02, 0.3, 1.0, 2.0, 2.5, 6.0, 7.0, 40.0, 1e5)
Z = (0.0, 1.0, -3.0, 9.0, 19.0, 26.0, -700.0)


@functools.cache
def draws(b, z, count=None):
    out = np.empty(count or (60_000 if b > 0.1 else 20_000))
    rng = np.random.default_rng([int(1000 * b), int(abs(1000 * z))])
    polya_gamma.draw_all(np.full(len(out), float(b)), np.full(len(out), float(z)), rng, out)
    return out


def moments(b, z):
    if abs(z) < 0.1:
        return b / 4 * (1 - z**2 / 12), b / 24 * (1 - z**2 / 5)
    return b / (2 * z) * np.tanh(z / 2), b / (4 * z**3) * (np.sinh(z) - z) / np.cosh(z / 2) ** 2


def log_cosh(x):
    return x + np.log1p(np.exp(-2 * x)) - np.log(2)


def log_transform(t, b, z):
    """log E exp(-t PG(b, z)), for complex t."""
    return b * (log_cosh(abs(z) / 2) - log_cosh(np.sqrt(z * z / 4 + t / 2)))


def density(x, b, z):
    """The tilted series of the density of PG(b, 0), as in Polson, Scott and Windle (2013)."""
    n = np.arange(80)[:, None]
    size = special.gammaln(n + b) - special.gammaln(b) - special.gammaln(n + 1) + np.log(2 * n + b)
    size = size - (2 * n + b) ** 2 / (8 * x) + b * log_cosh(abs(z) / 2) - z * z * x / 2
    return ((-1.0) ** n * np.exp(size + (b - 1) * np.log(2))).sum(0) / np.sqrt(2 * np.pi * x**3)


def distribution(b, z, low=1e-9):
    """The distribution function, by integrating the density over the logarithm of x."""
    mean, variance = moments(b, z)
    grid = np.linspace(np.log(mean * low), np.log(mean + 30 * np.sqrt(variance) * max(1.0, b**-0.5)), 6001)
    values = np.exp(grid) * density(np.exp(grid), b, z)
    total = integrate.cumulative_simpson(values, x=grid, initial=0)
    assert total[-1] == pytest.approx(1.0, abs=1e-6)
    return lambda x: np.interp(np.log(x), grid, total)


@pytest.mark.parametrize("b", B)
@pytest.mark.parametrize("z", Z)
def test_mean_and_variance(b, z):
    x, (mean, variance) = draws(b, z), moments(b, z)
    assert abs(x.mean() - mean) < LIMIT * np.sqrt(variance / len(x))
    squared = (x - mean) ** 2
    assert abs(squared.mean() - variance) < LIMIT * squared.std() / np.sqrt(len(x))


@pytest.mark.parametrize("b", B)
@pytest.mark.parametrize("z", Z)
def test_laplace_transform(b, z):
    x, (mean, variance) = draws(b, z), moments(b, z)
    for t in (0.2 / mean, 2.0 / mean, 1.0 / np.sqrt(variance), -min(0.1 * (np.pi**2 + z**2), 0.5 / np.sqrt(variance))):
        shift = t * mean  # keeps the exponent near zero for the largest b
        values = np.exp(shift - t * x)
        expected = np.exp(shift + log_transform(t + 0j, b, z).real)
        assert abs(values.mean() - expected) < LIMIT * values.std() / np.sqrt(len(x))


@pytest.mark.parametrize("b", [0.3, 1.0, 2.0, 2.5, 7.0])
@pytest.mark.parametrize("z", Z)
def test_distribution(b, z):
    assert stats.kstest(draws(b, z), distribution(b, z)).pvalue > 1e-4


@pytest.mark.parametrize(("b", "z"), [(1.0, 1.5), (1.0, 20.5), (0.5, 19.5), (7.0, 12.0)])
def test_the_distribution_by_a_million_draws(b, z):
    x = draws(b, z, 1_000_000)
    assert stats.kstest(x, distribution(b, z)).pvalue > 1e-4


@pytest.mark.parametrize("x", [0.03, 0.3, 0.63, 0.65, 1.0, 2.0, 5.0])
def test_exact_draws_are_accepted_by_the_whole_series(x):
    """Hardly ever does it matter: without it the distribution function would change by less than 1e-3."""
    first = np.sqrt(2 / (np.pi * x**3)) * np.exp(-0.5 / x) if x < 0.64 else np.pi / 2 * np.exp(-(np.pi**2) * x / 8)
    share = 0.25 * density(np.array([x / 4]), 1.0, 0.0)[0] / first
    assert polya_gamma.FIRST_SURE < share <= 1
    assert polya_gamma.accepted(x, share - 1e-13)
    assert share > 1 - 1e-12 or not polya_gamma.accepted(x, share + 1e-13)


@pytest.mark.parametrize(("b", "z"), [(0.02, 0.0), (0.02, 5.0)])
def test_the_distribution_of_hardly_any_successes(b, z):
    x = draws(b, z)
    assert stats.kstest(x[x > 1e-12], conditional(distribution(b, z, 1e-15), 1e-12)).pvalue > 1e-4


def conditional(whole, low):
    return lambda x: (whole(x) - whole(low)) / (1 - whole(low))


@pytest.mark.parametrize(("b", "z"), [(40.0, 2.0), (1e5, 0.0), (1e5, 30.0)])
def test_the_distribution_of_many_trials(b, z):
    """The distribution function from the transform on the imaginary axis (Gil-Pelaez, 1951)."""
    x, (mean, variance) = draws(b, z), moments(b, z)
    deviation = np.sqrt(variance)
    s = np.linspace(1e-6, 12, 4001)
    wave = np.exp(log_transform(-1j * s / deviation, b, z) - 1j * s * mean / deviation)
    grid = np.linspace(-8, 12, 801)
    turned = (np.exp(-1j * np.multiply.outer(grid, s)) * wave).imag / s
    total = 0.5 - integrate.simpson(turned, x=s) / np.pi
    result = stats.kstest((x - mean) / deviation, lambda value: np.interp(value, grid, total))
    assert result.pvalue > 1e-4


@pytest.mark.parametrize("b", [0.0101, 0.05, 0.3, 0.5, 0.61, 1.5, 7.0, 1e3])
@pytest.mark.parametrize("z", [0.0, 1.0, 6.0, 19.99])
def test_the_error_of_a_sum_is_negligible(b, z):
    """sup |F - G| is at most the integral of |f - g|/s over s > 0, divided by pi, for transforms f and g of F and G."""
    s = np.exp(np.linspace(-15, 45, 3001))
    count = int(min(max(10, 6 / b) + z / 2, 600))
    weight = 1 / (2 * np.pi**2 * ((np.arange(count) + 0.5) ** 2 + (z / (2 * np.pi)) ** 2))
    mean = polya_gamma.unit_mean(z) - weight.sum()
    scale = (polya_gamma.unit_variance(z) - (weight**2).sum()) / mean
    total = sum(np.log1p(-1j * s * w) for w in weight) + mean / scale * np.log1p(-1j * s * scale)
    gap = np.abs(np.exp(-b * total) - np.exp(log_transform(-1j * s, b, z)))
    assert integrate.trapezoid(gap, np.log(s)) / np.pi < 1e-5


@pytest.mark.parametrize(
    ("first", "second", "z"), [(1.0, 0.5, 2.0), (2.5, 4.5, 0.5), (0.3, 0.7, 8.0), (6.0, 1.0, 19.0)]
)
def test_sums_of_draws_are_draws(first, second, z):
    both = draws(first, z) + draws(second, z)[::-1]
    assert stats.ks_2samp(both, draws(first + second, z)).pvalue > 1e-4


@pytest.mark.parametrize("z", [0.0, 1e-300, 1e-9, 1.0, 19.9, 20.1, 700.0, 1e5, 1e300])
@pytest.mark.parametrize("b", [1e-12, 1e-3, 1.0, 3.0, 6.5, 1e9])
def test_extreme_arguments(b, z):
    rng = np.random.default_rng(0)
    x = np.array([polya_gamma.draw(b, z, rng) for _ in range(200)])
    assert np.isfinite(x).all() and (x >= 0).all()
    if z < 1e150:
        mean, variance = (b / 4, b / 24) if z < 1e-8 else (moments(b, z) if z < 700 else (b / (2 * z), b / (2 * z**3)))
        assert abs(x.mean() - mean) < 6 * np.sqrt(variance / len(x)) + 1e-15 * b


def test_the_sign_of_z_does_not_matter_and_zero_is_a_limit():
    for b in (1, 2.5):
        same = [polya_gamma.draw(b, z, np.random.default_rng(3)) for z in (2.0, -2.0)]
        assert same[0] == same[1]
        limit = [polya_gamma.draw(b, z, np.random.default_rng(3)) for z in (0.0, 1e-12)]
        assert limit[0] == pytest.approx(limit[1], rel=1e-12)


@pytest.mark.parametrize(("z", "b"), [(0.0, 0.5), (1e-4, 1.5), (0.999, 0.2), (1.001, 0.2), (5.0, 0.9), (40.0, 1.0)])
def test_moments_of_the_sum(z, b):
    weight = 1 / (2 * np.pi**2 * ((np.arange(2_000_000) + 0.5) ** 2 + (z / (2 * np.pi)) ** 2))
    assert polya_gamma.unit_mean(z) == pytest.approx(weight.sum() + 1 / (2 * np.pi**2 * 2e6), rel=1e-12)
    assert polya_gamma.unit_variance(z) == pytest.approx((weight**2).sum(), rel=1e-12)


def test_integers_and_reals_give_the_same():
    assert polya_gamma.draw(2, 1, np.random.default_rng(5)) == polya_gamma.draw(2.0, 1.0, np.random.default_rng(5))


def test_all_are_the_single_draws_in_order():
    b, z = np.array([1.0, 2.5, 0.4, 50.0, 3.0]), np.array([-1.0, 0.0, 2.0, 8.0, 70.0])
    rng, out = np.random.default_rng(8), np.empty(5)
    polya_gamma.draw_all(b, z, np.random.default_rng(8), out)
    assert list(out) == [polya_gamma.draw(b[i], z[i], rng) for i in range(5)]


@pytest.mark.parametrize(("b", "z"), [(0.0, 1.0), (-1.0, 1.0), (np.nan, 1.0), (np.inf, np.inf), (1.0, np.nan)])
def test_no_draw_where_there_is_no_distribution(b, z):
    assert np.isnan(polya_gamma.draw(b, z, np.random.default_rng(0)))


def test_arrays_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="b, z and out have 3, 2 and 3 entries; give three arrays of the same length"):
        polya_gamma.draw_all(np.ones(3), np.ones(2), np.random.default_rng(0), np.empty(3))
