"""Coefficients that are never negative: against sums over all models with orthant probabilities, and promises kept."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import logsumexp

from sparse_langevin import SparseBayesRegressor
from sparse_langevin.linear import collapsed, model_state, normal, positive
from sparse_langevin.linear.collapsed import Chain
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.normal import PositiveRegression, Problem
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.settling import settle

NEGLIGIBLE = 12.0  # logarithms below the largest weight, at which a model with some g is left out of a sum
SHORT = {"random_state": 0, "target_rhat": 1.1, "target_ess": 100.0, "max_steps": 4000}


def correlated(n=50, p=6, seed=1):
    """Correlation 0.6^|i - j|; a copy of a true predictor, and one whose true effect is negative."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.6 ** abs(np.subtract.outer(range(p), range(p)))).T
    x[:, 4] = x[:, 1]
    return x, 0.5 * x[:, 1] + 0.35 * x[:, 3] - 0.3 * x[:, 5] + rng.standard_normal(n)


def problem(x, y, rest=0.0):
    return Problem(Design(x, x.mean(0), x.std(0), None), (y - y.mean()) / y.std(), rest, float(len(y)))


def enumerated(case, most=None):
    """Return inclusion, means of coefficients, of sigma and of log g; at most ``most`` of predictors from 3 on.

    Without the constraint beta has a multivariate t distribution given model and g, and sigma^2 is inverse gamma: the
    evidence under the constraint is 2^k times the one without, times the probability that all coefficients are
    positive, by quasi Monte Carlo.
    """
    z, y, p = case.design.columns(np.arange(case.design.size)), case.y, case.design.size
    half, offset = 0.5 * (case.size - 1 + case.nu), case.nu * case.lambda_ + case.rest
    points = stats.qmc.Sobol(p + 1, rng=np.random.default_rng(0)).random_base2(12)
    normals, chi2 = stats.norm.ppf(points[:, :p]), stats.chi2.ppf(points[:, p], 2 * half)
    models = [np.array(m, bool) for m in itertools.product([0, 1], repeat=p) if most is None or sum(m[3:]) <= most]
    found = []
    for model, (i, g) in itertools.product(models, enumerate(case.grid)):
        x, k = z[:, model], model.sum()
        inverse = np.linalg.inv(x.T @ x + np.eye(k) / g)
        mean = inverse @ (x.T @ y)
        rest = offset + y @ y - mean @ (x.T @ y)
        value = case.prior[i, k] + k * np.log(2) + 0.5 * np.linalg.slogdet(inverse / g)[1] - half * np.log(rest)
        found.append((value, model, g, mean, np.linalg.cholesky(inverse), rest))
    best = max(found[i][0] for i in range(len(found)))
    weights, values = [], []
    for value, model, g, mean, root, rest in found:
        if value > best - NEGLIGIBLE:  # a bound, as probabilities are at most 1
            sigma = np.sqrt(rest / chi2)
            beta = mean + sigma[:, None] * (normals[:, : len(mean)] @ root.T)
            inside = (beta > 0).all(1)
            if inside.any():
                weights.append(value + np.log(inside.mean()))
                coefficients = np.zeros(p)
                coefficients[model] = beta[inside].mean(0)
                values.append([*model.astype(float), *coefficients, sigma[inside].mean(), np.log(g)])
    average = np.exp(np.array(weights) - logsumexp(weights)) @ np.array(values)
    return average[:p], average[p : 2 * p], average[2 * p], average[2 * p + 1]


@pytest.fixture(params=["all in view", "guests"])
def view(request, monkeypatch):
    """All predictors in view; or few, the first three are anchors and two of the others guests."""
    if request.param == "guests":
        for name, value in (("ALL", 3), ("ANCHORS", 3), ("GUESTS", 2)):
            monkeypatch.setattr(collapsed, name, value)
        monkeypatch.setattr(Chain, "choose_anchors", lambda self, scores: None)
    return request.param


def test_against_enumeration_of_all_models(view):
    case = problem(*correlated())
    inclusion, mean, sigma, log_g = enumerated(case, 2 if view == "guests" else None)
    plan = Plan(4, 1000, 40_000, 0.0, 1e9)
    regressions = [PositiveRegression(case) for _ in range(plan.chains)]
    found = settle(case, regressions, plan, np.arange(0, 50, 10), np.random.default_rng(1), 2)
    draws = found.draws
    beta = draws.effects.toarray()
    print(view, inclusion, found.inclusion, (beta > 0).mean(0), mean, beta.mean(0), beta.std(0), sigma, draws.beside["sigma"].mean(), log_g, np.log(draws.beside["g"]).mean(), {k: (round(d.rhat, 4), int(d.ess)) for k, d in found.diagnoses.items()}, len(draws), sep="\n")
