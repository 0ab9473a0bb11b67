"""What is found in a table, against enumeration, least squares, and what is true."""

import csv
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

from sparse_langevin import SparseBayesCountRegressor, SparseBayesRegressor
from sparse_langevin.linear.groups import Groups
from sparse_langevin.linear.tables import design, figures, score, selection
from sparse_langevin.linear.tables.design import groups_of, predictors
from sparse_langevin.linear.tables.effects import Draws
from sparse_langevin.linear.tables.families import FAMILIES, family_for
from sparse_langevin.linear.tables.files import selection_csv, selection_json
from sparse_langevin.linear.tables.findings import shortened, width, with_unit
from sparse_langevin.linear.tables.kinds import Column
from sparse_langevin.linear.tables.page import selection_page, sentences, tables_of
from sparse_langevin.linear.tables.quiet import fitted_quietly
from sparse_langevin.linear.tables.score import folds_for
from sparse_langevin.linear.tables.selection import Settings, select_variables
from sparse_langevin.linear.tables.table import Table, Target
from sparse_langevin.reports.page import png
from tests.linear.test_collapsed import problem, weighed

NUMBERS, CLASSES, COUNTS = FAMILIES["gaussian"], FAMILIES["classes"], FAMILIES["counts"]


def table(columns, y, unit=""):
    numeric = np.asarray(y).dtype.kind == "f"
    target = Target("y", np.array([str(v) for v in y]), np.asarray(y) if numeric else None, unit)
    return Table("t.csv", target, columns, [])


def numbers(x):
    return [Column(f"x{j}", np.ascontiguousarray(x[:, j])) for j in range(x.shape[1])]


@pytest.mark.parametrize("grouped", [True, False])
def test_the_probability_of_a_category_is_that_of_all_models_with_it(grouped, monkeypatch):
    """As a group it counts as one effect. In large tables it does not, and any of its levels may be in a model."""
    monkeypatch.setattr(design, "MOST_GROUPED", 6 if grouped else 5)
    rng = np.random.default_rng(4)
    k = rng.integers(4, size=70)
    x = rng.standard_normal((70, 2))
    y = 0.6 * (k == 1) - 0.5 * (k == 3) + 0.4 * x[:, 0] + rng.standard_normal(70)
    columns = [Column("k", k.astype(float), ("a", "b", "c", "d")), *numbers(x)]
    found = select_variables(table(columns, y), Settings(folds=0))
    labels = np.array([0, 0, 0, 0, 1, 2])
    groups = Groups.of(labels) if grouped else None
    case = problem(predictors(columns, [c.values for c in columns]), y, True, groups=groups)
    models, weight = weighed(case, labels=labels)
    weight = weight.sum((1, 2))
    group = weight[models[:, :4].any(1)].sum()
    by_name = {item.name: item for item in found.items}
    assert 0.2 < group < 0.95
    assert by_name["k"].probability == pytest.approx(group, abs=0.03)
    assert grouped or group - (weight @ models[:, :4]).max() > 0.06
    assert found.any_effect == pytest.approx(weight[models.any(1)].sum(), abs=0.03)


def test_which_predictors_are_in_the_models():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 8))
    x[:, 2] = 7.0
    y = 1.5 * x[:, 6] + 0.4 * x[:, 1] + rng.standard_normal(50)
    model = SparseBayesRegressor("gibbs", random_state=0).fit(x, y)
    inside = model.inclusion_samples_
    assert inside.dtype == bool and inside.shape[1] == 8 and inside.shape[0] >= len(model.coef_samples_)
    np.testing.assert_allclose(inside.mean(0), model.inclusion_probability_, atol=0.05)
    assert inside[:, [2]].sum() == 0 and inside[:, [6]].mean() > 0.99
    constant = SparseBayesRegressor("gibbs").fit(x, np.ones(50))
    assert constant.inclusion_samples_.shape == (1, 8) and constant.inclusion_samples_.nnz == 0


