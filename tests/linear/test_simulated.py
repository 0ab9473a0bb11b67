"""Simulated data have the properties that their descriptions promise."""

import numpy as np
import pytest
from scipy import special, stats
from sklearn.cross_decomposition import PLSRegression
from sklearn.linear_model import LassoCV, RidgeCV

from sparse_langevin.linear import simulated
from sparse_langevin.linear.simulated import autoregressive, expression, markers, respond, spectra

ALL = [autoregressive, expression, markers, spectra]
LIMIT = 4.5  # standard errors


def standardised(x):
    return (x - x.mean(0)) / x.std(0)


def of_neighbours(x):
    z = standardised(x)
    return (z[:, 1:] * z[:, :-1]).mean(0)


def error(model, data, train):
    return np.mean((model.fit(data.x[train], data.y[train]).predict(data.x[~train]).ravel() - data.y[~train]) ** 2)


@pytest.mark.parametrize("make", ALL)
def test_shapes_names_and_seeds(make):
    first, same, other = make(n=30, p=120, seed=[3, 1]), make(n=30, p=120, seed=[3, 1]), make(n=30, p=120, seed=4)
    assert first.x.shape == (30, 120) and first.y.shape == (30,) and len(set(first.names)) == 120
    assert np.isfinite(first.x).all() and np.isfinite(first.y).all()
    assert (first.x == same.x).all() and (first.y == same.y).all() and first.names == same.names
    assert not (first.x == other.x).all() and not (first.y == other.y).any()
    assert first.beta is None or (first.beta == same.beta).all()
    sequence = np.random.SeedSequence(5)
    assert (make(n=9, p=90, seed=sequence).y == make(n=9, p=90, seed=sequence).y).all()


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (
            autoregressive,
            {"effects": (0, 20), "sizes": "equal", "noise_variance": 3.0, "response": "counts", "size": 0.3},
        ),
        (expression, {"effects": 2, "signal": 1.0, "response": "classes"}),
        (markers, {"share": 0.1, "heritability": 0.2}),
        (spectra, {"noise": 1.0}),
    ],
)
def test_predictors_do_not_depend_on_the_response(make, options):
    one, other = make(n=30, p=120), make(n=30, p=120, **options)
    assert (one.x == other.x).all() and not (one.y == other.y).all()


@pytest.mark.parametrize(
    ("make", "options"), [(autoregressive, {"noise_variance": 3.0}), (markers, {}), (expression, {"signal": 0.5})]
)
def test_the_noise_is_what_beta_leaves(make, options):
    data = make(n=3000, p=150, seed=6, **options)
    left = data.y - data.x @ data.beta
    if make is expression:
        left += (data.x @ data.beta).mean()
    assert stats.kstest(left / data.noise, "norm").pvalue > 1e-3
    assert abs((left**2).mean() / data.noise**2 - 1) < LIMIT * np.sqrt(2 / 3000)


@pytest.mark.parametrize("rho", [0.0, 0.6, -0.9])
def test_correlation_by_distance(rho):
    data = autoregressive(n=4000, p=60, rho=rho, seed=2)
    place = np.arange(60)
    expected = rho ** np.abs(np.subtract.outer(place, place))
    z = (data.x.T @ data.x / 4000 - expected) / np.sqrt((1 + expected**2) / 4000)
    assert np.abs(z).max() < 5.5  # of 1830 that depend on each other


def test_numbers_and_sizes_of_effects():
    counts = [np.count_nonzero(autoregressive(n=2, effects=(2, 6), seed=seed).beta) for seed in range(300)]
    assert stats.chisquare(np.bincount(counts, minlength=7)[2:]).pvalue > 1e-3 and max(counts) == 6
    equal = autoregressive(n=2, p=400, effects=400, sizes="equal", size=2.0, noise_variance=4.0, seed=1)
    assert set(equal.beta) == {-4.0, 4.0} and equal.noise == 2.0
    normal = autoregressive(n=2, p=400, effects=300, size=2.0, noise_variance=4.0, seed=1)
    assert stats.kstest(normal.beta[normal.beta != 0] / 4, "norm").pvalue > 1e-3
    where = np.concatenate([np.flatnonzero(autoregressive(n=2, p=20, seed=seed).beta) for seed in range(200)])
    assert stats.chisquare(np.bincount(where, minlength=20)).pvalue > 1e-3
    assert not autoregressive(effects=0).beta.any()


