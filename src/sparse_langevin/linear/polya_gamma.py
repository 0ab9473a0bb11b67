r"""Draws of Polya-Gamma variables, which turn logistic likelihoods into Gaussian ones (Polson, Scott and Windle, 2013).

    PG(b, z) = 1/(2 pi^2) sum_k g_k/((k - 1/2)^2 + c^2),   g_k ~ Gamma(b, 1),   c = z/(2 pi),   k = 1, 2, ...

    mean b m(z),      m(z) = tanh(z/2)/(2 z)
    variance b v(z),  v(z) = (sinh(z) - z)/(4 z^3 cosh(z/2)^2)
    E exp(-t PG) = (cosh(z/2)/cosh(sqrt(z^2/4 + t/2)))^b

For counts y of binomial or negative binomial type with linear predictor z, exp(a z)/(1 + exp(z))^b is the average of
exp((a - b/2) z - w z^2/2)/2^b over w ~ PG(b, 0), and w given z is PG(b, z).

There are three methods, as no single one is fast and accurate everywhere.

*Large z.* With w = sqrt(z^2/4 + t/2), cosh(w) = exp(w) (1 + exp(-2 w))/2: the transform is that of an inverse Gaussian
variable with mean b/(2 z) and shape b^2/4, up to a factor between 1 and (1 + exp(-z))^b. It is used where
b exp(-z) < exp(-20): the distributions differ by less than 1e-8 in total variation.

*b = 1, 2, ..., 6.* Sums of exact draws of PG(1, z). With x = 4 PG(1, z) and u = z/2 the density of x is
cosh(u) exp(-u^2 x/2) times an alternating series, whose terms are known in two forms,

    a_n(x) = pi (n + 1/2) (2/(pi x))^(3/2) exp(-2 (n + 1/2)^2/x)      decreasing in n for x < 3.64
           = pi (n + 1/2) exp(-(n + 1/2)^2 pi^2 x/2)                  decreasing in n for x > 0.12

(Devroye, 2009). x is drawn from the first term: an inverse Gaussian variable below 0.64, an exponential one above. It
is accepted with the probability (a_0 - a_1 + a_2 - ...)/a_0, which is above 0.994 everywhere; partial sums bound it
from both sides, so that it is hardly ever computed beyond a_1.

*All other b.* The sum over k up to K, and for the rest a gamma variable of the same mean and variance. K is z/2 plus
10 or plus 6/b, whichever is larger, but 600 at most. The distribution functions differ by less than 1e-5 for any b >
0.01, as inverting the transforms shows; that of a million draws has an error of 1e-3. For a smaller b mean and
variance remain exact, and only how values below 1e-6 are spread among themselves is approximate.
"""

import math

import numpy as np

from sparse_langevin.runtime.jit import compiled

SPLIT = 0.64  # where the two forms of the series meet
ROOT = math.sqrt(2.0 * SPLIT)
FIRST_SURE = 0.994  # 1 - a_1(x)/a_0(x) is larger for all x
GAUSSIAN_FROM = 20.0  # z - log(b) beyond which PG(b, z) is inverse Gaussian
MOST_EXACT = 6  # the largest b for which exact draws are added; beyond, a sum of gamma variables takes less time
TERMS, TERMS_PER_Z, TERMS_TIMES_B = 10.0, 0.5, 6.0
MOST_TERMS = 600.0


@compiled
def draw(b, z, rng):
    """Draw from PG(b, z) for b > 0 and any real z, with a NumPy generator; NaN if they are not."""
    shape, z = float(b), abs(float(z))
    if not (0.0 < shape < math.inf and z >= 0.0):
        return math.nan
    if z > GAUSSIAN_FROM and shape * math.exp(GAUSSIAN_FROM - z) < 1.0:
        return inverse_gaussian(0.5 * shape / z, 2.0 / (shape * z), rng)
    if shape > MOST_EXACT or shape != math.floor(shape):
        return draw_sum(shape, z, rng)
    u = 0.5 * z
    above = probability_above(u)
    total = 0.0
    for _ in range(int(shape)):
        total += draw_one(u, above, rng)
    return 0.25 * total


@compiled
def draw_all(b, z, rng, out):
    """Fill ``out`` with one draw from PG(b, z) for each pair in ``b`` and ``z``."""
    if len(b) != len(out) or len(z) != len(out):
        raise ValueError(
            f"b, z and out have {len(b)}, {len(z)} and {len(out)} entries; give three arrays of the same length"
        )
    for i in range(len(out)):
        out[i] = draw(b[i], z[i], rng)


@compiled
def probability_above(u):
    """Return the share of the first term's mass that lies above SPLIT, for the tilt ``u``."""
    rate = 0.125 * math.pi**2 + 0.5 * u * u
    above = 0.5 * math.pi / rate * math.exp(u - rate * SPLIT)
    below = math.erfc((1.0 - SPLIT * u) / ROOT) + math.exp(2.0 * u) * math.erfc((1.0 + SPLIT * u) / ROOT)
    return above / (above + below)