def test_effects_in_units_and_standardised_are_those_of_least_squares():
    """With little noise, and classes of unequal size."""
    rng = np.random.default_rng(1)
    k, sex, x = rng.choice(3, 400, p=[0.5, 0.3, 0.2]), rng.integers(2, size=400), 30 * rng.standard_normal(400)
    y = np.array([1.0, 2.0, 4.0])[k] - 3.0 * sex + 0.02 * x + 0.05 * rng.standard_normal(400)
    columns = [
        Column("k", k.astype(float), ("a", "b", "c")),
        Column("sex", sex.astype(float), ("f", "m")),
        Column("x", x, (), "mg"),
    ]
    found = select_variables(table(columns, y, "mm"), Settings(folds=0))
    items = {item.name: item for item in found.items}
    matrix = np.column_stack([k == 0, k == 1, k == 2, sex, x]).astype(float)
    beta = np.linalg.lstsq(matrix, y, rcond=None)[0]
    share = np.bincount(k) / 400
    levels = items["k"].effects
    assert [e.mean for e in levels] == pytest.approx(beta[:3] - share @ beta[:3], abs=0.01)
    assert [e.rows for e in levels] == list(np.bincount(k)) and levels[0].against == "the average row"
    assert items["sex"].main.mean == pytest.approx(beta[3], abs=0.01) and items["sex"].label == "sex: m instead of f"
    assert items["sex"].main.standardised == pytest.approx(beta[3] / y.std(), rel=0.01)
    assert items["x"].main.mean == pytest.approx(beta[4], rel=0.01)
    assert items["x"].main.standardised == pytest.approx(beta[4] * x.std() / y.std(), rel=0.01)
    assert "Correlation of the chosen columns" in selection_page(found)
    one = selection_page(
        replace(found, items=[items["x"], *(replace(items[k], probability=0.1) for k in ("k", "sex"))])
    )
    assert "Correlation of the most probable columns" in one
    assert found.effect_is == "y (mm)" and found.headline == "3 of 3 columns matter for y (400 rows of t.csv)"
    assert all(e.lower < e.mean < e.upper for item in found.items for e in item.effects)


@pytest.mark.parametrize("family", ["gaussian", "classes", "counts"])
def test_a_category_without_effect_is_not_probable_for_its_many_levels(family):
    """Were its ten levels on their own, any of them would be in the model with probability 0.7 or so."""
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((150, 3)), rng.integers(10, size=150)
    eta = x @ [1.0, 0.6, 0.0] + rng.standard_normal(150)
    y = {"gaussian": eta, "classes": np.where(eta > 0, "b", "a"), "counts": rng.poisson(np.exp(eta)) * 1.0}[family]
    columns = [Column("k", k.astype(float), tuple("abcdefghij")), *numbers(x)]
    found = {item.name: item for item in select_variables(table(columns, y), Settings(family, folds=0)).items}
    assert found["k"].probability < 0.15 and found["x0"].probability > 0.95


