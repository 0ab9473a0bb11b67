"""Classes, counts and noise with heavy tails, against sums over all models with evidence by importance sampling."""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

from sparse_langevin.linear import augmented, collapsed, size_prior
from sparse_langevin.linear.augmented import AugmentedRegression, Problem
from sparse_langevin.linear.collapsed import Chain
from sparse_langevin.linear.design import Design
from sparse_langevin.linear.families import Classes, Counts, Student, counts, student
from sparse_langevin.linear.families.student import NU
from sparse_langevin.linear.runner import Plan
from sparse_langevin.linear.settling import settle

POINTS = 5000  # to how many independent points the importance sampling amounts at least
G, R = np.array([0.05, 0.5, 3.0]), np.array([0.5, 2.0, 8.0, 40.0])


@pytest.fixture(autouse=True)
def few_values_of_g(monkeypatch):
    monkeypatch.setattr(size_prior, "g_grid", lambda n: G)
    monkeypatch.setattr(augmented, "LARGEST_SCALING", 2)


def evidence(log_density, size, seed):
    """Return the logarithm of an integral and the mean under the density, by importance sampling from a Student t."""
    best = optimize.minimize(lambda point: -log_density(point[None])[0], np.zeros(size), method="BFGS")
    steps = 1e-3 * np.eye(size)
    corners = [(a + b, a - b, b - a, -a - b) for a in steps for b in steps]
    curvature = -log_density(best.x + np.concatenate(corners)).reshape(size, size, 4) @ [1, -1, -1, 1] / 4e-6
    proposal = stats.multivariate_t(best.x, 1.3 * np.linalg.inv(curvature), df=5, seed=seed)
    points = proposal.rvs(40_000).reshape(-1, size)
    weight = log_density(points) - proposal.logpdf(points)
    share = np.exp(weight - logsumexp(weight))
    assert 1 / (share**2).sum() > POINTS  # the proposal fits
    return logsumexp(weight) - np.log(len(points)), share @ points


def design(x):
    return Design(x, x.mean(0), x.std(0), None)


def sampled(case, steps=12_000):
    regressions = [AugmentedRegression(case, np.random.default_rng(seed)) for seed in range(4)]
    plan = Plan(4, 1000, steps, 0.0, 1e9)
    return settle(case, regressions, plan, np.arange(0, case.rows, 9), np.random.default_rng(1), 2)


def prior_of_beta(beta, g):
    return stats.norm.logpdf(beta, scale=np.sqrt(g)).sum(-1)


def summed(table, models):
    """Return inclusion and means of the coefficients from (log evidence, mean) by model."""
    weight = np.exp(np.array([log for log, _ in table]) - logsumexp([log for log, _ in table]))
    return weight @ np.array(models), weight @ np.array([mean for _, mean in table])


def one_response(case, log_likelihood, extra=0, extra_prior=lambda rest: 0.0):
    """Sum over models of two predictors and g; parameters are the intercept, the coefficients, and ``extra`` others."""
    z, table, models = case.design.columns(np.arange(2)), [], []
    for model in itertools.product([False, True], repeat=2):
        chosen, k = np.array(model), sum(model)
        for i, g in enumerate(G):

            def log_density(points, chosen=chosen, k=k, g=g):
                scores = points[:, :1] + points[:, 1 : 1 + k] @ z[:, chosen].T
                rest = points[:, 1 + k :]
                prior = stats.norm.logpdf(points[:, 0], scale=10.0) if not extra else 0.0
                scale = np.exp(rest[:, :1]) if extra else 1.0
                prior = prior + stats.norm.logpdf(points[:, 1 : 1 + k], scale=np.sqrt(g) * scale).sum(1)
                return log_likelihood(scores, rest) + prior + extra_prior(rest)

            log, mean = evidence(log_density, 1 + k + extra, i)
            beta = np.zeros(2)
            beta[chosen] = mean[1 : 1 + k]
            table.append((log + case.prior[i, k], beta))
            models.append(model)
    return summed(table, models)


def check(case, truth):
    """Compare with bounds of four Monte Carlo errors, of the chains and of the sum over models."""
    inclusion, mean = truth
    found = sampled(case)
    assert inclusion.min() > 0.1 and inclusion.max() < 0.995  # there is something to be wrong about
    ess = found.diagnoses["inclusion"].ess
    assert ess > 60
    assert np.all(np.abs(found.inclusion - inclusion) < 4 * np.sqrt(inclusion * (1 - inclusion) / ess))
    spread = found.draws.effects.toarray().std(0)
    error = spread * np.sqrt(1 / min(ess, found.diagnoses["predictions"].ess) + 1 / POINTS)
    assert np.all(np.abs(found.draws.effects.mean(0) - mean) < 4 * error)
    return found


