"""Verdicts in plain words, traces from a bank, ArviZ's form, and figures."""

import re
import sys
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its announcement of a new major version
    import arviz

from sparse_langevin import PosteriorBank
from sparse_langevin.posterior import Mixture, diagnostics, figures
from sparse_langevin.posterior.calibration import assess
from sparse_langevin.posterior.diagnostics import to_arviz, traces, verdict
from tests.posterior.chains import run

RNG = np.random.default_rng(0)
GOOD = 1 + RNG.standard_normal((4, 500))


def test_chains_that_agree():
    (line,) = verdict({"sigma": GOOD, "w": GOOD**2})
    assert line.startswith("4 chains agree (largest R-hat 1.00")
    assert verdict({"sigma": GOOD[:1]})[0].startswith("the chain agrees with itself")


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (GOOD + 2 * np.arange(4)[:, None], r"these chains disagree about sigma: R-hat \d\.\d; run longer"),
        (GOOD[:1] + np.linspace(0, 5, 500), "the chain has not settled: the halves of sigma disagree"),
        (GOOD + 0.2 * np.arange(4)[:, None], "sigma is not yet settled: R-hat 1.0"),
        (np.full((1, 100), 0.3), "the chain is stuck: sigma took only 1 value"),
        (np.stack([GOOD[0], np.ones(500)]), r"chains are stuck \(1\): sigma took only 1 value"),
        (1 + 1e-9 * GOOD, "this posterior has almost no spread: sigma is 1 "),
        (np.where(GOOD > 3, np.nan, GOOD), "sigma is not finite in .* of 2000 draws: the chain diverged"),
        (np.repeat(GOOD[:, :50], 10, 1), "sigma has .* effective draws of 2000, wanted 400"),
    ],
)
def test_what_is_wrong_is_said(draws, message):
    lines = verdict({"sigma": draws})
    assert any(re.search(message, line) for line in lines)
    assert not lines[0].endswith("effective draws)")


def test_one_fault_among_many_traces():
    lines = verdict({"good": GOOD, "sigma": GOOD + 2 * np.arange(4)[:, None]})
    assert not any("agree (" in line for line in lines) and all("sigma" in line for line in lines)


@pytest.mark.parametrize("draws", [{}, {"sigma": np.ones(9)}, {"sigma": np.ones((2, 3))}])
def test_bad_traces(draws):
    with pytest.raises(ValueError, match=r"at least one trace|shape \(chains, draws >= 4\)"):
        verdict(draws)


def test_traces_of_a_bank():
    bank = PosteriorBank(thin=5)
    for chain, steps in ((0, 40), (1, 50)):
        run(bank, steps=steps, chain=chain)
    samples = list(bank)
    found = traces(bank, {"sigma": lambda s: s.sigma, "bias": lambda s: s.parameters["2.bias"][0]})
    assert found["sigma"].shape == (2, 8)
    assert found["sigma"].tolist() == [[s.sigma for s in samples[:8]], [s.sigma for s in samples[10:]]]
    assert found["bias"][1, -1] == samples[-1].parameters["2.bias"].item()
    assert traces(bank).keys() == {"sigma"}
    with pytest.raises(ValueError, match="no samples to make traces of"):
        traces(PosteriorBank())


def test_arviz_takes_the_traces(monkeypatch):
    data = to_arviz({"sigma": GOOD, "w": GOOD**2})
    assert np.array_equal(data.posterior["sigma"].values, GOOD)
    assert arviz.rhat(data)["w"].item() == pytest.approx(float(diagnostics.rhat(GOOD**2)), rel=1e-10)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"to_arviz needs an extra .*: pip install 'sparse-langevin\[arviz\]'"):
        to_arviz({"sigma": GOOD})


def test_autocorrelation():
    found = diagnostics.autocorrelation(np.stack([GOOD[0], np.ones(500)]))
    centred = GOOD[0] - GOOD[0].mean()
    direct = [centred[: 500 - k] @ centred[k:] / (centred @ centred) for k in range(5)]
    assert found[0, :5] == pytest.approx(direct) and np.isnan(found[1]).all()


def test_figures_show_every_chain_and_name_their_axes(tmp_path):
    draws = {"sigma": GOOD, "w": GOOD**2}
    for draw in (figures.trace_figure, figures.rank_figure, figures.autocorrelation_figure):
        figure = draw(draws)
        figure.savefig(tmp_path / "figure.png")
        assert len(figure.axes) == 2 and all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert labels[:4] == [f"chain {i}" for i in range(4)]
    trace = figures.trace_figure(draws).axes[0].lines[2]
    assert np.array_equal(trace.get_ydata(), GOOD[2])
    ranks = figures.rank_figure({"sigma": GOOD}).axes[0].patches
    assert all(patch.get_data().values.sum() == 500 for patch in ranks[:4])
    results = {"model": assess([(GOOD[0], Mixture.normal(np.ones(500), 1.0))])}
    figure = figures.calibration_figure(results)
    figure.savefig(tmp_path / "calibration.png")
    assert all(a.get_xlabel() and a.get_ylabel() for a in figure.axes)
    with pytest.raises(ValueError, match=r"shape \(chains, draws\)"):
        figures.trace_figure({"sigma": np.ones(3)})
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.trace_figure({})


def test_one_line_for_each_kind_of_fault():
    apart = np.arange(4)[:, None]
    lines = verdict({"a": GOOD + 2 * apart, "b": GOOD + 5 * apart, "c": GOOD, "d": GOOD + 3 * apart})
    (line,) = (line for line in lines if "disagree" in line)
    assert line.startswith("these chains disagree about b: R-hat") and line.endswith("(likewise for d, a)")