@pytest.fixture(scope="module")
def twins():
    """One effect that two columns may have, and values that are missing."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((80, 6))
    x[:, 4] = x[:, 1] + 0.03 * rng.standard_normal(80)
    y = 2 * x[:, 1] - x[:, 3] + rng.standard_normal(80)
    x[rng.random((80, 6)) < 0.03] = np.nan
    told = []
    found = select_variables(
        table(numbers(x), y), Settings(folds=4), lambda done, total, text: told.append((done, total))
    )
    return x, y, found, told


def test_columns_that_stand_for_one_effect_are_named(twins):
    _, _, found, told = twins
    (one,) = found.sets
    assert set(one.names) == {"x1", "x4"} and one.probability > 0.95 and one.purity > 0.95
    assert "x1 or x4" in "".join(row[0] for row in tables_of(found)[-1].rows) + "x4 or x1" * (one.names[0] == "x4")
    assert told == [(i, 9) for i in range(10)]
    assert set(found.correlated) == {"x1", "x3", "x4"} and np.abs(np.diag(found.correlation) - 1).max() < 1e-9


def test_missing_values_are_filled_in_or_left_out_as_asked(twins):
    x, y, found, _ = twins
    rows, cells = int(np.isnan(x).any(1).sum()), int(np.isnan(x).sum())
    assert f"{cells} values are missing in {rows} of 80 rows" in found.read[0] and found.rows == 80
    dropped = select_variables(table(numbers(x), y), Settings(missing="drop", folds=0))
    assert dropped.rows == 80 - rows and "These rows were left out" in dropped.read[0]
    few = x.copy()
    few[np.flatnonzero(np.isnan(x).any(1))[4:]] = 0.0
    assert select_variables(table(numbers(few), y), Settings(folds=0)).rows == 76
    with pytest.raises(ValueError, match="--missing impute or --missing drop, or leave columns out: --ignore x0"):
        select_variables(table(numbers(x), y), Settings(missing="error"))
    x[1:, 0] = np.nan
    with pytest.raises(ValueError, match="1 row would be left: take --missing impute"):
        select_variables(table(numbers(np.where(np.arange(80)[:, None] > 0, np.nan, 1.0)), y), Settings(missing="drop"))


def test_the_score_is_that_of_predictions_of_other_rows(twins):
    _, y, found, _ = twins
    validation = found.validation
    r2 = validation.score
    assert r2.value == pytest.approx(r2_score(y, validation.predicted), abs=0.03) and 0.6 < r2.value < 0.9
    rng, again = np.random.default_rng(0), []
    for _ in range(2000):  # the bootstrap
        some = rng.integers(len(y), size=len(y))
        again.append(r2_score(y[some], validation.predicted[some]))
    assert r2.error == pytest.approx(np.std(again), rel=0.25)
    assert f"an R2 of {r2.value:.2f} ± {r2.error:.2f} (4-fold" in found.remarks[0]


def test_the_expected_number_of_false_columns_is_told(twins):
    """The sum of the probabilities that a chosen column has none, to the next whole number."""
    found = twins[2]

    def told(*probabilities):
        items = [replace(found.items[0], probability=p) for p in probabilities]
        return [text for text in sentences(replace(found, items=items)) if "have no effect after all" in text]

    assert told(0.9, 0.6, 0.75, 0.52, 0.1, 0.3)[0].startswith("Of the 4 columns above the threshold, about 1 can")
    assert told(*[0.6] * 10, 0.2)[0].startswith("Of the 10 columns above the threshold, about 4 can")
    assert not told(0.99, 0.9, 0.8) and not told(0.1)


def test_noise_is_not_predicted_and_nothing_is_found_in_it():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((40, 50)), rng.standard_normal(40)
    found = select_variables(table(numbers(x), y), Settings())
    assert found.validation.score.value < 0.1
    assert "that is not better than predicting the mean of y for every row" in " ".join(found.remarks)
    assert found.headline == "none of 50 columns could be told apart from no effect on y (40 rows of t.csv)"
    assert "No column could be told apart" in sentences(found)[0] and not tables_of(found)


def test_with_six_rows_nothing_is_claimed():
    rng = np.random.default_rng(0)
    found = select_variables(table(numbers(rng.standard_normal((6, 73))), rng.standard_normal(6)), Settings())
    assert found.validation is None and found.headline.startswith("none of 73 columns could be told apart")
    assert "With 6 rows nothing can be said" in " ".join(sentences(found))


def test_small_effects_of_all_columns_are_mentioned():
    rng = np.random.default_rng(9)
    x = rng.standard_normal((100, 120))
    y = x @ rng.standard_normal(120) / 7 + rng.standard_normal(100)
    found = select_variables(table(numbers(x), y), Settings(folds=0))
    assert found.small_effects > 0.5 and "all columns together have small effects" in " ".join(sentences(found))


def test_warnings_that_differ_in_their_numbers_are_one():
    settled = [f"after {steps} steps chains have not settled. sigma: R-hat 1.0{steps}" for steps in (90, 80)]
    outlier = "the target in line 3 lies 7.5 standard deviations from its mean"
    assert selection._told([settled[0], outlier, settled[1], outlier], 5) == [
        f"2 of 5 fits gave a warning; the first one: {settled[0]}",
        f"A warning of the fit: {outlier}",
    ]
    assert selection._told([outlier], 1) == [f"A warning of the fit: {outlier}"]


def test_draws_of_several_fits_count_alike():
    fits = [
        Draws([""], [np.full((2, 1), 1.0)], sparse.csr_array([[True], [True]]), np.array([1.0])),
        Draws([""], [np.zeros((2, 1))], sparse.csr_array([[False], [True]]), np.array([0.5])),
    ]
    fits = [replace(fits[0], small_effects=0.4), fits[1]]
    pooled = selection._pooled(fits)
    assert pooled.small_effects == pytest.approx(0.2)
    assert (
        pooled.probability == [0.75]
        and pooled.any_effect == 0.75
        and pooled.effects[0].tolist() == [[1], [1], [0], [0]]
    )


def test_r2_is_that_of_scikit_learn_wherever_zero_is():
    rng = np.random.default_rng(0)
    y = 100 + rng.standard_normal(50)
    predicted = y + 0.5 * rng.standard_normal(50)
    found = NUMBERS.score(y, predicted, np.full(50, y.mean()))
    assert found.value == pytest.approx(r2_score(y, predicted))


def test_rows_to_be_predicted_do_not_know_their_target():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    x[rng.random(x.shape) < 0.2] = np.nan
    train, test = np.arange(30), np.arange(30, 40)
    changed = np.append(y[:30], y[30:] + 9)
    once, again = (
        score._completed(table(numbers(x), v), NUMBERS, v, train, test, np.random.default_rng(0)) for v in (y, changed)
    )
    np.testing.assert_array_equal(once[0], again[0])
    np.testing.assert_array_equal(once[1], again[1])
    assert once[0].shape == (30, 3) and len(once[1]) == 5 and once[1][0].shape == (10, 3)


def test_what_matters_though_it_cannot_be_told_which(monkeypatch):
    """As it would be if no set of columns could be named."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((60, 4))
    x[:, 2] = x[:, 1]
    y = 2 * x[:, 1] + rng.standard_normal(60)
    monkeypatch.setattr(selection, "_sets", lambda *_: [])
    found = select_variables(table(numbers(x), y), Settings(threshold=0.9, folds=0))
    assert found.headline == "some of 4 columns matter for y, but it cannot be told which (60 rows of t.csv)"
    assert found.together in (["x1"], ["x2"]), found.together
    assert sentences(found)[0].startswith("Together, x")


