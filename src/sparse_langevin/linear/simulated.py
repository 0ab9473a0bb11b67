r"""Simulated data that look like what variable selection is used for: spectra, genetic markers, gene expression.

Each function returns a `Simulated` data set. The same options and seed give the same numbers, and the predictors do not
depend on options of the response, which is drawn after them. Unless said otherwise,

    y = x beta + noise N(0, 1),

and `respond` draws other responses for the same x beta: with outliers, of two classes, or counts.

>>> data = markers(n=100, p=300, heritability=0.6, seed=1)
>>> data.x.shape, data.names[:2], sorted(set(data.x.ravel().tolist()))
((100, 300), ['c1m1', 'c1m2'], [0.0, 1.0])
>>> round(float((data.x @ data.beta).var() / ((data.x @ data.beta).var() + data.noise**2)), 3)
0.6
>>> spectra(n=20, seed=1).names[:3]
['900 nm', '902 nm', '904 nm']
>>> coin = respond(data.x @ data.beta, "classes", seed=2)
>>> sorted(set(coin.tolist()))
[0.0, 1.0]
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparse_langevin.linear.responses import Array, Response, Seed, check, draw, respond

__all__ = ["Simulated", "autoregressive", "expression", "markers", "respond", "spectra"]


@dataclass(frozen=True)
class Simulated:
    """A data set, and how it was made.

    ``beta`` has the coefficients of the predictors as they are in ``x``; it is None where y was not made from x.
    ``noise`` is the standard deviation of Gaussian noise, and the scale of Student's t. Classes and counts have no
    other noise than their own: there it is the unit of the effects.
    """

    x: Array
    y: Array
    beta: Array | None
    noise: float
    names: list[str]


def autoregressive(
    n: int = 100,
    p: int = 200,
    *,
    rho: float = 0.6,
    effects: int | tuple[int, int] = 5,
    sizes: Literal["normal", "equal"] = "normal",
    size: float = 1.0,
    noise_variance: float = 1.0,
    response: Response = "gaussian",
    seed: Seed = 0,
) -> Simulated:
    r"""Predictors in a row whose correlation decays with their distance, the usual test of variable selection.

        x_i ~ N(0, Sigma),   Sigma_jk = rho^|j-k|

    Parameters
    ----------
    n
        Number of observations.
    p
        Number of predictors.
    rho
        Correlation of neighbours, from -1 to 1.
    effects
        Number of predictors with an effect, or the smallest and the largest number, of which one is drawn. Each
        predictor is as likely to be among them.
    sizes
        ``"normal"`` draws effects from a normal distribution, ``"equal"`` gives them the same size with random signs.
    size
        The standard deviation of normal effects, or the size of equal ones, in units of the standard deviation of the
        noise.
    noise_variance
        Variance of the noise.
    response
        The kind of response, see `respond`.
    seed
        A seed of NumPy's default generator.
    """
    _check_sizes(n, p)
    check(-1 < rho < 1, "rho must be between -1 and 1", rho)
    fewest, most = effects if isinstance(effects, tuple) else (effects, effects)
    check(0 <= fewest <= most <= p, f"effects must be at most the {p} predictors, or a range up to that", effects)
    check(sizes in ("normal", "equal"), "sizes must be 'normal' or 'equal'", sizes)
    check(size >= 0, "size must not be negative", size)
    check(noise_variance > 0, "noise_variance must be positive", noise_variance)
    rng = np.random.default_rng(seed)
    x = _row_of_neighbours(rng, n, p, rho)
    chosen = rng.permutation(p)[: rng.integers(fewest, most + 1)]
    noise = math.sqrt(noise_variance)
    values = rng.standard_normal(p) if sizes == "normal" else rng.choice((-1.0, 1.0), p)
    beta = np.zeros(p)
    beta[chosen] = noise * size * values[: len(chosen)]
    y = draw(x @ beta, response, noise, rng)
    return Simulated(x, y, beta, noise, [f"x{j}" for j in range(1, p + 1)])


def spectra(
    n: int = 60,
    p: int = 400,
    *,
    substances: int = 6,
    bands: int = 8,
    spread: float = 0.1,
    scatter: float = 0.02,
    drift: float = 0.02,
    instrument: float = 1e-4,
    noise: float = 0.2,
    seed: Seed = 0,
) -> Simulated:
    r"""Near-infrared spectra of mixtures, with the concentration of one substance as the response.

        x_i(w) = a_i sum_k c_ik s_k(w) + b_i0 + b_i1 w + b_i2 w^2 + instrument N(0, 1),   w from 0 to 1
        y_i    = (c_i1 - 1)/spread + noise N(0, 1)

    s_k is the spectrum of a substance: Gaussian bands that are wide and overlap, as those of the public data
    'gasoline' (60 spectra of 401 channels), so that neighbouring channels have correlations above 0.99. There are no
    true coefficients, as y is not made from x: ``beta`` is None, and many sets of channels predict equally well.

    Parameters
    ----------
    n
        Number of spectra.
    p
        Number of channels.
    substances
        Number of substances.
    bands
        Number of bands of each.
    spread
        Standard deviation of the concentrations c around 1; they are never negative.
    scatter
        Standard deviation of a, the multiplicative scatter, around 1.
    drift
        Standard deviation of each b, the drift of the baseline; the bands have heights up to 1.
    instrument
        Standard deviation of the noise of each channel.
    noise
        Standard deviation of the noise of y, in units of the spread.
    seed
        A seed of NumPy's default generator.
    """
    _check_sizes(n, p)
    check(substances >= 1 and bands >= 1, "substances and bands must be at least 1", (substances, bands))
    for name, value in (("scatter", scatter), ("drift", drift), ("instrument", instrument)):
        check(value >= 0, f"{name} must not be negative", value)
    check(spread > 0, "spread must be positive", spread)
    check(noise > 0, "noise must be positive", noise)
    rng = np.random.default_rng(seed)
    w = np.linspace(0.0, 1.0, p)
    centre, width = rng.uniform(-0.05, 1.05, (substances, bands, 1)), rng.uniform(0.02, 0.08, (substances, bands, 1))
    height = rng.uniform(0.1, 1.0, (substances, bands, 1)) / substances
    pure = (height * np.exp(-0.5 * ((w - centre) / width) ** 2)).sum(1)
    concentration = np.maximum(1.0 + spread * rng.standard_normal((n, substances)), 0.0)
    baseline = drift * rng.standard_normal((n, 3)) @ np.stack([np.ones(p), w, w * w])
    gain = 1.0 + scatter * rng.standard_normal((n, 1))
    x = gain * (concentration @ pure) + baseline + instrument * rng.standard_normal((n, p))
    y = (concentration[:, 0] - 1.0) / spread + noise * rng.standard_normal(n)
    return Simulated(x, y, None, noise, [f"{value:.4g} nm" for value in 900.0 + 800.0 * w])


def markers(
    n: int = 600,
    p: int = 1200,
    *,
    families: int = 20,
    chromosomes: int = 21,
    block: int = 10,
    crossings: float = 1.0,
    copies: Literal[1, 2] = 1,
    share: float = 0.3,
    heritability: float = 0.5,
    seed: Seed = 0,
) -> Simulated:
    r"""Genetic markers of related lines, as of inbred wheat, with many small effects.

    Each family has two parents out of as many founders as there are families, and its lines are mosaics of them: along
    a chromosome they change from one parent to the other at a few crossings. Founders have linkage blocks, in which
    neighbouring markers are nearly the same. Effects are normal, and scaled so that

        var(x beta) = heritability,   noise^2 = 1 - heritability.

    Parameters
    ----------
    n
        Number of lines.
    p
        Number of markers.
    families
        Number of families, all about equally large; at least 2. The fewer, the more alike are the lines.
    chromosomes
        Number of chromosomes; markers on different ones are inherited independently within a family.
    block
        Number of markers in a linkage block.
    crossings
        Mean number of crossings along a chromosome.
    copies
        1 for inbred lines, with markers 0 and 1; 2 for markers 0, 1 and 2.
    share
        Share of the markers that have an effect.
    heritability
        Share of the variance of y that is due to the markers.
    seed
        A seed of NumPy's default generator.
    """
    _check_sizes(n, p)
    check(families >= 2, "families must be at least 2", families)
    check(1 <= chromosomes <= p, f"chromosomes must be between 1 and the {p} markers", chromosomes)
    check(block >= 1, "block must be at least 1", block)
    check(crossings >= 0, "crossings must not be negative", crossings)
    check(copies in (1, 2), "copies must be 1 or 2", copies)
    check(0 < share <= 1, "share must be between 0 and 1", share)
    check(0 < heritability < 1, "heritability must be between 0 and 1", heritability)
    rng = np.random.default_rng(seed)
    chromosome = np.arange(p) * chromosomes // p
    first = np.diff(chromosome, prepend=-1) > 0
    founders = _founders(rng, families, p, block)
    parents = np.stack([np.arange(families), (np.arange(families) + rng.integers(1, families, families)) % families])
    family = rng.permutation(np.arange(n) % families)
    change = np.where(first, 0.5, -0.5 * math.expm1(-2.0 * crossings * chromosomes / p))  # Haldane's map
    x = np.zeros((n, p))
    for _ in range(copies):
        side = np.cumsum(rng.random((n, p)) < change, axis=1) % 2
        x += founders[parents[side, family[:, None]], np.arange(p)]
    chosen = rng.permutation(p)[: max(1, round(share * p))]
    beta = np.zeros(p)
    beta[chosen] = rng.standard_normal(len(chosen))
    beta = _scaled(x, beta, math.sqrt(heritability))
    noise = math.sqrt(1.0 - heritability)
    place = np.arange(p) - np.flatnonzero(first)[chromosome]
    names = [f"c{c + 1}m{m + 1}" for c, m in zip(chromosome.tolist(), place.tolist(), strict=True)]
    return Simulated(x, x @ beta + noise * rng.standard_normal(n), beta, noise, names)


def expression(
    n: int = 70,
    p: int = 4000,
    *,
    modules: int = 80,
    correlation: float = 0.6,
    common: float = 0.1,
    tail: float = 0.0,
    effects: int = 5,
    signal: float = 2.0,
    response: Response = "gaussian",
    seed: Seed = 0,
) -> Simulated:
    r"""Gene expression on the logarithmic scale: modules of genes that rise and fall together, and few effects.

        x_ij = level_j + deviation_j h(v_ij),   v_ij = sqrt(r_j) f_im(j) + sqrt(1 - r_j) N(0, 1),
        f_im = sqrt(common) g_i + sqrt(1 - common) N(0, 1),   h(v) = (exp(tail v) - 1)/tail

    The genes with an effect are in different modules where there are enough of them. Their effects per deviation_j have
    the same size and random signs. x beta is centred before the response is drawn from it.

    Parameters
    ----------
    n
        Number of samples.
    p
        Number of genes.
    modules
        Number of modules m, of very different sizes; the genes of a module are scattered over the table.
    correlation
        Mean correlation r of a gene with another one of its module; it varies between
        half and one and a half of that.
    common
        Correlation of any two modules, as by differences between batches.
    tail
        Skewness of the values: 0 for normal ones; 0.5 gives some that are far above all others.
    effects
        Number of genes with an effect.
    signal
        Standard deviation of x beta, in units of the noise: 2 makes up for 80 % of the variance of y.
    response
        The kind of response, see `respond`.
    seed
        A seed of NumPy's default generator.
    """
    _check_sizes(n, p)
    check(1 <= modules <= p, f"modules must be between 1 and the {p} genes", modules)
    check(0 <= correlation <= 0.65, "correlation must be between 0 and 0.65", correlation)
    check(0 <= common <= 1, "common must be between 0 and 1", common)
    check(tail >= 0, "tail must not be negative", tail)
    check(0 <= effects <= p, f"effects must be between 0 and the {p} genes", effects)
    check(signal >= 0, "signal must not be negative", signal)
    rng = np.random.default_rng(seed)
    sizes = rng.exponential(size=modules)
    module = rng.permutation(
        np.concatenate([np.arange(modules), rng.choice(modules, p - modules, p=sizes / sizes.sum())])
    )
    factor = math.sqrt(common) * rng.standard_normal((n, 1))
    factor = factor + math.sqrt(1.0 - common) * rng.standard_normal((n, modules))
    r = correlation * rng.uniform(0.5, 1.5, p)
    values = np.sqrt(r) * factor[:, module] + np.sqrt(1.0 - r) * rng.standard_normal((n, p))
    if tail > 0:
        values = np.expm1(tail * values) / tail
    deviation = rng.gamma(4.0, 0.15, p)
    x = rng.normal(8.0, 2.0, p) + deviation * values
    order = rng.permutation(p)
    new = np.zeros(p, dtype=bool)
    new[np.unique(module[order], return_index=True)[1]] = True  # the first gene of each module comes before all others
    chosen = np.concatenate([order[new], order[~new]])[:effects]
    beta = np.zeros(p)
    beta[chosen] = rng.choice((-1.0, 1.0), effects) / deviation[chosen]
    beta = _scaled(x, beta, signal)
    linear = x @ beta
    y = draw(linear - linear.mean(), response, 1.0, rng)
    return Simulated(x, y, beta, 1.0, [f"gene{j}" for j in range(1, p + 1)])


def _row_of_neighbours(rng: np.random.Generator, n: int, p: int, rho: float) -> Array:
    """Draw from N(0, Sigma) with Sigma_jk = rho^|j-k|."""
    x: Array = rng.standard_normal((n, p))
    for j in range(1, p):
        x[:, j] = rho * x[:, j - 1] + math.sqrt(1.0 - rho * rho) * x[:, j]
    return x


def _founders(rng: np.random.Generator, count: int, p: int, block: int) -> Array:
    """Draw markers 0 and 1 of founders: each marker has both, about the same ones as its neighbours in a block."""
    score = rng.standard_normal((count, -(-p // block))).repeat(block, axis=1)[:, :p]
    score += 0.2 * rng.standard_normal((count, p))
    ones = rng.integers(1, count, -(-p // block)).repeat(block)[:p]
    rank = score.argsort(axis=0).argsort(axis=0)
    return (rank < ones).astype(float)


def _scaled(x: Array, beta: Array, deviation: float) -> Array:
    """Scale coefficients so that x beta has the given standard deviation."""
    now = float((x @ beta).std())
    return beta * (deviation / now) if now > 0 else beta


def _check_sizes(n: int, p: int) -> None:
    check(n >= 2, "n must be at least 2", n)
    check(p >= 2, "p must be at least 2", p)
