"""The command line for data sets, as a user runs it."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from sklearn.decomposition import PCA
from typer.testing import CliRunner

from sparse_langevin.cli import app, main
from sparse_langevin.problems.darcy import DarcyData
from sparse_langevin.problems.darcy.errors import e1
from sparse_langevin.surrogates.evaluation import baselines

KLE = ["generate", "kle", "--terms", "5", "--samples", "12", "--nx", "8", "--ny", "6", "--workers", "0"]


def call(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(monkeypatch, capsys, *arguments):
    """Run as the installed command does; return what stands on standard error."""
    monkeypatch.setattr(sys, "argv", ["sparse-langevin", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def data(tmp_path):
    call(*KLE, "--out", tmp_path / "kle")
    return tmp_path / "kle"


def test_generate_kle_and_info(data):
    assert len(DarcyData(data)) == 12
    text = call("info", data, "--verify")
    for part in ("terms 5", "8 by 6 cells", "10 to train, 2 to test", "e1", "all match their SHA-256"):
        assert part in " ".join(text.split())
    assert json.loads((data / "artefact.json").read_text())["body"]["settings"]["kappa_0"] == 6.0


def test_the_best_linear_code(data):
    """It is what principal components of the training velocities leave of the test velocities."""
    samples = DarcyData(data)
    train, test = samples.array("velocity", "train"), samples.array("velocity", "test")
    components = PCA(3, svd_solver="full").fit(train)
    known = 100 * e1(samples.grid, components.inverse_transform(components.transform(test)), test).mean()
    assert 0.1 < known < 100 * baselines(samples)[0].errors["e1"]
    assert f"of 3 numbers: e1 {known:.2f} %" in " ".join(call("info", data, "--code", 3).split())


def test_lognormal_fields_have_median_one(tmp_path):
    call(*KLE, "--mode", "lognormal", "--out", tmp_path / "log")
    assert DarcyData(tmp_path / "log").recipe["settings"]["kappa_0"] == 1.0


def test_generate_channels_and_image(tmp_path):
    common = ["--samples", "4", "--nx", "8", "--ny", "6", "--workers", "0"]
    values = ["--permeability", "2", "--permeability", "50"]
    call("generate", "channels", *common, *values, "--out", tmp_path / "channels")
    assert set(np.unique(DarcyData(tmp_path / "channels").array("kappa"))) == {2.0, 50.0}
    pixels = (np.random.default_rng(0).random((90, 90)) < 0.3).astype(np.uint8)
    Image.fromarray(pixels * 255).save(tmp_path / "image.tiff")
    arguments = ["--image", tmp_path / "image.tiff", "--split", "blocked"]
    call("generate", "image", *common, *values, *arguments, "--out", tmp_path / "image")
    assert DarcyData(tmp_path / "image").recipe["settings"]["split"] == "blocked"


def test_show_and_convert(data, tmp_path, monkeypatch, capsys):
    call("show", data, "--sample", "3", "--out", tmp_path / "figures" / "a.png")
    with Image.open(tmp_path / "figures" / "a.png") as picture:
        assert picture.width > 1000 and len(picture.convert("RGB").getcolors(10**6)) > 50
    call("convert", data, "--out", tmp_path / "all.npz")
    call("import", tmp_path / "all.npz", "--out", tmp_path / "again", "--workers", "0")
    assert np.array_equal(DarcyData(tmp_path / "again").array("velocity"), DarcyData(data).array("velocity"))
    call("convert", data, "--sample", "3", "--out", tmp_path / "a.vti")
    before = (tmp_path / "a.vti").read_bytes()
    assert "it exists" in refused(monkeypatch, capsys, "convert", data, "--out", tmp_path / "a.vti")
    assert (tmp_path / "a.vti").read_bytes() == before
    call("convert", data, "--sample", "4", "--out", tmp_path / "a.vti", "--force")
    assert (tmp_path / "a.vti").read_bytes() != before


def test_bad_input_is_one_line_without_traceback(data, tmp_path, monkeypatch, capsys):
    def error(*arguments):
        text = refused(monkeypatch, capsys, *arguments)
        assert "Traceback" not in text
        return " ".join(text.split())

    assert "holds samples 0 to 11, got 12" in error("show", data, "--sample", 12, "--out", tmp_path / "a.png")
    assert "must end in .png, .pdf or .svg" in error("show", data, "--out", tmp_path / "a.gif")
    assert "must end in .npz or .vti" in error("convert", data, "--out", tmp_path / "a.csv")
    assert "there is no data set" in error("info", tmp_path / "nothing")
    assert "a code of 10 numbers cannot be fitted to 10 training samples" in error("info", data, "--code", 10)
    assert "was started with seed = 0, now it is 1" in error(*KLE, "--seed", 1, "--out", data)
    assert "there is no file" in error("import", tmp_path / "no.npz", "--out", tmp_path / "x")
    (tmp_path / "text.png").write_text("not a picture")
    image = ["generate", "image", "--out", tmp_path / "x", "--image"]
    assert "text.png is not an image" in error(*image, tmp_path / "text.png")
    Image.fromarray(np.eye(30, dtype=np.uint8)).save(tmp_path / "small.png")
    assert "the image (30 by 30) is smaller than a crop of 50 by 50" in error(*image, tmp_path / "small.png")
    assert not (tmp_path / "x").exists()


def test_options_of_the_other_kind_of_arrays_are_refused(data, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "x.npy", np.ones((10, 3)))
    arrays = ["import", "--inputs", tmp_path / "x.npy", "--outputs", tmp_path / "x.npy", "--out", tmp_path / "new"]
    for words in (["--bottom", "nan"], ["--domain", "3x2"], ["--source", "2"], ["--any-residual"]):
        assert f"{words[0]} is for arrays of Darcy flow: leave it out" in refused(monkeypatch, capsys, *arrays, *words)
    for words in (["--low", "x.npy"], ["--input-layout", "v"], ["--output-layout", "q"]):
        text = refused(monkeypatch, capsys, "import", tmp_path / "x.npy", "--out", tmp_path / "new", *words)
        assert f"{words[0]} is for --inputs and --outputs of any simulator: leave it out" in text
    assert not (tmp_path / "new").exists()


def test_a_full_disk_is_noticed_before_the_work(tmp_path, monkeypatch, capsys):
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    text = refused(monkeypatch, capsys, *KLE, "--out", tmp_path / "out")
    assert "not enough disk space: 0 MB are needed" in text
    assert not list((tmp_path / "out").glob("shard-*"))


def test_a_write_that_fails_leaves_nothing_half_written(data, tmp_path):
    """A limit on the size of files makes the kernel refuse the shard, as a full disk does."""
    command = [sys.executable, "-c", "from sparse_langevin.cli import main; main()", *KLE, "--out", tmp_path / "out"]
    limit = 6000
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 2 and "shard-00000.h5: File too large" in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()  # nothing was made: the folder is gone, too
    call(*KLE, "--out", tmp_path / "out")
    for path in data.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_says_how_to_go_on(number, tmp_path):
    command = [sys.executable, "-c", "from sparse_langevin.cli import main; main()"]
    command += ["generate", "kle", "--samples", "100000", "--workers", "2", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (tmp_path / "out" / "shard-00000.h5").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 75
    assert text.count("\n") == 1 and f"{number.name}: stopped" in text and "run the same again to go on" in text
    assert not list((tmp_path / "out").glob(".writing-*"))