def test_short_chains_predict_as_long_ones_do():
    rng = np.random.default_rng(6)
    x, new = rng.standard_normal((2, 80, 50)) + 0.7 * rng.standard_normal((2, 80, 1))
    y = x[:, :4].sum(1) + rng.standard_normal(80)
    models = [NUMBERS.estimator({"random_state": 0}, short=short) for short in (False, True)]
    long, short = (fitted_quietly(model, x, y)[0].predict(new) for model in models)
    assert np.sqrt(np.mean((short - long) ** 2)) < 0.1


@pytest.mark.parametrize("classes", [2, 3])
def test_an_effect_on_classes_is_a_change_of_log_odds(classes):
    """Of the class that is named against the (geometric) mean of the others."""
    rng = np.random.default_rng(7)
    rows = 1 if classes == 2 else classes
    w = rng.standard_normal((1, rows, 5))
    names, draws = CLASSES.effects(SimpleNamespace(coef_samples_=w, classes_=np.array(list("abc")[:classes])), 10)
    full = np.vstack([np.zeros(5), w[0]]) if classes == 2 else w[0]

    def log_odds(x, k):
        p = np.exp(full @ x) / np.exp(full @ x).sum()
        return np.log(p[k]) - np.mean(np.delete(np.log(p), k))

    x, step = rng.standard_normal(5), np.eye(5)
    for name, block in zip(names, draws, strict=True):
        k = "abc".index(name)
        assert block[0] == pytest.approx([log_odds(x + step[j], k) - log_odds(x, k) for j in range(5)])
    assert names == (["b"] if classes == 2 else ["a", "b", "c"])


