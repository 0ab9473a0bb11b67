"""Verdicts follow from the records."""

import numpy as np
import pytest

from sparse_langevin.studies.regression_claims import verdicts

NAMES = ("psgld-sa", "sgld-sa", "psgld")


def record(mse=3.0, means=(3.0, 1.0), sd=(0.2, 0.2), covers=(True, True), fast=True):
    effects = [{"mean": m, "sd": s, "covers": c} for m, s, c in zip(means, sd, covers, strict=True)]
    curve = [20.0, mse, mse] if fast else [20.0, 20.0, mse]
    history = {"step": [1, 10, 100], "mean_mse": curve, "mean_mae": curve}
    return {"mse": mse, "effects": effects, "history": history}


def study(size=20, test=1, **records):
    """Records with the same for all contenders, except those named; a function is called with the replicate."""
    made = {}
    for replicate in range(size):
        found = {"oracle": record()}
        for name in NAMES:
            value = records.get(name.replace("-", "_"), record())
            value = value(replicate) if callable(value) else value
            found |= {name: value, "paper-" + name: value}
        made[test, replicate] = found
    return made


def verdict(records, words, version="library"):
    (claim,) = [c for c in verdicts(records) if words in c.quote and c.version == version and (c.test, 0) in records]
    return claim.verdict


def test_too_few_replicates_decide_nothing():
    assert {claim.verdict for claim in verdicts(study(size=4))} == {"not decided"}
    assert {claim.verdict for claim in verdicts({})} == {"not decided"}


def test_every_claim_is_judged_for_both_versions_but_curves_have_one():
    claims = verdicts(study())
    assert len(claims) == 19
    assert sum(claim.version == "as printed" for claim in claims) == 10


def test_similar_errors():
    noise = np.random.default_rng(0).normal(0, 0.01, 100)
    assert verdict(study(), "work similarly well") == "holds"
    worse = lambda r: record(mse=3.5 + noise[r])  # noqa: E731
    assert verdict(study(sgld_sa=worse), "work similarly well") == "does not hold"
    vague = lambda r: record(mse=3.5 + (9.0 if r % 2 else -9.0))  # noqa: E731
    assert verdict(study(sgld_sa=vague), "work similarly well") == "not decided"


def test_means_and_spreads():
    assert verdict(study(), "posterior mean against truth") == "holds"
    off = lambda r: record(means=(3.0, 0.8))  # noqa: E731
    assert verdict(study(psgld_sa=off), "posterior mean against truth") == "does not hold"
    vague = lambda r: record(means=(3.0, 0.8 + (1.0 if r % 2 else -1.0)))  # noqa: E731
    assert verdict(study(psgld_sa=vague), "posterior mean against truth") == "not decided"
    assert verdict(study(psgld_sa=vague, sgld_sa=off), "posterior mean against truth") == "does not hold"
    assert verdict(study(), "variance in model parameters") == "holds"
    assert verdict(study(sgld_sa=record(sd=(0.2, 0.3))), "variance in model parameters") == "does not hold"


@pytest.mark.parametrize(
    "covered, sd, right",
    [(19, 0.2, True), (17, 0.2, True), (15, 0.2, False), (20, 0.5, False), (20, 0.1, False)],
)
def test_calibration(covered, sd, right):
    def some(replicate):
        return record(sd=(0.2, sd), covers=(True, replicate < covered))

    assert verdict(study(sgld_sa=some), "quantified correctly") == ("holds" if right else "does not hold")
    assert verdict(study(psgld=some), "cannot capture") == ("does not hold" if right else "holds")


def test_faster_curves():
    words = "converge a little bit faster"
    assert verdict(study(sgld_sa=record(fast=False)), words, "as printed") == "holds"
    assert verdict(study(psgld_sa=record(fast=False)), words, "as printed") == "does not hold"
    assert verdict(study(), words, "as printed") == "does not hold"


def test_the_second_test():
    assert verdict(study(test=2), "different scales") == "does not hold"
    assert verdict(study(test=2, psgld_sa=record(sd=(0.6, 0.2))), "different scales") == "holds"
    assert verdict(study(test=2), "outperforms SGLD-SA") == "does not hold"
    assert verdict(study(test=2, sgld_sa=record(mse=3.1)), "outperforms SGLD-SA") == "does not hold"
    assert verdict(study(test=2, sgld_sa=record(mse=3.5)), "outperforms SGLD-SA") == "holds"
    noisy = lambda r: record(mse=3.5 + (9.0 if r % 2 else -9.0))  # noqa: E731
    assert verdict(study(test=2, psgld=noisy), "outperforms PSGLD obviously") == "does not hold"
