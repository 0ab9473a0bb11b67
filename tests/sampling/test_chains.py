"""Several chains: they are those of `fit`, survive kills, are named when they fail, and are compared."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from sparse_langevin import ChainWarning, GaussianLikelihood, PosteriorBank, SpikeSlab, fit_chains, psgld_sa
from sparse_langevin.posterior.diagnostics import traces
from sparse_langevin.sampling.agreement import TOLERANCE
from sparse_langevin.sampling.chain_worker import read_progress
from sparse_langevin.storage.checkpoint import checkpoints
from tests.processes import processes
from tests.sampling.chains_run import X, Y, alone, content, loader, make, run_to_end

pytestmark = pytest.mark.usefixtures("forked", "one_thread")


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bank_in(place, tmp_path, **options):
    return PosteriorBank(folder=tmp_path / "samples" if place == "disk" else None, **({"thin": 10} | options))


def linear(chain, **options):
    """A sampler of a linear model."""
    settings = {"num_data": 25, "step_size": 1e-3, "chain": chain}
    return psgld_sa(nn.Linear(3, 1), GaussianLikelihood(), **(settings | options))


@pytest.mark.filterwarnings("ignore:the bank takes its first sample")
@pytest.mark.parametrize("place", ["memory", "disk"])
@pytest.mark.parametrize("workers", [0, 2])
def test_chains_are_those_of_fit(place, workers, tmp_path):
    """Bit for bit: samples, histories and inclusion probabilities; torch's random state here stays as it was."""
    before = torch.get_rng_state()
    measure = {"steps": 60, "evaluate": lambda model: {"mse": (model(X) - Y).square().mean()}, "evaluate_every": 20}
    found = fit_chains(make, loader, chains=3, bank=bank_in(place, tmp_path), workers=workers, **measure)
    assert torch.equal(torch.get_rng_state(), before)
    bank = PosteriorBank(thin=10)
    pairs = [alone(i, bank, **measure) for i in range(3)]
    assert content(found.bank) == content(bank) and len(bank) == 18
    assert found.histories == [history for _, history in pairs]
    for layer, rho in found.inclusion().items():
        each = [sampler.inclusion()[layer] for sampler, _ in pairs]
        assert all(torch.equal(a[layer], b) for a, b in zip(found.inclusions, each, strict=True))
        torch.testing.assert_close(rho, sum(each) / 3)
    first = [next(s for s in bank if s.chain == i).parameters["0.weight"] for i in range(3)]
    assert not torch.equal(first[0], first[1]) and not torch.equal(first[1], first[2])
    assert traces(found.bank)["sigma"].shape == (3, 6)
    assert found.bank.predict(pairs[0][0].model, X).samples == 18
    if place == "disk":
        assert content(PosteriorBank(folder=tmp_path / "samples")) == content(bank)
        assert not list((tmp_path / "samples").glob(".writing-*"))


def test_a_loader_for_all_chains_and_settings_of_torch():
    """A DataLoader with processes of its own; numbers are of the precision that is the default here."""
    torch.set_default_dtype(torch.float64)
    try:
        data = DataLoader(TensorDataset(X.double(), Y.double()), batch_size=8, shuffle=True, num_workers=1)
        found = fit_chains(linear, data, chains=2, epochs=2, bank=PosteriorBank(thin=4), workers=2)
    finally:
        torch.set_default_dtype(torch.float32)
    assert [s.step for s in found.bank] == [4, 8, 4, 8]
    assert all(s.parameters["weight"].dtype == torch.float64 for s in found.bank)


