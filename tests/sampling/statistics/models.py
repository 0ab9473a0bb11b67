"""Data and constants of the models that are held against NUTS; `benchmarks.references` samples the same."""

import numpy as np
from sklearn.datasets import load_breast_cancer

# Rubin (1981): effects of coaching and their standard errors.
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCALE = 10.0  # prior deviation of mu
LOG_TAU = (1.5, 1.0)  # prior mean and deviation of log tau

WIDTH, NOISE = 50, 0.1
PRIOR = {"w1": 2.0, "b1": 2.0, "w2": WIDTH**-0.5, "b2": 1.0}  # prior deviations
GRID = np.linspace(-2.0, 2.0, 41)
GAP = np.abs(GRID) < 0.45
ON_DATA = (np.abs(GRID) > 0.65) & (np.abs(GRID) < 1.75)


def breast_cancer():
    """Standardised predictors with a column of ones, and labels."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    return np.column_stack([np.ones(len(x)), x]), y.astype(float)


def gap_data():
    """Sixty observations of a curve on both sides of a gap."""
    rng = np.random.default_rng(5)
    x = rng.uniform(0.6, 1.8, 60) * np.repeat([-1.0, 1.0], 30)
    return x, np.sin(2.5 * x) * 0.8 + NOISE * rng.normal(size=60)
