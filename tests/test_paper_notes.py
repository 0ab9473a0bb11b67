"""The notes on the paper: their numbers, and that the page shows what the program prints."""

import contextlib
import functools
import importlib
import io
import math
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
paper_notes = importlib.import_module("paper_notes")

# (lowest, highest) of each key number. Exact values where there are any: stationary densities by hand, closed forms.
BOUNDS = {
    "v-weights": {
        "printed": (1.40, 1.54),  # 1.444 and a few percent for the step size
        "holds": (0.98, 1.07),
        "printed_spread": (1.0, 1.5),
        "holds_spread": (0.1, 0.35),
    },
    "noise-covariance": {  # printed: 1/sqrt(G) = sqrt(1/s + eta), and a few percent for the step size
        "printed_0": (1.95, 2.2),
        "printed_1": (0.95, 1.08),
        "printed_2": (0.45, 0.56),
        "holds_0": (0.97, 1.1),
        "holds_1": (0.95, 1.08),
        "holds_2": (0.92, 1.08),
    },
    "sigma-quadratic": {
        "positive_roots": (0, 0),
        "root": (1.6, 1.9),
        "grid_minus_root": (-1e-4, 1e-4),
        "q1_minus_root": (-0.01, -0.003),
    },
    "slab-norm": {  # sigma * sqrt((N + p/v1)/(N + p)) for the printed norm
        "printed_10": (1.0, 1.2),
        "holds_10": (1.6, 1.9),
        "printed_0.1": (4.2, 5.0),
        "holds_0.1": (1.6, 1.9),
    },
    "residual-count": {"printed": (7.6, 7.9), "holds": (1.70, 1.76), "factor": (1.443, 1.445)},
    "v0-v1": {
        "zero_10_0.1": (0.96, 0.965),
        "strong_10_0.1": (0, 1e-4),
        "zero_100_0.1": (0.99, 1),
        "strong_100_0.1": (0, 1e-4),
        "zero_0.1_10": (0, 0.03),
        "strong_0.1_10": (0.999, 1),
        "zero_0.1_100": (0, 0.03),
        "strong_0.1_100": (0.999, 1),
        "warnings": (1, 1),
    },
    "omega-cap": {
        "omega_1": (3.95, 3.96),
        "last_above_1": (619, 619),
        "sigma_2": (-math.inf, -1),
        "capped_min": (1, 2),
        "warnings": (1, 1),
    },
    "alpha-schedule": {
        "printed_2000": (3.2, math.inf),
        "printed_4000": (4.5, math.inf),
        "printed_warnings": (1, 1),
        "holds_4000": (1.1, 2.5),  # six seeds: 1.69 to 2.15, and still falling
        "holds_warnings": (0, 0),
    },
    "step-scale": {"curvature": (200, 500), "last_unstable": (400, 700), "sum": (1e20, math.inf), "mean": (3, 10)},
    "beta-zeros": {"signal_1": (0, 0), "signal_3": (13.5999, 13.6001), "share_3": (0.81, 0.83)},
    "gamma-sum": {
        "plain_6": (190, 200),
        "square_6": (0.35, 0.40),
        "weighted_6": (0, 0.001),
        "ratio_6": (0.12, 0.13),
    },
    "gamma-bias": {
        "quadrature": (1.4435, 1.4440),
        "plain": (1.39, 1.50),
        "corrected": (0.96, 1.04),
        "moving_0.9_0.01": (1.3, 1.5),
        "moving_0.99_0.1": (1.04, 1.10),
        "moving_0.99_0.01": (1.17, 1.27),
        **{f"frozen_{alpha}_0.01": (0.96, 1.04) for alpha in (0.9, 0.99, 0.999)},
    },
    "tau-gamma": {"printed": (0.360, 0.364), "holds": (0.48, 0.52)},
    "delta-collapse": {
        "mode_delta": (0, 1e-100),
        "mode_rho": (0, 1e-3),
        "mean_delta": (1 / 401, 0.02),
        "mean_rho": (0.95, 1),
    },
    "rho-exact": {
        "exact_0.1_0": (0.04, 0.05),
        "rho_0.1_0": (0.04, 0.05),
        "exact_0.1_3": (0.22, 0.25),
        "rho_0.1_3": (0.22, 0.25),
        "exact_0.03_3": (0.58, 0.62),
        "rho_0.03_3": (0.27, 0.31),
        "exact_0.03_5": (0.99, 1),
        "rho_0.03_5": (0.99, 1),
    },
    "log-odds": {"quotient_1": (0.999, 1), "log_odds_1": (0.999, 1), "log_odds_0.02": (0.999, 1)},
    "sigma-pruned": {"kept": (4, 4), "counted": (0.8, 1.2), "holds": (1.5, 2.0), "chain": (1.5, 2.0)},
    "covariance-sign": {
        "smallest_1": (-math.inf, -1e11),
        "correlation_1": (1e10, math.inf),
        "smallest_-1": (-1e-12, 1e-12),
        "correlation_-1": (1, 1),
    },
    "positive-fields": {
        "negative_2": (0.86, 0.90),
        "negative_4": (0.10, 0.12),
        "negative_6": (0.0003, 0.002),
        "variance_32": (0.9865, 0.9875),
        "variance_64": (0.9996, 0.9998),
    },
    "boundary-sign": {
        "u0_1": (-1.501, -1.499),
        "u0_-1": (0.499, 0.501),
        "u1_-1": (1.499, 1.501),
        "middle_-1": (0.624, 0.626),
    },
    "sample-counts": {"left": (200, 200), "shared": (100, 100)},
    "e2-norm": {
        "e1_0.01": (0.00999, 0.01001),
        "printed_ratio": (3.99, 4.01),
        "holds_ratio": (1.99, 2.01),
        "holds_0.01": (0.005, 0.02),
    },
    "parameter-count": {
        "readings": (1_179_648, 1_179_648),
        "totals": (0, 0),
        "pairs": (1, 1),
        "sparse": (6_110_624, 6_110_624),
    },
}
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


@functools.cache
def run(name: str) -> tuple[dict[str, float], str]:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        numbers = paper_notes.NOTES[name]()
    return numbers, text.getvalue()


def test_every_note_has_bounds():
    assert BOUNDS.keys() == paper_notes.NOTES.keys()


# One test for both, so that a run on several processes computes each note once.
@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_and_page(name):
    numbers, printed = run(name)
    outside = {k: numbers[k] for k, (low, high) in BOUNDS[name].items() if not low <= numbers[k] <= high}
    assert not outside

    page = (ROOT / "docs" / "paper-notes.md").read_text()
    command = f"$ python examples/paper_notes.py {name}\n"
    assert page.count(command) == 1
    shown = page.split(command)[1].split("```")[0]
    assert words_in(shown) == words_in(printed)
    pairs = zip(numbers_in(shown), numbers_in(printed), strict=True)
    tiny = 1e-6  # rounding, such as the smallest eigenvalue of a covariance
    assert all(abs(a) < tiny > abs(b) or a == pytest.approx(b, rel=0.1, abs=0.03) for a, b in pairs)


def test_the_quotient_is_zero_over_zero():
    assert math.isnan(run("log-odds")[0]["quotient_0.02"])


def test_command_line(capsys):
    assert paper_notes.main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(paper_notes.NOTES)
    assert paper_notes.main(["beta-zeros"]) == 0
    assert capsys.readouterr().out == run("beta-zeros")[1]
    assert paper_notes.main(["no-such-note"]) == 2
    assert "beta-zeros" in capsys.readouterr().err


def numbers_in(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def words_in(text: str) -> str:
    return " ".join(NUMBER.sub("#", text).split())
