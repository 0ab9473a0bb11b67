"""Rows of the table, worked out by hand."""

import math

import pytest

from sparse_langevin.studies.regression_table import make_table


def record(mse, true=2, false=0, covers=(True, False), rhat=1.0, seconds=1.0):
    effects = [{"covers": value} for value in covers]
    kept = {"mse": mse, "mae": mse / 2, "chosen_true": true, "chosen_false": false, "effects": effects}
    return kept | {"rhat": rhat, "ess": 10.0, "seconds": seconds}


def rows(records):
    return {(row["test"], row["contender"]): row for row in make_table(records)}


def test_counts_means_and_paired_differences():
    oracle = record(2.0, rhat=None)
    records = {
        (1, 0): {"psgld-sa": record(3.0, false=1), "oracle": oracle, "emvs": record(2.5)},
        (1, 1): {
            "psgld-sa": record(5.0, false=2, covers=(True, True), rhat=1.5),
            "oracle": oracle,
            "emvs": record(4.5),
        },
        (1, 2): {"psgld-sa": record(4.0, true=1, covers=(False, True)), "oracle": oracle},
        (2, 0): {"oracle": oracle},
    }
    table = rows(records)
    assert set(table) == {(1, "psgld-sa"), (1, "oracle"), (1, "emvs"), (2, "oracle")}
    row = table[1, "psgld-sa"]
    assert (row["replicates"], row["good"], row["mean_false"]) == (3, 1, 1.0)
    assert (row["covered_beta_1"], row["covered_beta_2"]) == (2, 2)
    assert row["mse"] == 4.0 and row["mse_se"] == pytest.approx(1 / math.sqrt(3)) and row["mae"] == 2.0
    assert row["mse_over_oracle"] == 2.0 and row["mse_over_oracle_se"] == pytest.approx(0.5 / math.sqrt(3))
    assert row["mse_minus_emvs"] == 0.5 and row["mse_minus_emvs_se"] == 0.0
    assert row["mse_minus_ard"] is None and table[1, "emvs"]["mse_minus_emvs"] is None
    assert row["worst_rhat"] == 1.5 and row["median_ess"] == 10.0 and row["mean_seconds"] == 1.0
    assert table[2, "oracle"]["mse_se"] is None and table[2, "oracle"]["worst_rhat"] is None


def test_contenders_that_select_nothing_have_no_count():
    none = record(3.0) | {"chosen_true": None, "chosen_false": None, "effects": None, "rhat": math.nan}
    row = rows({(1, 0): {"sgld": none}})[1, "sgld"]
    names = ("good", "mean_false", "covered_beta_1", "mse_over_oracle", "worst_rhat")
    assert all(row[name] is None for name in names)
