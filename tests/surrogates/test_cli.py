"""The commands train, evaluate, predict and report, as a user runs them."""

import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

from sparse_langevin.cli import main
from sparse_langevin.problems.darcy import Grid, Recipe, generate
from sparse_langevin.storage.artefact import Artefact
from sparse_langevin.storage.checkpoint import checkpoints
from sparse_langevin.storage.runs import RUN
from sparse_langevin.surrogates import SurrogateRun
from sparse_langevin.surrogates.report import judge
from tests.commands import call, refused
from tests.surrogates.small import NETWORK

OWN = ["--network", NETWORK]
SHORT = ["--epochs", 3, "--batch-size", 8, "--samples", 2, *OWN]


@pytest.fixture
def copy(finished, tmp_path):
    """A finished run that a test may damage."""
    shutil.copytree(finished.path, tmp_path / "copy")
    return tmp_path / "copy"


def begun(folder):
    """Let a finished run be one that was stopped before its end."""
    replace(Artefact.open(folder, RUN), files=None)._enter()


def test_train_again_resumes_or_says_it_is_done(data, tmp_path):
    arguments = ["train", "--data", data.folder, "--run", tmp_path / "run", "--sparsity", 0.7, *SHORT]
    text = call(*arguments)
    assert "last sample on test data: e1" in text and "in the sparse layers" in text
    assert call(*arguments) == text
    assert SurrogateRun.open(tmp_path / "run").settings.step_size > 0


def test_validation_is_named(data, tmp_path):
    text = call("train", "--data", data.folder, "--run", tmp_path / "run", "--validation", 0.2, *SHORT)
    assert "last sample on validation data" in text


def test_recalibration_uses_validation_data_only(data, tmp_path, monkeypatch, capsys):
    run = ["--run", tmp_path / "run", "--validation", 0.3, "--burn-in", 0.5]
    call("train", "--data", data.folder, *run, *SHORT)
    text = " ".join(call("evaluate", tmp_path / "run", *OWN).split())
    assert "recalibrated" in text and "as it is" in text
    place = SurrogateRun.open(tmp_path / "run", trust=True)
    judged = judge(place)
    assert judged.trust.factors.count == 9 * data.grid.edges  # 30 % of the 30 training samples
    assert judged.trust.factors.after == pytest.approx(0.9, abs=0.01)
    rng = np.random.default_rng(0)
    np.save(tmp_path / "kappa.npy", rng.uniform(1, 5, size=(2, 6, 8)))
    common = ["--input", tmp_path / "kappa.npy", *OWN, "--quantiles", 0.05, "--quantiles", 0.95, "--out"]
    call("predict", tmp_path / "run", *common, tmp_path / "plain.npz")
    call("predict", tmp_path / "run", *common, tmp_path / "better.npz", "--recalibrated")
    shutil.copytree(data.folder, tmp_path / "moved")
    moved = [
        "predict",
        tmp_path / "run",
        *common,
        tmp_path / "moved.npz",
        "--recalibrated",
        "--data",
        tmp_path / "moved",
    ]
    other = generate(Recipe("kle", 8, Grid(8, 6), {"terms": 3}, test_share=0.5), tmp_path / "other", workers=0)
    assert "is another" in refused(monkeypatch, capsys, *moved[:-1], other.folder)
    assert "--data is for --recalibrated" in refused(monkeypatch, capsys, *moved[:-3], *moved[-2:])
    monkeypatch.setattr(SurrogateRun, "find_data", None)  # not asked for
    call(*moved)
    assert (tmp_path / "moved.npz").read_bytes() == (tmp_path / "better.npz").read_bytes()
    with np.load(tmp_path / "plain.npz") as plain, np.load(tmp_path / "better.npz") as better:
        np.testing.assert_allclose(better["std"], judged.trust.factors.weights * plain["std"], rtol=1e-5)
        reach = 1.6448536 * better["total_std"]
        np.testing.assert_allclose(better["quantiles"], better["velocity"] + np.stack([-reach, reach]), rtol=1e-4)
    sample = judged.prediction
    assert judged.trust.plain.coverage[0.9] == pytest.approx(
        np.mean(np.abs(data.array("velocity", "test") - sample.mean.numpy()) < 1.6449 * sample.total_std.numpy()),
        abs=1e-3,
    )


