"""The regression study: end to end with short chains, and after a stop."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sparse_langevin.runtime.interrupts import Interrupted
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.studies import regression_data, regression_paper
from sparse_langevin.studies.regression import Extent, load, run
from sparse_langevin.studies.regression_contenders import LABELS, Lengths, fit_record
from sparse_langevin.studies.regression_report import write_report
from sparse_langevin.studies.regression_table import make_table

SHORT = Lengths(burn_in=100, max_steps=200, paper_steps=80, paper_burn_in=20)
EXTENT = Extent(replicates=2, paper_replicates=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    run(EXTENT, folder, SHORT, workers=0)
    return folder


def without_times(rows):
    return [{name: value for name, value in row.items() if name != "mean_seconds"} for row in rows]


def test_end_to_end(folder):
    rows, claims, page = write_report(load(EXTENT, folder), EXTENT, SHORT, folder)
    assert {(row["test"], row["contender"]) for row in rows} == {(t, name) for t in (1, 2) for name in LABELS}
    assert all(row["replicates"] == (1 if row["contender"].startswith("paper-") else 2) for row in rows)
    table = json.loads((folder / "table.json").read_text())
    assert table["rows"] == rows and len(table["claims"]) == len(claims)
    assert "--replicates 2 --paper-replicates 1" in table["command"] and table["version"]
    names = {f"test{t}-{kind}.png" for t in (1, 2) for kind in ("means", "densities", "histories")}
    assert names == {path.name for path in folder.glob("*.png")}
    text = page.read_text()
    assert text.count('src="data:image/png;base64,') == len(names)
    assert "http:" not in text and "https:" not in text and "<script" not in text and "<link" not in text


def test_a_record_that_is_deleted_is_made_again(folder):
    before = make_table(load(EXTENT, folder))
    files = {path: path.stat().st_mtime_ns for path in (folder / "records").iterdir()}
    gone = folder / "records" / "test2-0001.json"
    gone.unlink()
    seen = []
    records = run(EXTENT, folder, SHORT, workers=0, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(3, 4), (4, 4)]
    assert {path for path in files if path.stat().st_mtime_ns != files[path]} == {gone}
    assert without_times(make_table(records)) == without_times(before)


def test_a_stopped_study_goes_on(tmp_path):
    extent = Extent(replicates=3, paper_replicates=0, tests=(1,), only="oracle")

    def stop(done, total):
        if done == 1:
            raise Interrupted(15, done, "replicate", tmp_path)

    with pytest.raises(Interrupted):
        run(extent, tmp_path, workers=0, progress=stop)
    assert len(load(extent, tmp_path)) == 1
    assert len(run(extent, tmp_path, workers=0)) == 3
    more = run(replace(extent, only="emvs"), tmp_path, workers=0)
    assert all(set(found) == {"oracle", "emvs"} for found in more.values())


def test_worker_processes_make_the_same_records(forked, tmp_path):
    extent = Extent(replicates=1, paper_replicates=1, tests=(2,), only="paper-psgld-sa")
    one = run(extent, tmp_path / "one", SHORT, workers=0)[2, 0]["paper-psgld-sa"]
    other = run(extent, tmp_path / "other", SHORT, workers=1)[2, 0]["paper-psgld-sa"]
    assert one | {"seconds": 0} == other | {"seconds": 0}


def test_what_does_not_fit_is_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="was started with burn_in = 100, now it is 2000"):
        run(EXTENT, folder, workers=0)
    with pytest.raises(ValueError, match="no method 'sgd'"):
        Extent(only="sgd")
    with pytest.raises(ValueError, match="at least one replicate"):
        Extent(replicates=0)
    with pytest.raises(ValueError, match="at most 10,000 replicates, got 1000000000000"):
        Extent(replicates=10**12)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "test1-0000.json").write_text("{")
    with pytest.raises(ValueError, match=r"test1-0000\.json is not a record"):
        run(EXTENT, tmp_path, SHORT, workers=0)


def test_what_is_damaged_is_named(tmp_path):
    extent = Extent(replicates=2, paper_replicates=0, tests=(1,), only="oracle")
    before = run(extent, tmp_path, workers=0)
    record, settings = tmp_path / "records" / "test1-0000.json", tmp_path / "settings.json"
    whole = record.read_bytes()
    noticed = 0
    for place in range(0, len(whole), 7):
        record.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            assert run(extent, tmp_path, workers=0) == before  # the 17th digit of a number may not matter
        except ValueError as error:
            assert "test1-0000.json is not a record of this study" in str(error)
            noticed += 1
    assert noticed > 0.9 * len(whole) / 7
    record.write_bytes(whole[:-5])
    with pytest.raises(ValueError, match=r"test1-0000\.json is not a record of this study \(it has 0 whole lines"):
        run(extent, tmp_path, workers=0)
    record.write_bytes((tmp_path / "records" / "test1-0001.json").read_bytes())
    with pytest.raises(ValueError, match=r"test1-0000\.json .* another record than its name says"):
        run(extent, tmp_path, workers=0)
    record.write_bytes(whole)
    for text in ("{", "[1]", "\xff"):
        settings.write_text(text, encoding="latin-1")
        with pytest.raises(DamagedError, match=r"settings\.json is damaged"):
            run(extent, tmp_path, workers=0)


def test_records_of_the_oracle_are_least_squares():
    study = regression_data.make(1, 0)
    record = fit_record("oracle", study, 0, SHORT)
    coef = np.linalg.lstsq(np.column_stack([np.ones(100), study.x[:, :2]]), study.y)[0]
    error = np.column_stack([np.ones(1000), study.x_test[:, :2]]) @ coef - study.y_test
    assert record["mse"] == pytest.approx(np.mean(error**2)) and record["mae"] == pytest.approx(np.abs(error).mean())
    assert record["chosen_true"] == 2 and record["chosen_false"] == 0
    for effect, value in zip(record["effects"], coef[1:], strict=True):
        assert effect["mean"] == pytest.approx(value) and effect["low"] < value < effect["high"]


def test_histories_are_errors_of_samples_and_of_means_over_the_latter_half():
    study = regression_data.make(1, 0)
    chain = regression_paper.run("sgld-sa", study, 50, 10, 0)
    history = chain.history(study)
    k = history["step"].index(50)
    mean = np.average(chain.beta[25:], axis=0, weights=chain.step_size[25:])
    assert history["mean_mse"][k] == pytest.approx(np.mean((study.x_test @ mean - study.y_test) ** 2))
    assert history["sample_mae"][k] == pytest.approx(np.abs(study.x_test @ chain.beta[-1] - study.y_test).mean())
    assert history["mean_mse"][0] == pytest.approx(history["sample_mse"][0])
    assert chain.draws.shape == (40, 200) and chain.inclusion.shape == (200,)


def test_steps_are_on_the_stated_scales():
    for method, scale in (("sgld", 0.0005), ("sgld-sa", 0.0005), ("psgld", 0.05), ("psgld-sa", 0.05)):
        chain = regression_paper.run(method, regression_data.make(1, 0), 8, 2, 0)
        assert np.allclose(chain.step_size, scale * np.arange(1, 9) ** (-1 / 3))


def test_records_of_pairs_are_sums_over_all_models_of_two_predictors():
    study = regression_data.make(2, 1)
    record = fit_record("pairs", study, 0, SHORT)
    z, y = (values - values.mean(0) for values in (study.x, study.y))
    z /= z.std(0)
    log_weight, mean = {}, {}
    for i in range(200):
        for j in range(i):
            columns = z[:, [i, j]]
            mean[i, j], rest, _, _ = np.linalg.lstsq(columns, y, rcond=None)
            log_weight[i, j] = -0.5 * np.linalg.slogdet(columns.T @ columns)[1] - 0.5 * 99 * np.log(rest[0])
    top = max(log_weight.values())
    weight = {pair: np.exp(value - top) for pair, value in log_weight.items()}
    coef, total = np.zeros(200), sum(weight.values())
    for pair, value in weight.items():
        coef[list(pair)] += value / total * mean[pair]
    assert record["coef"] == pytest.approx(coef / study.x.std(0), abs=1e-5)
    shares = [sum(value for pair, value in weight.items() if j in pair) / total for j in (0, 1)]
    assert record["inclusion"] == pytest.approx(shares, abs=1e-9)
    assert record["chosen_true"] + record["chosen_false"] == 3
