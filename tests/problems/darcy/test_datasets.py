"""Data sets: pure functions of their recipe, whatever happens while they are made."""

import contextlib
import json
import math
import os
import random
import signal

import numpy as np
import pytest
from PIL import Image

from sparse_langevin.problems.darcy import KLE, DarcyData, Grid, Recipe, Solver, generate
from tests.problems.darcy.dataset_worker import RECIPE, make
from tests.processes import processes


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "clean"
    generate(RECIPE, folder, workers=0)
    return folder


def test_samples_are_what_they_say(clean):
    data = DarcyData(clean, verify=True)
    kappa, velocity, pressure = (data.array(name) for name in ("kappa", "velocity", "pressure"))
    assert kappa.shape == (130, 10, 12) and velocity.shape == (130, RECIPE.grid.edges) and len(data) == 130
    solution = Solver(RECIPE.grid).solve(kappa[77])
    assert np.array_equal(velocity[77], solution.velocity) and np.array_equal(pressure[77], solution.pressure)
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([7, 77])))
    assert np.array_equal(kappa[77], KLE(RECIPE.grid, terms=20, kappa_0=3.0).sample(rng)[0])
    assert data.array("redraws").sum() > 0
    assert data.array("mass_residual").max() < 1e-10


def test_split_is_the_last_share(clean):
    data = DarcyData(clean)
    assert np.array_equal(data.array("test"), np.arange(130) >= 104)
    assert np.array_equal(data.array("kappa", "test"), data.array("kappa")[104:])
    assert len(data.array("kappa", "train")) == 104


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bytes(clean, workers, tmp_path):
    generate(RECIPE, tmp_path / "out", workers=workers)
    assert contents(tmp_path / "out") == contents(clean)


def test_killed_twenty_times(clean, tmp_path):
    folder = tmp_path / "out"
    generator = random.Random(0)
    kills = 0
    while kills < 20:
        delay = generator.uniform(0.0, 0.25)
        process = processes.Process(target=make, args=(str(folder), 2, delay))
        process.start()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            for path in list(folder.glob("shard-*"))[::2]:
                path.unlink()
            (folder / "manifest.json").unlink()
    process = processes.Process(target=make, args=(str(folder), 2))
    process.start()
    process.join()
    assert contents(folder) == contents(clean)


def test_dead_workers_are_replaced(clean, tmp_path, caplog):
    """Five times, one worker process is killed while the others go on."""
    folder, left = tmp_path / "out", [5]

    def kill_one(done, total):
        children = processes.active_children()
        if left[0] and children and done >= 10:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended by itself
                os.kill(children[0].pid, signal.SIGKILL)
                left[0] -= 1

    generate(RECIPE, folder, workers=2, progress=kill_one)
    assert left == [0]
    assert "a worker process died" in caplog.text
    assert contents(folder) == contents(clean)