def test_classes():
    rng = np.random.default_rng(8)
    x = rng.standard_normal((120, 5))
    k = rng.integers(3, size=120)
    y = np.where(2 * x[:, 1] + 2.0 * (k == 2) + rng.logistic(size=120) > 0.7, "sick", "healthy")
    columns = [*numbers(x), Column("k", k.astype(float), ("u", "v", "w"))]
    found = select_variables(table(columns, y), Settings(folds=3))
    assert {item.name for item in found.chosen} >= {"x1", "k"}
    items = {item.name: item for item in found.items}
    assert items["x1"].main.mean > 0.8 and items["x1"].speaks_for == "sick" and items["k"].main.level == "w"
    assert "the log-odds of 'sick'" in " ".join(sentences(found))
    predicted = np.unique(y)[found.validation.predicted.argmax(1)]
    assert found.validation.score.value == accuracy_score(y, predicted) > 0.7
    assert found.validation.score.baseline == pytest.approx(np.unique(y, return_counts=True)[1].max() / 120)
    page = selection_page(found)
    assert page.count("data:image/png;base64,") == 3 and "http" not in page


def test_counts():
    rng = np.random.default_rng(9)
    x = rng.standard_normal((100, 4))
    y = rng.poisson(np.exp(1 + 0.8 * x[:, 2])) * 1.0
    found = select_variables(table(numbers(x), y), Settings("counts", folds=2))
    assert [item.name for item in found.chosen] == ["x2"]
    main = found.chosen[0].main
    assert main.mean == pytest.approx(0.8, abs=0.15)
    assert main.standardised == pytest.approx(main.mean * x[:, 2].std())
    score = found.validation.score
    assert score.name == "D2" and 0.3 < score.value < 1 and 0 < score.error < 0.3
    assert score.value == pytest.approx(d2_tweedie_score(y, found.validation.predicted, power=1), abs=0.02)
    told = " ".join(sentences(found))
    assert "the logarithm of the mean of y" in told and "explained share of the Poisson deviance" in told
    assert selection_page(found).count("data:image/png;base64,") == 3
    assert COUNTS.score(y, y + 1e-12, np.full(100, y.mean())).value == pytest.approx(1.0)


def test_the_logarithm_of_times_stands_for_an_exposure():
    """As the report advises: its effect is near one, and the other effect is that of a fit that knows the times."""
    rng = np.random.default_rng(4)
    x, times = rng.standard_normal((150, 2)), rng.uniform(1, 30, 150)
    y = rng.poisson(times * np.exp(0.6 * x[:, 0] - 1)) * 1.0
    found = select_variables(table([*numbers(x), Column("log t", np.log(times))], y), Settings("counts", folds=0))
    items = {item.name: item for item in found.items}
    known = SparseBayesCountRegressor(random_state=0).fit(x, y, exposure=times)
    assert items["log t"].main.lower < 1 < items["log t"].main.upper
    assert items["x0"].main.mean == pytest.approx(known.coef_[0], abs=0.05)
    assert "give the logarithm of these as a column" in " ".join(sentences(found))


@pytest.mark.parametrize(
    ("y", "asked", "used", "noticed"),
    [
        (np.linspace(0, 1, 30), "auto", "gaussian", ""),
        (np.arange(30) % 5 + 1.0, "auto", "gaussian", "as grades do"),
        (np.arange(30) % 5 + 1.0, "classes", "classes", ""),
        (np.random.default_rng(0).poisson(4, 60) * 1.0, "auto", "gaussian", "looks like counts"),
        (np.random.default_rng(0).poisson(4, 60) * 1.0, "auto", "gaussian", "--family counts takes counts as such"),
        (np.random.default_rng(0).poisson(4, 60) * 1.0, "counts", "counts", ""),
        (np.arange(30) % 2 * 1.0, "auto", "classes", ""),
        (np.exp(np.linspace(0, 12, 40)), "auto", "gaussian", "its logarithm"),
        (1990.0 + np.arange(40), "auto", "gaussian", ""),
        (["a", "b"] * 10, "auto", "classes", ""),
    ],
)
def test_kinds_of_targets(y, asked, used, noticed):
    family, text = family_for(table([], y).target, asked)
    assert family == used and (noticed in text if noticed else not text)