@compiled
def draw_one(u, above, rng):
    """Draw x = 4 PG(1, 2 u) by Devroye's method."""
    while True:
        if rng.random() < above:
            x = SPLIT + rng.standard_exponential() / (0.125 * math.pi**2 + 0.5 * u * u)
        else:
            x = gaussian_below(u, rng)
        mark = rng.random()
        if mark < FIRST_SURE or accepted(x, mark):
            return x


@compiled
def accepted(x, mark):
    """Return whether ``mark`` is below the sum of the series divided by its first term."""
    rate = 2.0 / x if x < SPLIT else 0.5 * math.pi**2 * x
    total, n = 1.0, 0
    while True:
        n += 1
        term = (2 * n + 1) * math.exp(-n * (n + 1) * rate)
        if n % 2:
            total -= term
            if mark <= total:
                return True
        else:
            total += term
            if mark > total:
                return False


@compiled
def gaussian_below(u, rng):
    """Draw from the inverse Gaussian distribution with mean 1/u and shape 1, below SPLIT."""
    if u * SPLIT > 1.0:
        while True:
            x = inverse_gaussian(1.0 / u, 1.0 / u, rng)
            if x < SPLIT:
                return x
    # 1/x is the square of a normal variable, tilted by exp(-u^2 x/2): that one is drawn beyond 1/sqrt(SPLIT) from an
    # exponential distribution, as exp(-(a + e)^2/2) = exp(-a^2/2 - a e) exp(-e^2/2) with e = a SPLIT E.
    while True:
        e = rng.standard_exponential()
        if 0.5 * SPLIT * e * e <= rng.standard_exponential():
            x = SPLIT / ((1.0 + SPLIT * e) * (1.0 + SPLIT * e))
            if rng.random() < math.exp(-0.5 * u * u * x):
                return x


@compiled
def inverse_gaussian(mean, spread, rng):
    """Draw from the inverse Gaussian distribution with variance mean^2 spread (Michael, Schucany and Haas, 1976)."""
    normal = rng.standard_normal()
    w = 0.5 * spread * normal * normal
    ratio = 1.0 + w + math.sqrt(w * (2.0 + w))
    return mean / ratio if rng.random() * (1.0 + ratio) < ratio else mean * ratio


@compiled
def draw_sum(b, z, rng):
    """Draw from PG(b, z) as a sum of gamma variables, the last one for all terms that are left out."""
    squared = (z / (2.0 * math.pi)) ** 2
    terms = int(min(max(TERMS, TERMS_TIMES_B / b) + TERMS_PER_Z * z, MOST_TERMS))
    value, mean, variance = 0.0, unit_mean(z), unit_variance(z)
    for k in range(terms):
        weight = 1.0 / (2.0 * math.pi**2 * ((k + 0.5) * (k + 0.5) + squared))
        value += weight * rng.standard_gamma(b)
        mean -= weight
        variance -= weight * weight
    return value + variance / mean * rng.standard_gamma(b * mean * mean / variance)


@compiled
def unit_mean(z):
    """Return m(z)."""
    return 0.25 * (1.0 - z * z / 12.0) if z < 1e-4 else 0.5 * math.tanh(0.5 * z) / z


@compiled
def unit_variance(z):
    """Return v(z), for small z with the series of (sinh(z) - z)/z^3."""
    decay = math.exp(-z)
    if z < 1.0:
        s, excess, factor = z * z, 0.0, 1.0 / 6.0
        for n in range(4, 21, 2):
            excess += factor
            factor *= s / (n * (n + 1))
        return decay * excess / (1.0 + decay) ** 2
    return (0.5 * (1.0 - decay * decay) - z * decay) / (z**3 * (1.0 + decay) ** 2)


@compiled
def sweep(rows, precision, b, kappa, offset, scores, times, rng):
    """Draw w ~ PG(b, score - offset) and coefficients in turns; return the last coefficients.

    The score is the sum of coefficients times ``rows``; coefficients are N(0, 1/precision), and given w the responses
    kappa/w + offset are normal with variance 1/w.
    """
    k, n = rows.shape
    weights, found = np.empty(n), np.zeros(k)
    for _ in range(times):
        draw_all(b, scores - offset, rng, weights)
        weighted = rows * weights
        gram = weighted @ rows.T
        for i in range(k):
            gram[i, i] += precision[i]
        root = np.linalg.cholesky(gram)
        normal = np.empty(k)
        for i in range(k):
            normal[i] = rng.standard_normal()
        target = np.linalg.solve(root, rows @ kappa + weighted @ offset) + normal
        found = np.linalg.solve(np.ascontiguousarray(root.T), target)
        scores = found @ rows
    return found
