"""ONNX files say what torch says."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin.deploy import export_onnx, onnx_file, sparsify
from sparse_langevin.problems.darcy import DarcyEncoderDecoder, EncoderDecoder, Grid

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module", params=[EncoderDecoder, DarcyEncoderDecoder])
def exported(request, tmp_path_factory):
    torch.manual_seed(0)
    model = request.param(Grid(7, 6), hidden=30)
    for parameter in model.parameters():  # none of them zero
        parameter.data += 0.1 * torch.randn(parameter.shape)
    path = tmp_path_factory.mktemp("onnx") / "deep" / "model.onnx"
    difference = export_onnx(model, torch.randn(3, 1, 6, 7), path)
    return model, path, difference


@pytest.mark.parametrize("batch", [1, 2, 9])
def test_equal_at_any_batch_size(exported, batch):
    model, path, difference = exported
    x = torch.randn(batch, 1, 6, 7)
    with torch.no_grad():
        expected = model(x).numpy()
    (output,) = onnxruntime.InferenceSession(path).run(["output"], {"input": x.numpy()})
    assert np.abs(output - expected).max() <= 1e-5 * np.abs(expected).max()
    assert difference <= 1e-5
    assert model.training


class Shifted(nn.Module):
    """Constants that an optimiser may take for zero."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Buffer(torch.full((3,), 6e-13))

    def forward(self, x):
        return (x - self.mean) / 1e-13


def test_small_constants_are_kept(tmp_path):
    assert export_onnx(Shifted(), 6e-13 + 1e-13 * torch.rand(4, 3), tmp_path / "m.onnx") < 1e-4


def test_nothing_is_overwritten_unless_asked(exported):
    model, path, _ = exported
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="it exists"):
        export_onnx(model, torch.randn(2, 1, 6, 7), path)
    assert path.read_bytes() == before


def test_a_difference_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_file, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match=r"differ by .* nothing was written"):
        export_onnx(nn.Linear(3, 2), torch.randn(2, 3), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"at least two samples, got shape \(1, 3\)"):
        export_onnx(nn.Linear(3, 2), torch.randn(1, 3), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="'the model' is a SparseLinear"):
        export_onnx(sparsify(nn.Linear(3, 2), min_zeros=0.0), torch.randn(2, 3), tmp_path / "m.onnx")


class Fickle(nn.Module):
    def forward(self, x):
        return x + 1 if float(x.sum()) > 0 else x.view(2, -1)


def test_a_model_that_cannot_be_exported_gives_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"^torch cannot turn this model into ONNX with any batch size: .+$") as caught:
        export_onnx(Fickle(), torch.randn(2, 3), tmp_path / "m.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_extra_is_named_when_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'sparse-langevin\[deploy\]'"):
        export_onnx(nn.Linear(3, 2), torch.randn(2, 3), tmp_path / "m.onnx")