def test_lambdas_of_a_script_that_has_no_main(tmp_path):
    """Its processes begin anew, and do not import the script, which would run all over again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nfrom torch import nn\n"
        "from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, fit_chains, sgld\n"
        "print('begins')\n"
        "class Model(nn.Linear): pass\n"
        "options = {'num_data': 25, 'step_size': 1e-4}\n"
        "make = lambda chain: sgld(Model(3, 1), GaussianLikelihood(), chain=chain, **options)\n"
        "data = Batches(torch.randn(25, 3), torch.randn(25, 1), batch_size=25)\n"
        "found = fit_chains(make, data, chains=2, steps=10, bank=PosteriorBank(thin=5), workers=2)\n"
        "print([(s.chain, s.step) for s in found.bank], found.agreement)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "begins\n[(0, 5), (0, 10), (1, 5), (1, 10)] None\n", done.stderr


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_names_the_chain_and_the_others_are_saved(workers, tmp_path):
    def fails(chain):
        if chain == 1:
            raise KeyError("no such thing")
        return linear(chain)

    for run in (None, tmp_path / "run"):
        with pytest.raises(ValueError, match=r"^chain 1 failed: KeyError: 'no such thing'"):
            fit_chains(fails, loader, chains=2, steps=20, bank=PosteriorBank(), run=run, workers=workers)
    assert checkpoints(tmp_path / "run" / "chain-0" / "checkpoints")[-1].name == "step-000000020"
    found = fit_chains(linear, loader, chains=2, steps=20, bank=PosteriorBank(), run=tmp_path / "run", workers=workers)
    assert len(found.bank) == 4


def test_without_a_run_a_failure_ends_the_others(tmp_path):
    def slow(chain):
        if chain == 1:
            raise FloatingPointError("it diverged")
        time.sleep(60)

    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"^chain 1 failed: FloatingPointError: it diverged$"):
        fit_chains(slow, loader, chains=2, steps=20, bank=PosteriorBank(folder=tmp_path / "bank"), workers=2)
    assert time.monotonic() - begin < 50
    assert [path.name for path in (tmp_path / "bank").iterdir()] == ["artefact.json"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, r"chains must be an integer in \[1, 2\*\*10\), got 0"),
        ({"workers": -1}, "workers must be an integer at least 0, got -1"),
        ({"steps": None}, "give either steps or epochs"),
        ({"tensorboard": True}, "needs a run folder"),
        ({"make": lambda chain: linear(0)}, r"chain 1 failed: .*make\(1\) returned a sampler of chain 0.*chain=chain"),
        ({"make": lambda chain: nn.Linear(2, 1)}, r"chain 0 failed: .*make\(0\) must return a sampler"),
        ({"train": []}, "the loader is empty"),
    ],
)
def test_bad_arguments(options, message):
    given = {"make": linear, "train": loader, "chains": 2, "steps": 10, "bank": PosteriorBank(), "workers": 0} | options
    with pytest.raises(ValueError, match=message):
        fit_chains(given.pop("make"), given.pop("train"), **given)


def test_what_cannot_be_copied():
    lock = threading.Lock()

    def locked(chain):
        with lock:
            return linear(chain)

    with pytest.raises(ValueError, match=r"^make, train, evaluate and callbacks are .*'_thread.lock'.* workers=0"):
        fit_chains(locked, loader, chains=2, steps=10, bank=PosteriorBank())
    assert len(fit_chains(locked, loader, chains=2, steps=10, bank=PosteriorBank(), workers=0).bank) == 2


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_bank_with_samples_of_these_chains(place, tmp_path):
    bank = bank_in(place, tmp_path)
    alone(1, bank, make=linear, steps=20)
    for run in (None, tmp_path / "run"):
        with pytest.raises(ValueError, match=r"samples of another run, of chain 1: .*chain=0\)"):
            fit_chains(linear, loader, chains=2, steps=20, bank=bank, run=run, workers=0)
    found = fit_chains(linear, loader, chains=1, steps=20, bank=bank, workers=0)
    assert [(s.chain, s.step) for s in found.bank] == [(0, 10), (0, 20), (1, 10), (1, 20)]


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_runs_can_be_repeated_prolonged_and_given_more_chains(place, tmp_path):
    for chains, steps in ((1, 20), (2, 20), (2, 20), (2, 40), (3, 40)):
        bank = bank_in(place, tmp_path)
        found = fit_chains(linear, loader, chains=chains, steps=steps, bank=bank, run=tmp_path / "run", workers=0)
        assert [(s.chain, s.step) for s in bank] == [(c, k) for c in range(chains) for k in range(10, steps + 1, 10)]
    whole = PosteriorBank(thin=10)
    histories = [alone(i, whole, make=linear, steps=40)[1] for i in range(3)]
    assert content(found.bank) == content(whole)
    assert [history[-1] for history in found.histories] == [history[-1] for history in histories]


@pytest.mark.filterwarnings("ignore:the chains disagree")
@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_budget_holds_for_all_chains_together(place, tmp_path):
    """All are thinned alike, also if one had to drop more samples than another."""
    free = fit_chains(linear, loader, chains=3, steps=400, bank=PosteriorBank(thin=5, burn_in=5), workers=0).bank
    bank = bank_in(place, tmp_path, thin=5, burn_in=5, budget=free.nbytes // 3)
    fit_chains(linear, loader, chains=3, steps=400, bank=bank, workers=0)
    assert bank.nbytes <= free.nbytes // 3 and bank.spacing > 5
    steps = [k for k in range(10, 401, 5) if (k - 5) % bank.spacing == 0]
    assert [(s.chain, s.step) for s in bank] == [(c, k) for c in range(3) for k in steps]
    assert content(bank) == [one for one in content(free) if one[1] in steps]


def launch(folder, stop=None, number=None, steps=3000):
    """Run in a process of its own; send it a signal once a condition holds. Return how it ended."""
    process = processes.Process(target=run_to_end, args=(str(folder), steps))
    process.start()
    deadline = time.monotonic() + 120
    while stop is not None and not stop() and process.is_alive():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if number is not None:
        os.kill(process.pid, number)
    process.join(timeout=240)
    return process.exitcode


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def saved(folder, step):
    """Whether both chains have come to a step."""
    found = [checkpoints(folder / f"chain-{i}" / "checkpoints") for i in (0, 1)]
    return all(some and int(some[-1].name.removeprefix("step-")) >= step for some in found)


def wait_for_the_end_of_the_chains(folder):
    """Chains save when their parent is gone, which takes a moment; being forked here, they hold its folder too."""
    from sparse_langevin.storage.errors import LockedError
    from sparse_langevin.storage.files import locked

    for held in (folder / "chain-0", folder / "chain-1", folder):
        for _ in range(1000):
            try:
                with locked(held):
                    break
            except LockedError:
                time.sleep(0.02)


def test_killed_and_stopped_runs_go_on(tmp_path):
    """SIGKILL, SIGTERM and SIGINT to the process that started them: they end with the same bytes as if left alone."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert launch(whole) == 0
    for step, number, code in ((1, signal.SIGKILL, -9), (200, signal.SIGTERM, 75), (400, signal.SIGINT, 75)):
        assert launch(killed, lambda step=step: saved(killed, step), number) == code
        wait_for_the_end_of_the_chains(killed)
        assert not list(killed.glob("samples/sample-*"))  # they come at the end
    assert launch(killed) == 0
    assert files(killed) == files(whole)
    assert launch(killed) == 0
    assert files(killed) == files(whole)
    assert len(list((whole / "samples").glob("sample-*"))) == 2 * 298
    one = whole / "chain-1" / "samples" / "sample-001-000000030.safetensors"
    assert one.samefile(whole / "samples" / one.name)  # they take their space once