def test_progress_counts_samples(tmp_path):
    seen = []
    generate(RECIPE, tmp_path / "out", workers=0, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 130) and seen[-1] == (130, 130)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_image_data_sets_keep_their_split(tmp_path):
    pixels = (np.random.default_rng(0).random((200, 200)) < 0.3).astype(np.uint8) * 255
    Image.fromarray(pixels).save(tmp_path / "image.png")
    settings = {"image": str(tmp_path / "image.png"), "permeability": [1.0, 50.0], "split": "blocked"}
    recipe = Recipe("image", 20, Grid(12, 10), settings, shard_size=7)
    data = generate(recipe, tmp_path / "out", workers=0)
    assert set(np.unique(data.array("kappa"))) == {1.0, 50.0}
    (tmp_path / "image.png").rename(tmp_path / "moved.png")
    moved = Recipe("image", 20, Grid(12, 10), settings | {"image": str(tmp_path / "moved.png")}, shard_size=7)
    generate(moved, tmp_path / "out")  # an image counts by its contents
    with pytest.raises(ValueError, match="there is no file"):
        generate(recipe, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_channel_data_sets(tmp_path):
    data = generate(Recipe("channels", 5, Grid(12, 10), {"permeability": (1.0, 9.0)}), tmp_path / "out", workers=0)
    assert set(np.unique(data.array("kappa"))) == {1.0, 9.0}


def test_other_recipes_and_foreign_folders_are_refused(clean, tmp_path):
    before = contents(clean)
    with pytest.raises(ValueError, match="holds a data set with seed = 7, now it is 8"):
        generate(Recipe("kle", 130, RECIPE.grid, RECIPE.settings, shard_size=10, seed=8), clean)
    assert contents(clean) == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not a data set of ours"):
        generate(RECIPE, tmp_path)
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_changed_and_missing_shards_are_noticed(clean, tmp_path):
    folder = tmp_path / "out"
    generate(RECIPE, folder, workers=0)
    shard = folder / "shard-00003.h5"
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="does not match its SHA-256"):
        DarcyData(folder, verify=True)
    with pytest.raises(ValueError, match=r"shard-00003.h5 cannot be read"):
        shard.write_bytes(data[:500])
        DarcyData(folder).array("kappa")
    shard.unlink()
    with pytest.raises(ValueError, match=r"is missing: run the same command again"):
        DarcyData(folder, verify=True)
    generate(RECIPE, folder, workers=0)
    assert contents(folder) == contents(clean)
    shard.unlink()
    for text, message in ("{", "is damaged"), ("[]", "not that of a data set"), ("{}", "not that of a data set"):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            DarcyData(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match="begun but not finished"):
        DarcyData(folder)
    generate(RECIPE, folder, workers=0)
    assert contents(folder) == contents(clean)
    with pytest.raises(ValueError, match="there is no data set"):
        DarcyData(tmp_path / "nowhere")


def test_export(clean, tmp_path):
    data = DarcyData(clean)
    data.export_npz(tmp_path / "all.npz")
    with np.load(tmp_path / "all.npz") as arrays:
        assert np.array_equal(arrays["velocity"], data.array("velocity"))
    with pytest.raises(ValueError, match="holds kappa"):
        data.array("permeability")
    with pytest.raises(ValueError, match="the parts 'train' and 'test', or None for both; got 'Test'"):
        data.array("kappa", "Test")


def test_an_export_without_pressure_can_be_imported(clean, tmp_path):
    data = DarcyData(clean)
    np.savez(tmp_path / "mine.npz", kappa=data.array("kappa"), velocity=data.array("velocity"))
    for name in ("mine", "again"):
        recipe = Recipe("arrays", len(data), data.grid, {"file": str(tmp_path / f"{name}.npz")})
        made = generate(recipe, tmp_path / name, workers=0)
        made.export_npz(tmp_path / "again.npz", overwrite=True)
    assert np.array_equal(made.array("velocity"), data.array("velocity"))


def test_a_failure_leaves_the_folder_free(tmp_path):
    with pytest.raises(ValueError, match="kappa_0"):  # hardly a field is positive
        generate(Recipe("kle", 5, Grid(9, 9), {"terms": 40, "kappa_0": 0.01}), tmp_path / "out", workers=0)
    assert len(generate(Recipe("kle", 5, Grid(9, 9), {"terms": 40}), tmp_path / "out", workers=0)) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", 5), "kind"),
        (("kle", 0), "samples"),
        (("kle", 5, Grid(4, 4), {}, math.nan), "source must be a finite number, got nan"),
        (("image", 5), "needs settings"),
        (("kle", 5, Grid(4, 4), {"termz": 3}), "unknown setting"),
        (("kle", 5, Grid(4, 4), {"terms": 17}), "terms must lie"),
    ],
)
def test_bad_recipes_write_nothing(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        generate(Recipe(*arguments), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_manifest_says_how_it_was_made(clean):
    manifest = json.loads((clean / "manifest.json").read_text())
    assert manifest["recipe"]["seed"] == 7 and manifest["recipe"]["settings"]["terms"] == 20
    assert "sparse-langevin" in manifest["versions"]
