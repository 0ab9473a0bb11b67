"""The surrogate studies: which cells there are, that they resume, and what their table and page say."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sparse_langevin.problems.darcy import generate
from sparse_langevin.storage.errors import DamagedError
from sparse_langevin.storage.files import locked
from sparse_langevin.storage.lines import sealed
from sparse_langevin.studies import darcy_cells, darcy_search, darcy_study
from sparse_langevin.studies.darcy_cells import DARCY, FIELDS, PAPER, Field, cells
from sparse_langevin.studies.darcy_claims import claims_table
from sparse_langevin.studies.darcy_report import main_table, write_report
from sparse_langevin.studies.darcy_search import VARIATIONS, search_cells, search_table
from tests.commands import call, refused
from tests.surrogates.small import NETWORK

pytestmark = pytest.mark.usefixtures("forked")
FIELD_TITLES = {field.name: field.title for fields in FIELDS.values() for field in fields}


def tiny(name, **changes):
    """A cell of the KLE study, made small."""
    (cell,) = cells("kle", "small", [name])
    changes = {"epochs": 4, "samples": 2, "burn_in": 0.5, "network": NETWORK} | changes
    return replace(cell, settings=replace(cell.settings, **changes))


@pytest.fixture
def place(tmp_path, monkeypatch):
    original = Field.recipe

    def recipe(self, scale, image):
        made = original(self, scale, image)
        terms = {"terms": 4} if made.kind == "kle" else {}
        return replace(made, samples=30, grid=replace(made.grid, nx=8, ny=6), settings=made.settings | terms)

    monkeypatch.setattr(Field, "recipe", recipe)
    return darcy_study.StudyFolder(tmp_path / "study", "small")


def test_every_cell_of_the_papers_tables_is_there():
    for study in ("kle", "channels"):
        there = {(c.field.name, c.settings.method, c.settings.sparsity) for c in cells(study, "paper")}
        assert {key for key in PAPER if (key[0] == "channels") == (study == "channels")} <= there
        for field in FIELDS[study]:
            beside = {("psgld-sa", 0.7)} if field.name == "channels-1-to-10" else {("psgld", 0.0), ("sgld-sa", 0.7)}
            assert {(field.name, *pair) for pair in beside | {("psgld-sa", 0.7)}} <= there
            if not field.extra:
                assert {(field.name, "adam", 0.0), (field.name, "adam", 0.7)} <= there
    names = [c.name for c in cells("kle", "paper")]
    assert len(names) == len(set(names)) == (3 * 8 + 1 + 6) + 2 * (8 + 1 + 6) + 2 * 3
    assert len(cells("channels", "paper")) == (10 + 3) + 2 * 3 + 2
    assert len(cells("kle", "small")) == 3 * (8 + 1 + 6) + 2 * 3


def test_unknown_cells_are_refused():
    with pytest.raises(
        ValueError, match="no cell has a name that contains nothing; the cells are kle32-psgld-sa-70-seed0"
    ):
        cells("kle", "small", ["nothing"])


def test_fields_are_what_the_records_say():
    exponential = next(f for f in FIELDS["kle"] if f.name == "exponential128")
    assert exponential.describe() == {
        "name": "exponential128",
        "kind": "kle",
        "kernel": "exponential",
        "terms": 128,
        "mode": "affine",
        "kappa_0": 8.0,
    }
    recipe = exponential.recipe("paper", None)
    assert (recipe.samples, recipe.first_test, recipe.grid.nx) == (1500, 1300, 50)
    image = FIELDS["channels"][0]
    with pytest.raises(ValueError, match="give the image with --image"):
        image.recipe("paper", None)


def test_two_cells_at_a_time(place):
    todo = [tiny("kle32-psgld-sa-70-seed0"), tiny("kle32-adam-70")]
    told = []
    records = darcy_study.run(todo, place, progress=lambda epochs, text: told.append(epochs))
    assert [r["cell"] for r in records] == ["kle32-adam-70-seed0", "kle32-psgld-sa-70-seed0"]
    mine = records[1]
    wanted = {"study", "field", "method", "sparsity", "seed", "e1", "e2", "baseline_e1", "mass_residual"}
    assert wanted | {"parameters", "zeros", "epochs", "seconds", "cpu_seconds", "version"} <= mine.keys()
    assert mine["paper"] == {"e1": 0.58, "e2": 0.51} and records[0]["paper"] is None
    assert mine["zeros"] == sum(round(0.7 * size) for size in (48 * 20, 20 * 110))
    assert mine["samples"] == 2 and records[0]["samples"] == 0 and records[0]["e1"] == records[0]["e1_last"]
    assert told == sorted(told) and told[-1] == 8
    before = (place.folder / "table.json").read_bytes()
    darcy_study.run(todo, place)  # nothing is made again
    assert (place.folder / "table.json").read_bytes() == before
    page = write_report("kle", place.folder, "sparse-langevin reproduce kle").read_text()
    assert "0.58 / 0.51" in page and page.count("data:image/png;base64,") == 2  # curves, one prediction


def test_a_stopped_study_goes_on_to_the_same_table(place, tmp_path):
    todo = [tiny("kle32-psgld-sa-70-seed0", epochs=40)]
    whole = darcy_study.run(todo, place, workers=1)
    other = darcy_study.StudyFolder(tmp_path / "other", "small")
    begun = other.run(todo[0]) / "checkpoints"
    stops = 0
    while not darcy_study.records(other.folder):
        asked = itertools.count()
        darcy_study.run(
            todo,
            other,
            workers=1,
            stop=lambda asked=asked, stops=stops: stops < 2 and begun.exists() and next(asked) > 1,
        )
        stops += 1
    assert stops > 1
    again = darcy_study.records(other.folder)
    for record in (*whole, *again):
        del record["seconds"], record["cpu_seconds"]
    assert again == whole


def test_a_finished_cell_is_entered_with_its_samples(place):
    """Stopped after a cell was finished and before it was entered: its record is taken, not made again without."""
    cell = tiny("kle32-psgld-sa-50-seed0")
    generate(cell.field.recipe("small", None), place.data(cell.field), workers=0)
    place.made(cell).parent.mkdir(parents=True)
    (place.folder / darcy_study.FIGURES).mkdir()
    darcy_study._work(cell, place)
    made = place.made(cell).read_bytes()
    (found,) = darcy_study.run([cell], place, workers=1)
    assert found["samples"] == 2 and place.made(cell).read_bytes() == made
    assert not (place.run(cell) / "samples").exists()  # no longer needed


def test_what_has_changed_is_made_again(place):
    cell = tiny("kle32-adam-70")
    (first,) = darcy_study.run([cell], place, workers=1)
    other = replace(cell, settings=replace(cell.settings, epochs=3))
    (second,) = darcy_study.run([other], place, workers=1)
    assert (first["epochs"], second["epochs"]) == (4, 3)
    elsewhere = replace(other, field=replace(other.field, settings=other.field.settings | {"kappa_0": 7.0}))
    with pytest.raises(ValueError, match=r"has kle32-adam-70-seed0 on kle32 with settings = .*kappa_0.*--out"):
        darcy_study.run([elsewhere], place, workers=1)


def test_one_study_at_a_time_in_a_folder(place):
    with locked(place.folder), pytest.raises(RuntimeError, match="another process is running in"):
        darcy_study.run([tiny("kle32-adam-70")], place)


@pytest.mark.parametrize("study", ["kle", "channels"])
def test_the_command(study, place, tmp_path, monkeypatch, capsys):
    """Every kind of field, from the command to the page; without the image its cells are left out."""
    monkeypatch.setattr(
        darcy_cells,
        "shortened",
        lambda s: replace(s, epochs=2, samples=2, network=s.network if s.network == DARCY else NETWORK),
    )
    Image.fromarray(np.random.default_rng(0).integers(0, 2, (60, 60), dtype=np.uint8) * 255).save(tmp_path / "f.png")
    out = tmp_path / "out"
    common = ["reproduce", study, "--out", out, "--workers", 1]
    if study == "channels":
        wrong = refused(monkeypatch, capsys, *common, "--image", tmp_path / "none.png")
        assert "none.png" in wrong and not out.exists()
        assert "give it with --image" in refused(monkeypatch, capsys, *common, "--only", "blocked")
        common += ["--image", tmp_path / "f.png"]
    chosen = [field.name for field in FIELDS[study] if field.extra]
    text = call(*common, *(part for name in chosen for part in ("--only", f"{name}-psgld-sa-70-seed")))
    assert "report.html" in text
    found = json.loads((out / "table.json").read_text())
    assert sorted(r["field"]["name"] for r in found) == sorted(chosen)
    assert all(f"{r['cell']}: e1 {r['e1']:.3g} %" in text for r in found)  # a line for each, as it is finished
    assert {r["field"].get("split") for r in found if r["field"]["kind"] == "image"} <= {"random", "blocked"}
    page = (out / "report.html").read_text()
    assert "samplers: 2, of Adam: none yet" in page and all(FIELD_TITLES[name] in page for name in chosen)


def test_a_cell_that_fails_says_why(place):
    with pytest.raises(ValueError, match=r"kle32-psgld-seed0 failed: .*there is no network"):
        darcy_study.run([tiny("kle32-psgld-seed0", network="no.such:Network")], place, workers=1)


def record(field, method, sparsity, e1, seed=0, momentum=0.9, network=NETWORK):
    name = f"{field}-{method}-{sparsity}-{seed}"
    return {
        "cell": name,
        "field": {"name": field},
        "method": method,
        "sparsity": sparsity,
        "seed": seed,
        "e1": e1,
        "e2": e1 and e1 / 2,
        "e1_last": e1 and 1.1 * e1,
        "baseline_e1": 16.0,
        "baseline_e2": 17.0,
        "first_order_e1": 2.0,
        "first_order_e2": 2.1,
        "settings": {"method": method, "momentum": momentum, "network": network},
    }


def test_claims_are_judged_from_the_records():
    found = [
        record("kle32", "psgld", 0.0, 0.80),
        record("kle32", "psgld", 0.0, 0.60, seed=1),
        record("kle32", "sgld", 0.0, 1.5),
        record("kle32", "sgld", 0.0, 1.05, seed=1),
        record("kle32", "sgld", 0.0, 9.0, seed=2),  # the other side has no such seed
        record("kle32", "psgld-sa", 0.7, 0.73),
        record("kle32", "psgld-sa", 0.7, 0.5, momentum=0.0),
        record("kle32", "psgld-sa", 0.5, None),
        record("kle32", "sgld-sa", 0.5, 0.9),
        record("kle32", "sgld", 0.0, None, momentum=0.0),
        record("kle32", "psgld", 0.0, 0.9, momentum=0.0),
        record("kle32", "sgld-sa", 0.7, 2.0),
        record("kle32", "sgld-sa", 0.7, 0.8, momentum=0.0),
        record("kle32", "adam", 0.7, 0.73),
    ]
    table = claims_table("kle", found).cells()
    rows = {row[1].text: (row[4].text, row[7].text) for row in table}
    assert rows == {
        "PSGLD-SA 70% no worse than PSGLD, within 5 %": ("0.91", "yes"),
        "PSGLD-SA 50% no worse than PSGLD, within 5 %": ("", "no"),  # diverged
        "PSGLD-SA 50% at most half of SGLD-SA 50%": ("", "no"),
        "PSGLD-SA 50% below the paper's PSGLD-SA": ("", "no"),
        "PSGLD-SA 70% (no momentum) no worse than PSGLD (no momentum), within 5 %": ("0.56", "yes"),
        "PSGLD (no momentum) at most half of SGLD (no momentum)": ("", "open"),  # the other one diverged
        "PSGLD-SA 70% at most half of SGLD-SA 70%": ("0.36", "yes"),
        "PSGLD at most half of SGLD": ("0.55", "no"),
        "PSGLD-SA 70% no worse than Adam with pruning to 70 %": ("1.00", "yes, within chance"),
        "PSGLD-SA 70%, last sample alone, no worse than Adam with pruning to 70 %": ("1.10", "no"),
        "PSGLD-SA 70% (no momentum), last sample alone, no worse than Adam with pruning to 70 %": ("0.75", "yes"),
        "PSGLD-SA 70% (no momentum) at most half of SGLD-SA 70% (no momentum)": ("0.62", "no"),
        "PSGLD-SA 70% (no momentum) no worse than Adam with pruning to 70 %": ("0.68", "yes"),
        "PSGLD-SA 70% below the paper's PSGLD-SA": ("1.26", "no"),
        "PSGLD-SA 70% (no momentum) below the paper's PSGLD-SA": ("0.86", "yes"),
        "PSGLD-SA 70% below first order": ("0.36", "yes"),
        "PSGLD-SA 70% (no momentum) below first order": ("0.25", "yes"),
    }
    spread = {row[1].text: row[5].text for row in table if row[5].text}
    assert spread == {"PSGLD at most half of SGLD": "0.53–0.57"}  # noqa: RUF001
    table = main_table("kle", found)
    assert table.columns == ["", "ours", "no momentum", "the paper"]
    errors = {row[0].text: [cell.text for cell in row[1:]] for row in table.cells()}
    assert errors["kle32 PSGLD"] == ["0.70 / 0.35 (0.60–0.80)", "0.90 / 0.45", "0.75 / 0.57"]  # noqa: RUF001
    assert errors["kle32 PSGLD-SA 70%"] == ["0.73 / 0.36", "0.50 / 0.25", "0.58 / 0.51"]
    assert errors["kle32 Adam 70%"] == ["0.73 / 0.36", "", ""] and "kle32 Adam" not in errors
    assert errors["kle32 training mean"][0] == "16.00 / 17.00" and errors["kle32 first order"][0] == "2.00 / 2.10"
    again = [
        record("channels", "psgld-sa", 0.7, 1.5, network=DARCY),
        record("channels", "adam", 0.7, 2.0, network=DARCY),
    ]
    row, _ = [row for row in claims_table("channels", again).cells() if "Adam" in row[1].text]
    assert row[1].text == "PSGLD-SA 70% (Darcy network) no worse than Adam with pruning to 70 %"
    assert row[4].text == "0.75"
    assert main_table("channels", again).columns == ["", "Darcy network", "the paper"]


def test_a_page_names_diverged_runs_and_data_that_differ(tmp_path):
    found = [record("kle32", "psgld", 0.0, 0.8), record("kle32", "sgld", 0.0, None), record("kle32", "adam", 0.0, 0.9)]
    for one in found:
        one |= {"mass_residual": 1.0, "zeros": 0, "sparse_parameters": 5, "epochs": 3}
        one["settings"]["epochs"] = 3
    found[2]["baseline_e1"] += 0.001
    (tmp_path / "table.json").write_text(json.dumps([sealed(one) for one in found]))
    page = write_report("kle", tmp_path, "sparse-langevin reproduce kle").read_text()
    assert "(machine, version): kle32-adam-0.0-0." in page
    assert re.search(r"SGLD</t.>\s*<td[^>]*>0</td>\s*<td[^>]*>diverged<", page)


def test_no_damage_of_a_table_or_of_curves_is_read_as_true(tmp_path):
    found = [record("kle32", "psgld", 0.0, 0.8), record("kle32", "adam", 0.7, 0.9)]
    curves = {one["cell"]: [[1, 12.5, 3.25], [2, 0.875, 6.5]] for one in found}
    (tmp_path / "table.json").write_text(json.dumps([sealed(one) for one in found], indent=1))
    (tmp_path / "curves.json").write_text(json.dumps(sealed(curves)))
    for name, read, usual in (
        ("table.json", darcy_study.records, json.loads(json.dumps(found))),
        ("curves.json", darcy_study.curves, curves),
    ):
        whole, detected = (tmp_path / name).read_bytes(), 0
        assert read(tmp_path) == usual
        for place in range(len(whole)):
            for bit in (0, 4):
                damaged = bytearray(whole)
                damaged[place] ^= 1 << bit
                (tmp_path / name).write_bytes(damaged if bit else whole[:place])
                try:
                    assert read(tmp_path) == usual, (place, bit)
                except DamagedError as error:
                    assert f"{name} is damaged" in str(error) and "train its cells again" in str(error)
                    detected += 1
        assert detected > 1.5 * len(whole)
        (tmp_path / name).write_bytes(whole)


@pytest.mark.parametrize(
    "table, words",
    [
        (
            [sealed(record("kle32", "adam", 0.7, 0.5) | {"recipe": {"kind": "channels"}})],
            "has kle32-adam-0.7-0 on kle32 with grid = None, now",
        ),
        ([{"contender": "single"}], "is the table of another study"),
        ({"rows": []}, "is the table of another study"),
    ],
    ids=["other data", "error bars", "regression"],
)
def test_a_folder_of_something_else_is_refused_and_keeps_its_report(table, words, place, monkeypatch, capsys):
    place.folder.mkdir()
    (place.folder / "table.json").write_text(json.dumps(table))
    (place.folder / "report.html").write_text("as it was")
    command = ["reproduce", "kle", "--only", "kle32-adam-70", "--out", place.folder]
    assert words in " ".join(refused(monkeypatch, capsys, *command).split())
    assert (place.folder / "report.html").read_text() == "as it was"


def test_the_search_never_sees_test_data(place, tmp_path):
    everything = search_cells()
    assert len({c.name for c in everything}) == len(everything) == sum(map(len, VARIATIONS.values()))
    assert all(c.settings.validation == 0.1 for c in everything)
    one = replace(everything[0], settings=replace(everything[0].settings, epochs=2, network=NETWORK))
    found = darcy_study.run([one], place, workers=1)
    assert "paper" not in found[0] and "baseline_e1" not in found[0]
    diverged = {"cell": "sgld-step-2", "method": "sgld", "e1": None, "e2": None, "diverged": "the loss is nan"}
    rows = search_table([*found, diverged]).rows
    assert rows[0][:2] == ("psgld", "default") and rows[1] == ("sgld", "step-2", "–", "–", "–")  # noqa: RUF001
    assert all(row[1] in darcy_search.write_report([*found, diverged], tmp_path).read_text() for row in rows)