def test_a_worker_that_is_killed(tmp_path):
    def die(sampler, info):
        if sampler.chain == 1 and info.step == 15:
            os.kill(os.getpid(), signal.SIGKILL)

    options = {"chains": 2, "steps": 30, "run": tmp_path, "save_every": 10, "workers": 2}
    with pytest.raises(ValueError, match=r"^chain 1 failed: exit code -9$"):
        fit_chains(linear, loader, bank=PosteriorBank(), callbacks=[die], **options)
    found = fit_chains(linear, loader, bank=PosteriorBank(), **options)
    bank = PosteriorBank()
    for i in (0, 1):
        alone(i, bank, make=linear, steps=30)
    assert content(found.bank) == content(bank)


def test_warnings_of_chains_are_passed_on():
    def hasty(chain):
        return linear(chain, omega=2.0 if chain != 1 else 0.1)

    with pytest.warns(ChainWarning, match=r"^omega_1 = 2 is above 1.*\(chains 0, 2\)$"):
        fit_chains(hasty, loader, chains=3, steps=10, bank=PosteriorBank(), workers=3)


def test_chains_that_disagree_about_inclusion():
    """Each begins where its prior says, and has no time to leave."""

    def biased(chain):
        return linear(chain, prior=SpikeSlab(delta=0.99 if chain == 1 else 0.01, latents="averaged"), omega=1e-6)

    with pytest.warns(ChainWarning, match=r"whether weight\[0, \d\] belongs in the model: its rho is 0.99 in chain 1"):
        found = fit_chains(biased, loader, chains=3, steps=5, bank=PosteriorBank(), workers=0)
    rho = np.array([one["weight"].numpy() for one in found.inclusions])
    apart = np.ptp(rho, axis=0)
    agreement = found.agreement
    assert agreement.difference == pytest.approx(apart.max()) and apart.max() > TOLERANCE
    assert agreement.layer == "weight" and apart[agreement.index] == apart.max()
    assert agreement.rho == pytest.approx(rho[(slice(None), *agreement.index)])
    assert agreement.layers == {"weight": pytest.approx(rho.mean((1, 2)))} and agreement.comparable


def test_a_network_is_not_comparable():
    found = fit_chains(make, loader, chains=2, steps=20, bank=PosteriorBank(burn_in=20), workers=0)
    assert not found.agreement.comparable and found.agreement.layers.keys() == {"0.weight", "3.weight"}


def test_the_example_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "guide.md").read_text()
    (block,) = (b for b in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL) if "fit_chains(" in b)
    torch.manual_seed(0)
    x = torch.randn(100, 20)
    names = {"nn": nn, "x": x, "y": x[:, :1], "x_test": x[:5]}
    shorter = block.replace("chains=4", "chains=2").replace("epochs=200", "epochs=60")
    exec(f"from sparse_langevin import *\n{shorter}", names)
    assert names["prediction"].mean.shape == (5, 1) and names["rho"].shape == (32, 20)
    assert {s.chain for s in names["chains"].bank} == {0, 1} and (tmp_path / "runs" / "four" / "chain-1").is_dir()
    assert names["verdict"]


def test_progress(tmp_path, capsys):
    assert read_progress(tmp_path / "missing") == (0, "")
    (tmp_path / "told").write_text("12 loss 0.3")
    assert read_progress(tmp_path / "told") == (12, "loss 0.3")
    fit_chains(linear, loader, chains=2, steps=10, bank=PosteriorBank(), progress=True, workers=2)
    shown = capsys.readouterr().err
    assert "chain 0" in shown and "chain 1" in shown and shown.count("step 10/") == 2
