r"""EM for the linear model with a spike and a slab, along a path of ever narrower spikes: a baseline without sampling.

    y = X beta + N(0, sigma^2 I),  beta_j ~ (1 - gamma_j) Laplace(0, sigma v0) + gamma_j N(0, sigma^2 v1),
    gamma_j ~ Bernoulli(delta),  delta ~ Beta(a, b),  sigma^2 ~ InverseGamma(nu/2, nu lambda/2).

E step: rho_j = P(gamma_j = 1 | beta_j). M step: beta minimises, by coordinate descent, the weighted elastic net

    |y - X beta|^2/2 + sum_j lasso_j |beta_j| + sum_j ridge_j beta_j^2/2,
    lasso_j = sigma (1 - rho_j)/v0,   ridge_j = rho_j/v1.

delta is its posterior mean (sum rho + a)/(a + b + p), because the mode runs to zero with a = 1. sigma is the positive
root of A s^2 - B s - C = 0 with A = n + nu + 2 + (number of weights that are not zero): a weight of exactly zero says
nothing about sigma, and counting all p > n of them would drive sigma to zero. Each v0 starts from the solution of the
previous one (as in Rockova and George, EMVS, 2014, where the spike is Gaussian).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparse_langevin.runtime.jit import compiled
from sparse_langevin.sampling import mixture

Array = NDArray[np.float64]

delta_mean = compiled(mixture.delta_mean)
log_odds = compiled(mixture.log_odds)
log_ratio_at_zero = compiled(mixture.log_ratio_at_zero)
sigma_root = compiled(mixture.sigma_root)

PATH = tuple(np.geomspace(0.3, 0.01, 20))  # its end is the regressor's default for n = 100, 0.1/sqrt(n)
SWEEPS = 100  # the largest number of sweeps of coordinate descent in one M step


class Mode(NamedTuple):
    """The state of EM, and in the end its result; the arrays are changed in place."""

    beta: Array
    rho: Array
    delta: float
    sigma: float


class Moments(NamedTuple):
    """X'X, X'y, y'y and the number of observations."""

    gram: Array
    xty: Array
    yty: float
    size: int


class Hyper(NamedTuple):
    """The slab and the hyperpriors; v1 is the regressor's default for ten expected effects and an R^2 of 0.75."""

    v1: float = 0.3
    a: float = 1.0
    b: float = 1.0
    nu: float = 1.0
    lambda_: float = 1.0


HYPER = Hyper()


def emvs(
    x: Array, y: Array, path: tuple[float, ...] = PATH, hyper: Hyper = HYPER, max_iter: int = 200, tol: float = 1e-5
) -> Mode:
    """The mode for the last spike of ``path``, which holds decreasing v0; x must be standardised and y centred.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((50, 100))
    >>> y = 2 * x[:, 3] + 0.5 * rng.standard_normal(50)
    >>> np.flatnonzero(emvs(x - x.mean(0), y - y.mean()).rho > 0.5)
    array([3])
    """
    n, p = x.shape
    moments = Moments(x.T @ x, x.T @ y, float(y @ y), n)
    mode = Mode(np.zeros(p), np.full(p, 0.5), 0.5, math.sqrt(moments.yty / n))
    for v0 in path:
        delta, sigma = _em(moments, mode, v0, hyper, max_iter, tol)
        mode = mode._replace(delta=delta, sigma=sigma)
    return mode


@compiled
def inclusion(beta, sigma, delta, v0, v1, rho):
    """E step: write P(gamma = 1 | beta) into ``rho``."""
    at_zero = log_ratio_at_zero(v0, v1) + math.log(delta) - math.log1p(-delta)
    for j in range(len(beta)):
        rho[j] = 1 / (1 + math.exp(-max(log_odds(beta[j], sigma, v0, v1, at_zero), -700.0)))


@compiled
def sweep(gram, residual, beta, lasso, ridge):
    """One pass of coordinate descent, where ``residual`` is X'(y - X beta). Returns the largest change."""
    largest = 0.0
    for j in range(len(beta)):
        c = residual[j] + gram[j, j] * beta[j]
        new = math.copysign(max(abs(c) - lasso[j], 0.0), c) / (gram[j, j] + ridge[j])
        change = new - beta[j]
        if change != 0.0:
            residual -= change * gram[j]
            beta[j] = new
            largest = max(largest, abs(change))
    return largest


@compiled
def _em(moments, mode, v0, hyper, max_iter, tol):
    """Iterate at one v0 until convergence; return delta and sigma."""
    beta, rho, delta, sigma = mode
    residual = moments.xty - moments.gram @ beta
    for _ in range(max_iter):
        before = beta.copy()
        inclusion(beta, sigma, delta, v0, hyper.v1, rho)
        for _ in range(SWEEPS):
            if sweep(moments.gram, residual, beta, sigma * (1 - rho) / v0, rho / hyper.v1) < tol * sigma:
                break
        delta = delta_mean(rho.sum(), len(beta), hyper.a, hyper.b)
        weight = moments.size + hyper.nu + 2 + np.sum(beta != 0)
        spike = ((1 - rho) * np.abs(beta)).sum() / v0
        rss = moments.yty - beta @ (moments.xty + residual)
        rest = rss + (rho * beta**2).sum() / hyper.v1 + hyper.nu * hyper.lambda_
        sigma = sigma_root(weight, spike, rest)
        if np.max(np.abs(beta - before)) < tol * sigma:
            break
    return delta, sigma