def test_responses():
    linear = np.repeat([-1.0, 0.0, 2.0], 20_000)
    level = linear.reshape(3, -1)
    for kind, residual in (("gaussian", stats.norm), ("student", stats.t(5.0))):
        y = respond(linear, kind, noise=0.5, degrees=5.0, seed=1)
        assert stats.kstest((y - linear) / 0.5, residual.cdf).pvalue > 1e-3
    classes = respond(linear, "classes", seed=2).reshape(3, -1)
    share = special.expit(level[:, 0])
    assert set(classes.ravel()) == {0.0, 1.0}
    assert (np.abs(classes.mean(1) - share) < LIMIT * np.sqrt(share * (1 - share) / 20_000)).all()
    counts, mean = respond(linear, "counts", seed=3).reshape(3, -1), np.exp(level[:, 0])
    assert (np.abs(counts.mean(1) - mean) < LIMIT * np.sqrt(mean / 20_000)).all()
    assert (np.abs(counts.var(1) - mean) < LIMIT * np.sqrt((mean + 2 * mean**2) / 20_000)).all()
    assert set(autoregressive(response="classes").y) == {0.0, 1.0}
    assert set(expression(p=50, modules=10, response="classes").y) == {0.0, 1.0}


@pytest.mark.parametrize("seed", range(3))
def test_spectra_are_smooth_and_predict_concentrations(seed):
    data = spectra(n=300, seed=seed)
    train = np.arange(300) < 60
    assert data.beta is None and of_neighbours(data.x[train]).min() > 0.99
    part = np.linalg.svd(data.x - data.x.mean(0), compute_uv=False) ** 2
    assert part[:10].sum() / part.sum() > 0.999  # six substances, three shapes of the baseline, and the scatter
    explained = 1 - error(PLSRegression(8), data, train) / data.y[~train].var()
    best = 1 / (1 + data.noise**2)
    assert 0.75 < explained < best + 0.02


def test_parts_of_a_spectrum():
    plain = spectra(n=200, scatter=0, drift=0, instrument=0)
    assert np.linalg.matrix_rank(plain.x - plain.x.mean(0), tol=1e-9) == 6
    noisy = spectra(n=200, scatter=0, drift=0, instrument=0.5).x - plain.x
    assert stats.kstest(noisy.ravel() / 0.5, "norm").pvalue > 1e-3
    drifting = spectra(n=200, scatter=0, instrument=0).x - plain.x
    left = np.polynomial.polynomial.polyfit(np.linspace(0, 1, 400), drifting.T, 2, full=True)[1][0]
    assert np.max(left) < 1e-20 and drifting[:, 0].std() == pytest.approx(0.02, rel=LIMIT / np.sqrt(400))
    scattered = spectra(n=2000, spread=1e-9, scatter=0.05, drift=0, instrument=0).x
    gain = scattered / scattered.mean(0)
    assert gain.std(1).max() < 1e-6 and gain[:, 0].std() == pytest.approx(0.05, rel=LIMIT / np.sqrt(4000))


@pytest.mark.parametrize("copies", [1, 2])
def test_markers_are_linked_and_in_families(copies):
    data = markers(copies=copies, seed=2)
    assert set(data.x.ravel()) == set(range(copies + 1)) and (data.x.std(0) > 0).all()
    z = standardised(data.x)
    correlation = np.abs(z.T @ z / len(z))
    place = np.arange(1200)
    near = correlation[place[:-5], place[:-5] + 5]
    far = correlation[place[:-200], place[:-200] + 200]
    assert np.median(near) > 3 * np.median(far)
    kinship = np.linalg.eigvalsh(z @ z.T)[::-1]
    assert kinship[:19].sum() / kinship.sum() > 0.35  # differences between twenty families; 0.06 if unrelated


def test_heritability_and_share():
    for heritability in (0.2, 0.8):
        data = markers(share=0.25, heritability=heritability, seed=3)
        assert np.count_nonzero(data.beta) == 300
        assert (data.x @ data.beta).var() == pytest.approx(heritability)
        assert data.noise**2 == pytest.approx(1 - heritability)