def test_what_does_not_suit_a_family():
    with pytest.raises(ValueError, match="--family gaussian needs numbers"):
        NUMBERS.response(table([], ["a", "b"]).target)
    with pytest.raises(ValueError, match="has 60 different values, and at most 50 classes"):
        CLASSES.response(table([], np.arange(60.0)).target)
    with pytest.raises(ValueError, match=r"holds '0\.5', but --family counts needs whole numbers from 0 on"):
        COUNTS.response(table([], np.array([1.0, 0.5])).target)
    with pytest.raises(ValueError, match="--family counts needs numbers"):
        COUNTS.response(table([], ["a", "b"]).target)
    with pytest.raises(ValueError, match="must be auto or one of gaussian, student, classes, counts, got 'poisson'"):
        family_for(table([], np.arange(60.0)).target, "poisson")


@pytest.mark.parametrize(
    ("y", "wanted", "folds", "why"),
    [
        (np.arange(9.0), 5, 0, "With 9 rows nothing can be said"),
        (np.arange(10.0), 5, 5, ""),
        (np.arange(30.0), 0, 0, "was not looked at"),
        (np.array(["a"] * 20 + ["b"]), 5, 0, "The class 'b' has one row only"),
        (np.array(["a"] * 20 + ["b"] * 3), 5, 3, ""),
    ],
)
def test_folds(y, wanted, folds, why):
    found, text = folds_for(y, y.dtype.kind == "f", wanted)
    assert found == folds and (why in text if why else not text)


def test_csv_and_json_have_the_numbers_of_the_result(twins):
    found = twins[2]
    rows = list(csv.DictReader(io.StringIO(selection_csv(found).decode())))
    stored = json.loads(selection_json(found))
    assert (
        [row["column"] for row in rows] == [item.name for item in found.items] == [c["name"] for c in stored["columns"]]
    )
    for row, item, entry in zip(rows, found.items, stored["columns"], strict=True):
        e = item.main
        assert [float(row[key]) for key in ("probability", "effect", "lower", "upper", "standardised")] == [
            *(item.probability, e.mean, e.lower, e.upper, e.standardised)
        ]
        assert entry["probability"] == item.probability and entry["effects"][0]["lower"] == e.lower
        assert row["set"] == ("1" if item.name in found.sets[0].names else "")
        assert (row["chosen"] == "true") == entry["chosen"] == (item.probability > 0.5)
    assert stored["sets"][0]["columns"] == found.sets[0].names and stored["headline"] == found.headline