def test_two_classes_with_weights():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 2))
    x[:, 1] = 0.7 * x[:, 0] + 0.7 * x[:, 1]
    labels = (x[:, 0] + 0.8 * rng.logistic(size=50) > 0.5).astype(int)
    weight = rng.integers(1, 3, 50).astype(float)
    case = Problem(design(x), Classes(labels, weight))

    def log_likelihood(scores, rest):
        return (weight * (labels * scores - np.logaddexp(0, scores))).sum(1)

    check(case, one_response(case, log_likelihood))


def test_counts(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 2))
    y = rng.poisson(rng.gamma(2.0, np.exp(0.5 + 0.35 * x[:, 0]) / 2.0)).astype(float)
    monkeypatch.setattr(counts, "R", R)
    case = Problem(design(x), Counts(y, np.ones(50)))

    def log_likelihood(scores, rest):
        mean = np.exp(scores)
        return logsumexp([stats.nbinom.logpmf(y, r, r / (r + mean)).sum(1) for r in R], axis=0)

    found = check(case, one_response(case, log_likelihood))
    assert found.draws.beside["r"].min() >= R[0]


def test_noise_with_heavy_tails():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 2))
    y = 0.35 * x[:, 0] + 0.2 * x[:, 1] + 0.5 * rng.standard_t(2, size=40)
    case = Problem(design(x), Student(y, np.ones(40)))

    def log_likelihood(scores, rest):
        return logsumexp([stats.t.logpdf(y, nu, scores, np.exp(rest)).sum(1) for nu in NU], axis=0)

    def prior_of_sigma(rest):  # sigma^2 ~ InverseGamma(1/2, 0.005), as a density of log sigma
        return stats.invgamma.logpdf(np.exp(2 * rest[:, 0]), 0.5, scale=0.005) + 2 * rest[:, 0]

    check(case, one_response(case, log_likelihood, 1, prior_of_sigma))


def test_three_classes():
    """One predictor: a model and a g for each class."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 1))
    labels = np.argmax(np.column_stack([x[:, 0], 0 * x[:, 0], -0.3 * x[:, 0]]) + rng.gumbel(size=(60, 3)), axis=1)
    case, z = Problem(design(x), Classes(labels, np.ones(60))), (x[:, 0] - x.mean()) / x.std()
    table, models = [], []
    for model in itertools.product([False, True], repeat=3):
        for index in itertools.product(range(3), repeat=3):
            chosen, g = np.array(model), G[list(index)]
            k = chosen.sum()

            def log_density(points, chosen=chosen, g=g, k=k):
                scores = np.repeat(points[:, :3, None], 60, axis=2)
                scores[:, chosen] += points[:, 3 : 3 + k, None] * z
                fits = (scores[:, labels, np.arange(60)] - logsumexp(scores, axis=1)).sum(1)
                return (
                    fits
                    + stats.norm.logpdf(points[:, :3], scale=10.0).sum(1)
                    + prior_of_beta(points[:, 3 : 3 + k], g[chosen])
                )

            log, mean = evidence(log_density, 3 + k, 0)
            beta = np.zeros(3)
            beta[chosen] = mean[3:]
            prior = sum(case.prior[i, int(inside)] for i, inside in zip(index, model, strict=True))
            table.append((log + prior, beta))
            models.append(model)
    check(case, summed(table, models))


def test_what_a_scan_finds_is_what_the_chain_knows(monkeypatch):
    for name, value in (("ALL", 4), ("ANCHORS", 6), ("GUESTS", 4)):
        monkeypatch.setattr(collapsed, name, value)
    rng = np.random.default_rng(4)
    x = rng.standard_normal((80, 15))
    case = Problem(design(x), Classes((4 * x[:, 0] + rng.logistic(size=80) > 0).astype(int), np.ones(80)))
    chain = Chain(AugmentedRegression(case, rng), rng)
    chain.burn_in(1000)
    w, r = chain.regression.weights, chain.regression.response
    z, state, target = case.design.columns(np.arange(15)), chain.state, chain.regression.target
    centre = np.diag(w) - np.outer(w, w) / (w.sum() + case.family.tau)
    model = target.members[state.model[: state.integers[0]]]
    assert len(model)
    g = G[state.integers[1]]
    covariance = np.linalg.inv(centre + 1e-12 * np.eye(80)) + g * z[:, model] @ z[:, model].T
    whole = np.linalg.inv(covariance)
    c, s = z.T @ whole @ r, np.einsum("ij,ik,kj->j", z, whole, z)
    expected = -0.5 * np.log(1 + g * s) + 0.5 * g * c**2 / (1 + g * s)  # sigma is known
    np.testing.assert_allclose(chain.regression.scan(state), expected, atol=1e-4)
    seen = ~np.isin(target.members, model)
    np.testing.assert_allclose(state.c[seen], c[target.members[seen]], atol=1e-5)


def slope(log_likelihood, scores):
    """Return the derivative of a log-likelihood in each row's score, by differences."""
    found = np.empty(len(scores))
    for i in range(len(scores)):
        up, down = scores.copy(), scores.copy()
        up[i], down[i] = up[i] + 1e-5, down[i] - 1e-5
        found[i] = (log_likelihood(up) - log_likelihood(down)) / 2e-5
    return found