def test_many_effects_favour_ridge_and_few_the_lasso():
    train = np.arange(600) < 450
    ridge, lasso = RidgeCV(np.geomspace(10, 1e4, 20)), LassoCV(alphas=20, eps=0.03, cv=3)
    gain = []
    for share in (0.3, 0.005):
        sets = [markers(share=share, seed=seed) for seed in range(2)]
        gain.append([np.log(error(lasso, data, train) / error(ridge, data, train)) for data in sets])
    assert min(gain[0]) > 0.02 and max(gain[1]) < -0.05


def test_genes_of_a_module_and_of_others():
    data = expression(n=4000, p=300, modules=4, correlation=0.5, common=0.2, seed=1)
    correlation = np.corrcoef(data.x.T)
    share = np.sort(np.linalg.eigvalsh(correlation))[::-1] / 300
    assert share[:4].sum() == pytest.approx(0.5, abs=4.5 * 0.25 / np.sqrt(3 * 300))  # r is uniform from 0.25 to 0.75
    assert share[4] < 0.02  # nothing else in common
    every = expression(n=4000, p=300, modules=1, correlation=0.5, common=0.2, seed=1).x
    assert np.corrcoef(every.T)[np.triu_indices(300, 1)].mean() == pytest.approx(0.5, abs=0.03)
    apart = expression(n=4000, p=40, modules=40, correlation=0.6, common=0.2, seed=1).x
    assert np.corrcoef(apart.T)[np.triu_indices(40, 1)].mean() == pytest.approx(0.6 * 0.2, abs=0.03)


def test_few_genes_have_an_effect():
    data = expression(seed=4)
    assert np.count_nonzero(data.beta) == 5 and (data.x @ data.beta).std() == pytest.approx(2.0)
    effect = data.beta * data.x.std(0)
    size = np.abs(effect[effect != 0])
    assert size.max() / size.min() < 1.8  # the same but for the sampling of 70 deviations
    few = expression(n=2000, p=200, modules=6, correlation=0.65, common=0.0, seed=4)
    chosen = np.flatnonzero(few.beta)
    between = np.corrcoef(few.x[:, chosen].T)[np.triu_indices(5, 1)]
    assert np.abs(between).max() < 0.15  # all in different modules


def test_tails():
    assert abs(stats.skew(standardised(expression(n=500, p=500).x).ravel())) < 0.1
    assert stats.skew(standardised(expression(n=500, p=500, tail=0.5).x).ravel()) > 1.2


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (spectra, {"n": 1}, "n must be at least 2, got 1"),
        (markers, {"p": 0}, "p must be at least 2, got 0"),
        (autoregressive, {"rho": 1.0}, "rho must be between -1 and 1, got 1.0"),
        (
            autoregressive,
            {"effects": 300},
            r"effects must be at most the 200 predictors, or a range up to that, got 300",
        ),
        (autoregressive, {"effects": (5, 2)}, r"effects must be .*, got \(5, 2\)"),
        (autoregressive, {"sizes": "small"}, "sizes must be 'normal' or 'equal', got 'small'"),
        (
            autoregressive,
            {"response": "times"},
            "response must be one of gaussian, student, classes, counts, got 'times'",
        ),
        (
            autoregressive,
            {"response": "counts", "size": 50.0},
            "counts need a linear predictor below 30: choose smaller",
        ),
        (autoregressive, {"noise_variance": 0.0}, "noise_variance must be positive, got 0.0"),
        (spectra, {"drift": -1.0}, "drift must not be negative, got -1.0"),
        (markers, {"families": 1}, "families must be at least 2, got 1"),
        (markers, {"copies": 3}, "copies must be 1 or 2, got 3"),
        (markers, {"heritability": 1.0}, "heritability must be between 0 and 1, got 1.0"),
        (expression, {"modules": 5000}, "modules must be between 1 and the 4000 genes, got 5000"),
        (expression, {"correlation": 0.9}, "correlation must be between 0 and 0.65, got 0.9"),
    ],
)
def test_impossible_options_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_public_names():
    assert all(hasattr(simulated, name) for name in simulated.__all__)
