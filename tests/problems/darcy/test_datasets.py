"""Data sets: pure functions of their recipe, whatever happens while they are made."""

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sparse_langevin.problems.darcy import KLE, DarcyData, Grid, Recipe, Solver, generate
from sparse_langevin.problems.darcy.datasets import DATA_SET
from sparse_langevin.storage.artefact import Artefact, kind_of
from sparse_langevin.storage.errors import DamagedError, LockedError, MismatchError
from sparse_langevin.storage.files import canonical
from tests.problems.darcy.dataset_worker import RECIPE, make
from tests.processes import processes
from tests.storage.crashes import crash_everywhere, flipped


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def unfinish(folder):
    """As before the last shard was made."""
    replace(Artefact.open(folder, DATA_SET), files=None)._enter()


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
        delay = generator.uniform(0.0, 2.0)
        process = processes.Process(target=make, args=(str(folder), 2, delay))
        process.start()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            for path in list(folder.glob("shard-*"))[::2]:
                path.unlink()
            unfinish(folder)
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
    with pytest.raises(ValueError, match="was started with seed = 7, now it is 8"):
        generate(Recipe("kle", 130, RECIPE.grid, RECIPE.settings, shard_size=10, seed=8), clean)
    assert contents(clean) == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not a data set of ours"):
        generate(RECIPE, tmp_path)
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_changed_and_missing_shards_are_noticed(clean, tmp_path):
    folder = tmp_path / "out"
    generate(RECIPE, folder, workers=0)
    shard, manifest = folder / "shard-00003.h5", folder / "artefact.json"
    for _ in flipped(shard, every=100_003):
        for look in (DarcyData(folder).verify, lambda: DarcyData(folder).sample(30)):
            with pytest.raises(
                DamagedError, match=r"shard-00003.h5 is damaged: it does not match .*Delete the file, and"
            ):
                look()
        with pytest.raises(DamagedError, match="shard-00003"):
            DarcyData(folder).array("kappa", "test")
    DarcyData(folder, verify=True)
    shard.unlink()
    with pytest.raises(DamagedError, match=r"it is missing. Delete the file, and run the same command again"):
        DarcyData(folder, verify=True)
    generate(RECIPE, folder, workers=0)
    assert contents(folder) == contents(clean)
    for _ in flipped(manifest, every=5):
        with contextlib.suppress(DamagedError):
            assert DarcyData(folder).manifest == DarcyData(clean).manifest  # the text means the same
    shard.unlink()
    unfinish(folder)
    with pytest.raises(MismatchError, match="begun but not finished"):
        DarcyData(folder)
    generate(RECIPE, folder, workers=0)
    assert contents(folder) == contents(clean)
    with pytest.raises(MismatchError, match="there is no data set"):
        DarcyData(tmp_path / "nowhere")


SMALL = Recipe("kle", 5, Grid(5, 4), {"terms": 3}, shard_size=2)


def test_a_crash_at_any_operation_loses_nothing(tmp_path):
    """The next call goes on, and what is finished has the bytes of a data set that was made without crashes."""
    generate(SMALL, tmp_path / "clean", workers=0)
    folder = tmp_path / "out"

    def nothing_is_half_written():
        assert kind_of(folder) in (None, "data set") if folder.exists() else True
        for path in folder.glob("shard-*"):
            assert path.read_bytes() == (tmp_path / "clean" / path.name).read_bytes()
        if (folder / "shard-00002.h5").exists() and crashed[0] % 2:  # also in a folder with some of them
            (folder / "shard-00001.h5").unlink(missing_ok=True)
        crashed[0] += 1

    crashed = [0]
    assert crash_everywhere(lambda: generate(SMALL, folder, workers=0), nothing_is_half_written) > 10
    generate(SMALL, folder, workers=0)
    assert contents(folder) == contents(tmp_path / "clean")


def test_two_at_once(tmp_path):
    """The second one is refused, and takes nothing away from the first, which is finished as if alone."""
    folder, exits = tmp_path / "out", []

    def intrude(done, total):
        (folder / ".writing-live").write_bytes(b"another worker writes this")
        with pytest.raises(LockedError, match="another process is running in"):
            generate(SMALL, folder, workers=0)
        if not exits:
            process = processes.Process(target=make, args=(str(folder), 0), kwargs={"recipe": SMALL})
            process.start()
            process.join()
            exits.append(process.exitcode)
        assert (folder / ".writing-live").exists()

    data = generate(SMALL, folder, workers=0, progress=intrude)
    assert exits == [1] and not (folder / ".writing-live").exists()
    data.verify()
    generate(SMALL, folder, workers=0, progress=intrude)  # a finished one can be had by all


def test_any_executor_will_do(tmp_path):
    generate(SMALL, tmp_path / "alone", workers=0)
    with ThreadPoolExecutor(2) as pool:
        generate(SMALL, tmp_path / "out", executor=pool)
        assert pool.submit(int).result() == 0  # it is not shut down
    assert contents(tmp_path / "out") == contents(tmp_path / "alone")


def test_a_plain_script_may_use_processes(tmp_path):
    """The workers do not import it: it would make the data set once more in each of them."""
    script = tmp_path / "script.py"
    script.write_text(
        "from sparse_langevin.problems import darcy\n"
        "print('once')\n"
        "recipe = darcy.Recipe('kle', 5, darcy.Grid(5, 4), {'terms': 3}, shard_size=2)\n"
        "print(len(darcy.generate(recipe, 'data', workers=2)))\n"
    )
    result = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert (result.stdout, result.stderr) == ("once\n5\n", "")


def test_data_sets_of_the_format_before(clean, tmp_path):
    """They had a recipe.json, and a manifest.json with the digests when they were finished."""
    folder = tmp_path / "out"
    generate(RECIPE, folder, workers=0)
    new = DarcyData(folder)
    (folder / "artefact.json").unlink()
    (folder / "recipe.json").write_bytes(canonical(new.recipe))
    with pytest.raises(MismatchError, match="begun by an earlier version: generate it in another folder"):
        DarcyData(folder)
    (folder / "manifest.json").write_bytes(canonical(new.manifest))
    old = DarcyData(folder, verify=True)
    assert old.manifest == new.manifest and np.array_equal(old.array("kappa"), new.array("kappa"))
    shard = folder / "shard-00003.h5"
    shard.unlink()
    with pytest.raises(MismatchError, match="started with seed = 7, now it is 8"):
        generate(replace(RECIPE, seed=8), folder, workers=0)
    generate(RECIPE, folder, workers=0)
    assert shard.read_bytes() == (clean / shard.name).read_bytes() and not (folder / "artefact.json").exists()
    for text in ("{", "[]", "{}"):
        (folder / "manifest.json").write_text(text)
        with pytest.raises(DamagedError, match=r"manifest.json is damaged.* Generate the data set again"):
            DarcyData(folder)


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
    made = Artefact.open(clean, DATA_SET, finished=True)
    assert made.body["seed"] == 7 and made.body["settings"]["terms"] == 20
    assert {"sparse-langevin", "numpy", "qdldl"} <= set(made.versions)