def pulls(family, scores, active, hyper, rng, sigma=1.0):
    """Return draws of weight * (response - score), whose mean is the slope of the log-likelihood."""
    found = []
    for _ in range(4000):
        weights, response = family.weigh(scores, active, sigma, dict(hyper), rng)
        found.append(weights * (response - scores[active]))
    return np.array(found)


def agree(draws, expected):
    error = draws.std(0) / np.sqrt(len(draws)) + 1e-12
    assert np.abs((draws.mean(0) - expected) / error).max() < 4.5


def test_responses_pull_as_the_likelihood_does(monkeypatch):
    """Of two and three classes with weights, counts and Student's noise."""
    rng = np.random.default_rng(5)
    labels, weight = np.array([0, 1, 2, 1, 0, 2, 2]), np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.5])
    scores = rng.standard_normal((3, 7))

    def of_classes(row, k):
        changed = np.where(np.arange(3)[:, None] == k, row, scores)
        return weight @ (changed[labels, np.arange(7)] - logsumexp(changed, axis=0))

    for k in range(3):
        expected = slope(lambda row, k=k: of_classes(row, k), scores[k])
        agree(pulls(Classes(labels, weight), scores, k, {}, rng), expected)
    two, binary = Classes(np.minimum(labels, 1), weight), np.minimum(labels, 1)
    expected = slope(lambda row: weight @ (binary * row - np.logaddexp(0, row)), scores[0])
    agree(pulls(two, scores[:1], 0, {}, rng), expected)
    y = np.array([0.0, 3.0, 1.0, 7.0, 0.0, 2.0, 1.0])
    monkeypatch.setattr(counts, "R", np.array([1.5]))
    expected = slope(lambda row: weight @ stats.nbinom.logpmf(y, 1.5, 1.5 / (1.5 + np.exp(row))), scores[0])
    agree(pulls(Counts(y, weight), scores[:1], 0, {"r": 1.5}, rng), expected)
    monkeypatch.setattr(student, "NU", np.array([3.0]))
    expected = 0.49 * slope(lambda row: weight @ stats.t.logpdf(y, 3.0, row, 0.7), scores[0])
    agree(pulls(Student(y, weight), scores[:1], 0, {"nu": 3.0}, rng, 0.7), expected)


def test_parameters_of_families_follow_the_likelihood(monkeypatch):
    """The dispersion of counts and the degrees of freedom of noise, given the scores."""
    rng = np.random.default_rng(6)
    y, scores, weight = np.array([0.0, 3.0, 1.0, 7.0, 0.0, 2.0]), 0.5 * rng.standard_normal((1, 6)), np.ones(6)
    monkeypatch.setattr(counts, "R", R)
    of_r = [stats.nbinom.logpmf(y, r, r / (r + np.exp(scores[0]))).sum() for r in R]
    of_nu = [stats.t.logpdf(y, nu, scores[0], 1.0).sum() for nu in NU]
    cases = ((Counts(y, weight), "r", R, of_r), (Student(y, weight), "nu", NU, of_nu))
    for family, name, values, log_likelihood in cases:
        chance, hyper, found = np.exp(log_likelihood - logsumexp(log_likelihood)), family.start(rng), []
        for _ in range(4000):
            family.weigh(scores, 0, 1.0, hyper, rng)
            found.append(hyper[name])
        shares = np.array([np.mean(np.array(found) == value) for value in values])
        assert np.all(np.abs(shares - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 4000) + 1e-9)


def test_intercepts_and_changes_of_size_leave_their_distribution():
    """Without any weight of the data: the prior of the intercept and of g."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((20, 2))
    case = Problem(design(x), Classes(np.arange(20) % 2, np.ones(20)))
    regression = AugmentedRegression(case, rng)
    nothing = np.zeros(0, np.int64)
    draws = np.array([regression._intercept(nothing, np.zeros(0), 1.0, rng) for _ in range(4000)])
    scores = (draws - regression.weights @ regression.response / regression.total) * np.sqrt(regression.total)
    assert stats.kstest(scores, "norm").pvalue > 1e-3
    case.family.weight = np.zeros(20)
    chance = np.exp(case.prior[:, 0] - logsumexp(case.prior[:, 0]))
    sizes, indices = [], []
    for intercept in 10.0 * rng.standard_normal(6000):
        factor, g = regression._rescaled(np.zeros(20), intercept, 0, int(rng.choice(3, p=chance)), rng)
        sizes.append(factor * intercept / 10.0)
        indices.append(g)
    assert stats.kstest(sizes, "norm").pvalue > 1e-3
    shares = np.bincount(indices, minlength=3) / 6000
    assert np.all(np.abs(shares - chance) < 4.5 * np.sqrt(chance * (1 - chance) / 6000))
