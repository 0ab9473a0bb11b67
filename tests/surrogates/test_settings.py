"""Settings: what they refuse, that they survive JSON, and the chain that they describe."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from sparse_langevin import GaussianPrior, Pruning, Sampler, SpikeSlab
from sparse_langevin.problems.darcy import DarcyProblem, Grid
from sparse_langevin.surrogates import Settings, train
from sparse_langevin.surrogates.networks import make_network
from sparse_langevin.surrogates.training import make_chain
from tests.surrogates.conftest import short
from tests.surrogates.small import Small

RESULTS = Path(__file__).parents[2] / "results"


def test_settings_make_the_chain_they_describe():
    grid = Grid(8, 6)
    sampler = make_chain(
        short("psgld-sa", sparsity=0.5, v0=0.3, v1=2.0, sigma0=0.7), Small(grid), rows=30, outputs=110, steps=100
    )
    assert isinstance(sampler, Sampler) and "v" in sampler.vectors and sampler.num_data == 30
    assert sampler.pruning == Pruning(0.5, end=50)
    assert (sampler.timetable._tau(50), sampler.timetable._tau(51)) == (math.inf, 1.0)
    priors = sampler._priors
    assert priors["layers.1.weight"] == SpikeSlab(v0=0.3, v1=2.0, a=480, b=480, delta=0.5, latents="averaged")
    assert priors["(dense)"] == GaussianPrior(0.7)
    plain = make_chain(short("sgld", step_size=0.5, warmup=0.0), Small(grid), rows=30, outputs=110, steps=100)
    assert (
        "v" not in plain.vectors
        and plain.timetable._tau(1) == 1.0
        and plain.timetable._step_size.initial == pytest.approx(0.5 / (30 * 110))
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "hmc"}, "there is no method 'hmc': choose one of sgld"),
        ({"sparsity": 1.5}, "sparsity is a share in [0, 1), got 1.5"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"tau": math.inf}, "tau must be positive and finite, got inf"),
        ({"seed": 10**20}, "seed must be a number from 0"),
        ({"step_size": -1.0}, "step_size must be positive and finite, got -1.0"),
        ({"prune_end": 0.0}, "prune_end"),
        ({"samples": -1}, "samples must be a number from 0 to 2^63 - 1, got -1"),
        ({"noise_from": 0.9}, "noise_from is 0.9, but samples are taken from burn_in = 0.5 on"),
        (
            {"network": "nothing"},
            "Darcy flow has no network 'nothing': choose one of encoder-decoder, darcy-encoder-decoder",
        ),
        ({"network": "tests.surrogates.small:Missing"}, "there is no network"),
        ({"network": "tests.surrogates.small:not_a_network"}, "not a torch.nn.Module"),
        ({"network": "torch.nn:Linear"}, "torch.nn:Linear, made for Darcy flow with options {}, failed: TypeError"),
        ({"warmup": 0.7}, "warmup is 0.7, but steps fall until burn_in = 0.5"),
        ({"validation": 0.99}, "none are left to train on"),
    ],
)
def test_bad_settings(changes, message, data, tmp_path):
    method = changes.pop("method", "psgld-sa")
    with pytest.raises(ValueError, match=re.escape(message)):
        train(short(method, **changes), data, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()  # the corrected call may use it


def test_numbers_of_numpy_are_numbers():
    settings = short(sparsity=np.float32(0.5), seed=np.int64(3), epochs=2.0)
    assert json.loads(json.dumps(settings.as_json()))["seed"] == 3 and settings.epochs == 2
    for wrong, words in ({"batch_size": 2.5}, "a whole number"), ({"tau": "1"}, "a number"):
        with pytest.raises(ValueError, match=f"must be {words}, got"):
            short(**wrong)


def test_settings_survive_json():
    settings = short(sparsity=0.3)
    assert Settings.from_json(json.loads(json.dumps(settings.as_json()))) == settings
    with pytest.raises(ValueError, match="unknown setting 'colour'"):
        Settings.from_json({"colour": "red"})


def test_noise_is_there_when_samples_are_taken():
    assert Settings.of("psgld-sa").noise_from == 0.5
    assert Settings.of("psgld-sa", burn_in=0.3).noise_from == 0.3
    assert Settings.of("psgld-sa", momentum=0.0).noise_from == Settings.of("sgld").noise_from == 0.0


def test_records_of_earlier_versions_are_read():
    tables = [RESULTS / study / "table.json" for study in ("kle", "channels", "search", "uncertainty")]
    records = [record for table in tables for record in json.loads(table.read_text())]
    every = [s for r in records for s in (r["settings"] if isinstance(r["settings"], list) else [r["settings"]])]
    names = {Settings.from_json(settings).network for settings in every}
    assert {"", "darcy-encoder-decoder", "sparse_langevin.studies.darcy_search:ReLUNetwork"} < names
    for name in names:
        make_network(name, DarcyProblem(Grid(8, 6)), {})  # they are ours, and there: nothing has to be trusted
