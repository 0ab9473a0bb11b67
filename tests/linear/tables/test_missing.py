"""Missing values, against scikit-learn's chained equations and against what is true."""

import numpy as np
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LinearRegression

from sparse_langevin.linear.tables.kinds import Column
from sparse_langevin.linear.tables.missing import fill, incomplete


def gaps(n, seed):
    """Values that are missing where the target is large, so that the other rows alone would mislead."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    x = np.column_stack([z[:, 0], 0.8 * z[:, 0] + 0.6 * z[:, 1], z[:, 2]])
    y = x[:, 0] + x[:, 1] + 0.5 * rng.standard_normal(n)
    x[(y > 0.3) & (rng.random(n) < 0.8), 1] = np.nan
    x[rng.random(n) < 0.1, 2] = np.nan
    return x, y


def of(x):
    return [Column(f"x{j}", x[:, j]) for j in range(x.shape[1])]


def test_regressions_on_filled_values_are_those_of_chained_equations():
    x, y = gaps(1500, 0)
    ours, theirs = [], []
    for seed in range(10):
        filled = np.column_stack(fill(of(x), y[:, None], np.random.default_rng(seed)))
        np.testing.assert_array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
        ours.append([*LinearRegression().fit(filled, y).coef_, filled[:, 1].mean(), filled[:, 1].std()])
        imputer = IterativeImputer(sample_posterior=True, random_state=seed, max_iter=10)
        filled = imputer.fit_transform(np.column_stack([x, y]))
        theirs.append([*LinearRegression().fit(filled[:, :3], y).coef_, filled[:, 1].mean(), filled[:, 1].std()])
    true = [1.0, 1.0, 0.0, 0.0, 1.0]
    assert np.abs(np.mean(theirs, 0) - true).max() < 0.1
    assert np.abs(np.mean(ours, 0) - true).max() < 0.1
    assert np.abs(np.mean(ours, 0) - np.mean(theirs, 0)).max() < 0.05
    assert x[~incomplete(of(x)), 1].mean() < -0.3
    ratio = np.std(ours, axis=0)[[1, 3]] / np.std(theirs, axis=0)[[1, 3]]
    assert (ratio > 0.4).all() and (ratio < 2.5).all()


def test_numbers_stay_whole_and_categories_are_learned_from_the_others():
    rng = np.random.default_rng(1)
    code = rng.integers(3, size=300).astype(float)
    x = 4 * code + rng.standard_normal(300)
    whole = np.round(2 * x)
    truth = code.copy()
    code[rng.random(300) < 0.3] = np.nan
    whole[rng.random(300) < 0.3] = np.nan
    columns = [Column("k", code, ("a", "b", "c")), Column("whole", whole), Column("x", x)]
    filled = fill(columns, np.empty((300, 0)), rng)
    gone = np.isnan(code)
    assert (filled[0][gone] == truth[gone]).mean() > 0.85
    assert np.isin(filled[1], whole).all() and np.abs(filled[1] - 2 * x)[np.isnan(whole)].mean() < 2.5


def test_only_donors_are_learned_from():
    """Whatever stands in the other rows."""
    x, y = gaps(200, 2)
    donors = np.arange(200) < 150
    once = np.column_stack(fill(of(x), y[:, None], np.random.default_rng(0), donors))
    changed, target = x.copy(), y.copy()
    changed[150:] *= 100
    target[150:] -= 5
    again = np.column_stack(fill(of(changed), target[:, None], np.random.default_rng(0), donors))
    np.testing.assert_array_equal(once[:150], again[:150])
    taken = again[150:][np.isnan(x[150:])]
    assert np.isin(taken, x[:150]).all()


@pytest.mark.parametrize("n", [4, 12])
def test_more_columns_than_rows(n):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, 200))
    gone = rng.random(x.shape) < 0.1
    gone[:2] = False
    x[gone] = np.nan
    filled = np.column_stack(fill(of(x), rng.standard_normal((n, 1)), rng))
    assert np.isfinite(filled).all()
