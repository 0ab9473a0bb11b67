"""Networks by name, with options of their own."""

import importlib
import json
import sys

import pytest
import torch

from sparse_langevin.problems.darcy import DarcyEncoderDecoder, DarcyProblem, EncoderDecoder, Grid
from sparse_langevin.surrogates import Settings, SurrogateRun, train
from sparse_langevin.surrogates.networks import make_network
from tests.commands import call, refused
from tests.surrogates.conftest import short
from tests.surrogates.small import NETWORK

PROBLEM = DarcyProblem(Grid(8, 6))
SMALL = {"channels": (4, 3, 2, 2), "code": 3, "hidden": 50}
UNKNOWN = "Darcy flow has no network 'unet': choose one of encoder-decoder, darcy-encoder-decoder, or name your own"


def test_names_and_options_make_the_network():
    default, named = make_network("", PROBLEM, {}), make_network("encoder-decoder", PROBLEM, {})
    assert type(default) is type(named) is EncoderDecoder
    assert [p.shape for p in default.parameters()] == [p.shape for p in EncoderDecoder(Grid(8, 6)).parameters()]
    made = make_network("darcy-encoder-decoder", PROBLEM, SMALL)
    assert type(made) is DarcyEncoderDecoder and made.decode[-1].weight.shape == (110, 50)
    assert made.decode[6].in_features == 2 * 3**2 and made.encode[2].weight.shape[:2] == (3, 4)


def test_a_run_remembers_its_options(data, tmp_path):
    settings = short(epochs=1, samples=1, network="", network_options=SMALL)
    run = train(settings, data, tmp_path / "run", progress=False)
    again = SurrogateRun.open(tmp_path / "run")  # it is ours: there is nothing to trust
    assert again.settings == settings == Settings.from_json(json.loads(json.dumps(settings.as_json())))
    assert again.surrogate().network.decode[-1].in_features == 50
    assert run.result["parameters"] == sum(p.numel() for p in EncoderDecoder(data.grid, **SMALL).parameters())
    with pytest.raises(ValueError, match=r"started with network_options\.hidden = 50, now it is 51"):
        train(short(epochs=1, samples=1, network="", network_options=SMALL | {"hidden": 51}), data, tmp_path / "run")


def test_options_on_the_command_line(data, tmp_path, monkeypatch, capsys):
    train = ["train", "--data", data.folder, "--run", tmp_path / "run", "--epochs", 1, "--network-option"]
    call(*train, "hidden=50", "--network-option", "channels=[4,3,2,2]", "--network", "darcy-encoder-decoder")
    found = SurrogateRun.open(tmp_path / "run")
    assert found.settings.network_options == {"hidden": 50, "channels": [4, 3, 2, 2]}
    assert type(found.surrogate().network) is DarcyEncoderDecoder
    call("evaluate", tmp_path / "run")
    train[4] = tmp_path / "other"
    for more, message in {
        ("hidden",): "--network-option takes NAME=VALUE, such as width=64; got 'hidden'",
        ("hiden=50",): "encoder-decoder, made for Darcy flow with options {'hiden': 50}, failed: TypeError: ",
        ("hidden=wide",): "with options {'hidden': 'wide'}, failed: TypeError: ",
        ("hidden=50", "--network", "unet"): UNKNOWN,
        ("hidden=50", "--network", ":Class"): "a network of your own is named module:Class, got ':Class'",
        ("hidden=50", "--network", NETWORK): f"{NETWORK}, made for Darcy flow with options {{'hidden': 50}}, failed",
    }.items():
        text = refused(monkeypatch, capsys, *train, *more)
        assert message in text and text.startswith("error: ") and text.count("\n") == 1
    assert not (tmp_path / "other").exists()


class Talkative(torch.nn.Module):
    def __init__(self, grid):
        super().__init__()
        raise RuntimeError("first line\n    second line")


def test_errors_of_networks_are_one_line():
    with pytest.raises(ValueError, match=r"failed: RuntimeError: first line second line$"):
        make_network(f"{__name__}:Talkative", PROBLEM, {}, trust=True)
    with pytest.raises(ValueError, match="network_options must be values that JSON can hold"):
        short(network_options={"activation": torch.nn.ReLU})


def test_the_working_directory_is_searched_only_while_a_named_module_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "nets_of_mine.py").write_text(
        "import part_of_mine\nfrom sparse_langevin.problems.darcy import EncoderDecoder as Net\n"
    )
    for name in ("part_of_mine", "planted_by_others"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(tmp_path))])
    before = list(sys.path)
    assert isinstance(make_network("nets_of_mine:Net", PROBLEM, {}, trust=True), EncoderDecoder)
    assert sys.path == before
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("planted_by_others")
    with pytest.raises(ValueError, match="there is no network 'nobodys:Net' among the installed packages or in the"):
        make_network("nobodys:Net", PROBLEM, {}, trust=True)
    assert sys.path == before