def test_evaluate(data, finished, tmp_path):
    text = call("evaluate", finished.path, *OWN, "--out", tmp_path / "errors.csv")
    assert "training" in text and "70.00" in text
    rows = np.genfromtxt(tmp_path / "errors.csv", delimiter=",", names=True)
    assert len(rows) == 10
    mean = float(re.search(r"psgld-sa\s[^\d]*(?:70%, run)?\s+([\d.]+)", text).group(1))
    assert 100 * rows["e1"].mean() == pytest.approx(mean, abs=1e-3)


def test_predict_takes_the_mean_over_samples(data, finished, tmp_path):
    kappa = data.array("kappa", "test")
    np.save(tmp_path / "kappa.npy", kappa)
    call("predict", finished.path, *OWN, "--input", tmp_path / "kappa.npy", "--out", tmp_path / "u.npz")
    call("predict", finished.path, *OWN, "--input", tmp_path / "kappa.npy", "--out", tmp_path / "last.npz", "--last")
    levels = ["--quantiles", 0.05, "--quantiles", 0.95]
    call(
        "predict", finished.path, *OWN, "--input", tmp_path / "kappa.npy", "--out", tmp_path / "q.npz", "--std", *levels
    )
    with np.load(tmp_path / "u.npz") as file, np.load(tmp_path / "last.npz") as other:
        found, last = dict(file), dict(other)
    with np.load(tmp_path / "q.npz") as file:
        low, high = file["quantiles"]
        assert file["levels"].tolist() == [0.05, 0.95]
    assert (low < found["velocity"]).all() and (found["velocity"] < high).all()
    np.testing.assert_allclose(high - low, 2 * 1.645 * found["total_std"], rtol=0.05)
    assert found["velocity"].shape == found["std"].shape == (10, data.grid.edges) and "std" not in last
    surrogate, all_samples, weights = finished.surrogate(), [], []
    for sample in finished.bank():
        surrogate.load_state_dict(surrogate.state_dict() | sample.parameters)
        all_samples.append(surrogate.predict(kappa).numpy())
        weights.append(sample.weight)
    mean = np.average(all_samples, axis=0, weights=weights)
    std = np.sqrt(np.average((np.array(all_samples) - mean) ** 2, axis=0, weights=weights))
    np.testing.assert_allclose(found["velocity"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["std"], std, rtol=1e-2, atol=1e-5)


def test_report_is_one_file(finished, tmp_path):
    call("report", finished.path, finished.path, *OWN, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for text in ("Learning curves", "Sparsity", "inclusion probabilities", "training mean", "seconds per epoch"):
        assert text in page
    # curves; for each run two samples, two figures of error bars and a histogram
    assert page.count("data:image/png;base64,") == 1 + 2 * 5
    assert "http" not in re.sub(r"data:image/png;base64,[^\"]*", "", page)


def test_bad_input_is_one_line_and_exit_code_two(data, finished, copy, tmp_path, monkeypatch, capsys):
    def error(*arguments):
        text = refused(monkeypatch, capsys, *arguments)
        assert text.startswith("error: ") and text.count("\n") == 1
        return text

    train = ["train", "--data", data.folder, "--run", tmp_path / "new", *SHORT]
    assert "there is no method 'hmc'" in error(*train, "--method", "hmc")
    assert "sparsity is a share in [0, 1), got 1.5" in error(*train, "--sparsity", 1.5)
    assert "there is no data set" in error("train", "--data", tmp_path / "nothing", "--run", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert "was started with" in error("train", "--data", data.folder, "--run", finished.path, *SHORT)
    assert "is not a run" in error("evaluate", tmp_path)

    other = generate(Recipe("kle", 8, Grid(5, 5), {"terms": 3}, test_share=0.5), tmp_path / "other", workers=0)
    fields = generate(Recipe("kle", 8, Grid(8, 6), {"terms": 3}, test_share=0.5), tmp_path / "fields", workers=0)
    call("train", "--data", fields.folder, "--run", tmp_path / "elsewhere", *SHORT)
    assert "a report compares runs on one data set" in error("report", finished.path, tmp_path / "elsewhere", *OWN)
    assert "with grid.nx = 8, now it is 5" in error("evaluate", finished.path, *OWN, "--data", other.folder)
    np.save(tmp_path / "small.npy", other.array("kappa"))
    predict = ["predict", finished.path, *OWN, "--out", tmp_path / "u.npz", "--input"]
    assert "sample 0: kappa must have shape" in error(*predict, tmp_path / "small.npy")
    negative = data.array("kappa")
    negative[3, 2, 1] = -0.5
    np.save(tmp_path / "negative.npy", negative)
    assert "sample 3: kappa must be" in error(*predict, tmp_path / "negative.npy")
    assert "there is no file" in error(*predict, tmp_path / "missing.npy")
    assert not (tmp_path / "u.npz").exists()
    for extra in (("--quantiles", 0.5), ("--std",), ("--recalibrated",)):
        assert "--last is one network" in error(*predict, tmp_path / "negative.npy", "--last", *extra)
    assert "is a data set made by" in error("predict", data.folder, *predict[2:], tmp_path / "negative.npy")
    (tmp_path / "empty.npy").touch()
    assert "empty.npy cannot be read" in error(*predict, tmp_path / "empty.npy")
    np.savez(tmp_path / "cut.npz", kappa=negative)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-50])
    assert "cut.npz cannot be read" in error(*predict, tmp_path / "cut.npz")
    np.save(tmp_path / "complex.npy", negative * 1j)
    assert "must hold real numbers, got complex128" in error(*predict, tmp_path / "complex.npy")
    np.save(tmp_path / "huge.npy", np.abs(negative) * 1e300)
    assert "more than single precision can hold" in error(*predict, tmp_path / "huge.npy")
    assert "is the folder of a run" in error("export", finished.path, *OWN, "--out", finished.path, "--force")
    manifest = (data.folder / "artefact.json").read_bytes()
    assert "not a model" in error("export", finished.path, *OWN, "--out", data.folder, "--force")
    assert (data.folder / "artefact.json").read_bytes() == manifest
    assert "must end in .npz" in error("predict", finished.path, "--input", "x.npy", "--out", tmp_path / "u.txt")
    (tmp_path / "there.html").write_text("mine")
    assert "it exists" in error("report", finished.path, "--out", tmp_path / "there.html")
    assert (tmp_path / "there.html").read_text() == "mine"
    wrong = ["--out", tmp_path / "r.html", "--sample", 10]
    assert "examples 0 to 9, got 10" in error("report", finished.path, *OWN, *wrong)

    sample = min(copy.glob("samples/sample-*"))
    content = sample.read_bytes()
    sample.write_bytes(content[:-10])
    assert f"{sample.name} is damaged" in error("evaluate", copy, *OWN)
    sample.write_bytes(content)
    model = copy / "model.safetensors"
    content = model.read_bytes()
    model.write_bytes(content[:-1] + b"x")
    text = error("evaluate", copy, *OWN)
    assert text.startswith(f"error: {model} is damaged: it does not match its SHA-256")
    model.write_bytes(content)
    for content in ("{}", "[", ""):
        (copy / "result.json").write_text(content)
        assert "result.json is damaged" in error("evaluate", copy, *OWN)
    (copy / "result.json").unlink()
    assert "result.json is damaged: it is missing" in error("evaluate", copy, *OWN)
    begun(copy)
    assert "is not finished: resume it with the same train command" in error("evaluate", copy, *OWN)
    state = checkpoints(copy / "checkpoints")[-1] / "state.safetensors"
    state.write_bytes(b"rubbish" + state.read_bytes()[7:])
    settings = finished.settings
    resume = ["train", "--data", data.folder, "--run", copy, "--sparsity", 0.7, "--network", NETWORK]
    resume += ["--epochs", settings.epochs, "--batch-size", settings.batch_size, "--samples", settings.samples]
    resume += ["--burn-in", settings.burn_in]
    assert "is damaged" in error(*resume)


def test_a_network_beside_the_user(data, tmp_path, monkeypatch, capsys):
    """A module in the current folder is found, by the installed command too; a wrong name leaves the folder free."""
    (tmp_path / "mynet.py").write_text("from tests.surrogates.small import Small as MyNet\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    train = ["train", "--data", data.folder, "--run", "run", *SHORT[:-2], "--network"]
    assert "No module named 'yournet'" in refused(monkeypatch, capsys, *train, "yournet:MyNet")
    monkeypatch.setattr(sys, "argv", ["sparse-langevin", *map(str, [*train, "mynet:MyNet"])])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code and SurrogateRun.open("run").finished


def test_what_an_extra_is_for(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    text = refused(monkeypatch, capsys, "export", finished.path, *OWN, "--out", tmp_path / "small", "--onnx")
    assert "pip install 'sparse-langevin[deploy]'" in text and not (tmp_path / "small").exists()


def test_export_ships_the_last_sample(data, finished, tmp_path, monkeypatch, capsys):
    onnxruntime = pytest.importorskip("onnxruntime")
    text = call("export", finished.path, *OWN, "--out", tmp_path / "small", "--onnx")
    session = onnxruntime.InferenceSession(tmp_path / "small" / "network.onnx")
    kappa = np.random.default_rng(0).uniform(3, 9, (5, 6, 8)).astype(np.float32)
    (velocity,) = session.run(None, {"input": kappa})  # physical units at both ends
    expected = finished.surrogate().predict(kappa).numpy()
    np.testing.assert_allclose(velocity, expected, rtol=1e-4, atol=1e-4)
    assert float(re.search(r"ONNX Runtime differs from torch by at most (\S+)", text).group(1)) < 1e-5
    np.save(tmp_path / "kappa.npy", data.array("kappa", "test"))
    call("export", finished.path, *OWN, "--out", tmp_path / "exact", "--values", "packed")
    found = []
    for folder, more in ((finished.path, ["--last"]), (tmp_path / "small", []), (tmp_path / "exact", [])):
        out = tmp_path / f"{folder.name}.npz"
        call("predict", folder, *more, *OWN, "--input", tmp_path / "kappa.npy", "--out", out)
        with np.load(out) as made:
            found.append(made["velocity"])
    last, small, exact = found
    np.testing.assert_allclose(exact, last, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small, last, rtol=1e-3, atol=1e-3)
    assert np.abs(small - last).max() > 1e-6
    assert "it exists" in refused(monkeypatch, capsys, "export", finished.path, *OWN, "--out", tmp_path / "small")
    call("export", finished.path, *OWN, "--out", tmp_path / "small", "--force")
    assert not (tmp_path / "small" / "network.onnx").exists()  # it might be that of another network
    (tmp_path / "small" / "artefact.json").write_text("{}")
    predict = ["predict", tmp_path / "small", *OWN, "--input", tmp_path / "kappa.npy", "--out", tmp_path / "c.npz"]
    assert "is damaged" in refused(monkeypatch, capsys, *predict)


def test_recalibration_without_samples(data, tmp_path, monkeypatch, capsys):
    call("train", "--data", data.folder, "--run", tmp_path / "run", "--method", "adam", "--validation", 0.3, *SHORT)
    np.save(tmp_path / "kappa.npy", data.array("kappa", "test"))
    predict = ["predict", tmp_path / "run", *OWN, "--input", tmp_path / "kappa.npy", "--out", tmp_path / "out.npz"]
    assert "has kept no posterior samples" in refused(monkeypatch, capsys, *predict, "--recalibrated")


def test_what_is_refused_before_a_run_begins(data, tmp_path, monkeypatch, capsys):
    train = ["train", "--data", data.folder, "--run", tmp_path / "run", *SHORT]
    assert "of 30 training samples is none" in refused(monkeypatch, capsys, *train, "--validation", 0.01)
    for method in ("adam", "psgld"):
        for network, message in {
            "Scalar": "returns outputs of shape (2, 1) for 2 examples: it must return a tensor of shape (2, 110)",
            "FirstAlone": "returns outputs of shape (1, 110) for 2 examples",
            "Pair": "returns a tuple for 2 examples",
            "Unbuilt": "with options {}, failed: AttributeError: 'Grid' object has no attribute 'sides'",
            "Double": "given inputs of shape (2, 1, 6, 8), failed: RuntimeError: mat1 and mat2 must have",
            "Unlayered": "needs sparse layers",
        }.items():
            text = refused(
                monkeypatch,
                capsys,
                *train[:-1],
                NETWORK.replace("Small", network),
                "--method",
                method,
                "--sparsity",
                0.5,
            )
            assert message in text
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("always:error bars are not recalibrated")
def test_another_data_set_when_the_runs_own_is_gone(tmp_path):
    recipe = Recipe("kle", 20, Grid(8, 6), {"terms": 4, "kappa_0": 6.0}, test_share=0.25)
    mine = generate(recipe, tmp_path / "mine", workers=0)
    call("train", "--data", mine.folder, "--run", tmp_path / "run", "--validation", 0.3, "--burn-in", 0.5, *SHORT)
    mine.folder.rename(tmp_path / "gone")
    other = generate(replace(recipe, seed=1), tmp_path / "other", workers=0)
    text = " ".join(call("evaluate", tmp_path / "run", *OWN, "--data", other.folder).split())
    assert "as it is" in text and "warning: error bars are not recalibrated: the data set of the run" in text