def test_an_outlier_is_named_by_its_line_and_counts_for_little_if_asked():
    """As for the estimator with Student's noise, whose number of the row is another one."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 4))
    y = x[:, 1] + 0.3 * rng.standard_normal(60)
    y[20] = 30.0
    x[3, 0] = np.nan
    whole = replace(table(numbers(x), y), lines=list(range(12, 72)))
    usual, heavy = (select_variables(whole, Settings(family, "drop", folds=0)) for family in ("gaussian", "student"))
    (told,) = [text for text in usual.remarks if "standard deviations of the noise" in text]
    assert "the target in line 32 lies" in told and "take --family student" in told and "observation" not in told
    assert not any("standard deviations of the noise" in text for text in heavy.remarks)
    rows = np.arange(60) != 3
    model = SparseBayesRegressor(noise="student", random_state=0).fit(x[rows], y[rows])
    main = next(item for item in heavy.items if item.name == "x1").main
    assert main.mean == pytest.approx(model.coef_[1], abs=0.02) and main.mean == pytest.approx(1, abs=0.15)
    assert heavy.family == "student" and "in standard deviations" in " ".join(sentences(heavy))


def test_chains_are_as_long_as_asked_and_the_advice_can_be_followed():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 20))
    y = x @ rng.standard_normal(20) / 3 + rng.standard_normal(60)
    found = select_variables(table(numbers(x), y), Settings(folds=0, max_steps=200))
    (told,) = [text for text in found.remarks if "have not settled" in text]
    assert "(--max-steps)" in told and "--seed" in told and "max_steps" not in told.replace("--max-steps", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *(("a" * 20, "a" * 20), ("gene " + "x" * 30 + " wild", "gene xxxxxxxxx… wild"), ("日本" * 5, "日本" * 5)),
        ("日本語" * 7, "日本語日本語日…本語"),
    ],
)
def test_long_names_keep_their_ends(text, shown):
    assert shortened(text, 20) == shown and width(shown) <= 20


def test_labels_are_inside_of_the_pictures():
    """However long names and classes are: nothing of them is cut off at the edge, and axes have room."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    columns = [Column("pressure of the " + "n" * 80 + str(j), x[:, j]) for j in range(3)]
    y = [f"class of {'x' * 30} {k}" for k in np.digitize(x[:, 0], [-0.5, 0.5])]
    found = select_variables(table(columns, y), Settings(folds=2, max_steps=200))
    for draw in (figures.inclusion_and_effects, figures.correlation, figures.predictions):
        figure = draw(found)
        png(figure)
        box, edge = figure.get_tightbbox(), figure.bbox_inches
        assert box.x0 >= -0.02 and box.y0 >= -0.02 and box.x1 <= edge.x1 + 0.02 and box.y1 <= edge.y1 + 0.02, draw
        assert all(axes.get_window_extent().width > 100 for axes in figure.axes[:1]), draw
    assert all(width(row[0]) < 70 for shown in tables_of(found) for row in shown.rows)


@pytest.mark.parametrize(
    ("value", "error", "digits", "unit", "shown"),
    [
        *(
            (0.974, 0.0034, 2, "", "0.974 ± 0.003"),
            (0.5, 0.05, 2, "", "0.50 ± 0.05"),
            (-0.001, 0.02, 2, "", "0.00 ± 0.02"),
        ),
        *(
            (97.1, 1.2, 0, " %", "97 % ± 1 %"),
            (99.9, 0.3, 0, " %", "99.9 % ± 0.3 %"),
            (1.0, 0.0, 2, "", "1.00000 ± 0.00000"),
        ),
    ],
)
def test_scores_are_written_with_the_digits_of_their_error(value, error, digits, unit, shown):
    assert score._with_error(value, error, digits, unit) == shown


@pytest.mark.parametrize(
    ("name", "unit", "shown"),
    [
        *(("y", "", "y"), ("y", "mm", "y (mm)"), ("Erlös in €", "€", "Erlös in €"), ("mass [kg]", "kg", "mass [kg]")),
        *(("mg per day", "g", "mg per day (g)"), ("share (%)", "%", "share (%)")),
    ],
)
def test_a_unit_is_named_once(name, unit, shown):
    assert with_unit(name, unit) == shown
    target = Target(name, np.array(["1", "2"]), np.array([1.0, 2.0]), unit)
    assert NUMBERS.effect_is(target) == shown and COUNTS.effect_is(target).endswith(f"of {shown}")


def test_groups():
    columns = [
        Column("a", np.zeros(2)),
        Column("b", np.zeros(2), ("u", "v")),
        Column("c", np.zeros(2), ("x", "y", "z")),
    ]
    assert [list(group.places) for group in groups_of(columns)] == [[0], [1], [2, 3, 4]]
    values = [np.array([5.0, 6.0]), np.array([1.0, 0.0]), np.array([2.0, 0.0])]
    assert predictors(columns, values).tolist() == [[5, 1, 0, 0, 1], [6, 0, 1, 0, 0]]
