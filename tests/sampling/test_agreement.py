"""Whether chains agree about inclusion."""

import numpy as np
import pytest
import torch

from sparse_langevin.sampling.agreement import LAYER_TOLERANCE, TOLERANCE, InclusionAgreement


def test_the_largest_difference_and_its_place():
    rng = np.random.default_rng(0)
    rho = {"a": rng.uniform(0, 0.3, (4, 3, 5)), "b": rng.uniform(0, 0.3, (4, 2, 2, 7))}
    rho["b"][1, 1, 0, 4], rho["b"][3, 1, 0, 4] = 0.05, 0.95
    chains = [{name: torch.from_numpy(values[i]) for name, values in rho.items()} for i in range(4)]
    found = InclusionAgreement.of(chains, comparable=True)
    assert (found.layer, found.index) == ("b", (1, 0, 4)) and found.difference == pytest.approx(0.9)
    assert found.rho == pytest.approx(rho["b"][:, 1, 0, 4])
    assert found.layers == {name: pytest.approx(values.reshape(4, -1).mean(1)) for name, values in rho.items()}
    start = "the chains disagree about whether b[1, 0, 4] belongs in the model: its rho is 0.95 in chain 3 and 0.05 in"
    assert found.warning().startswith(f"{start} chain 1. ")


def test_differences_within_the_tolerance():
    for difference, quiet in ((TOLERANCE - 0.01, True), (TOLERANCE + 0.01, False)):
        chains = [{"weight": torch.tensor([[0.2, 0.3]])}, {"weight": torch.tensor([[0.2, 0.3 + difference]])}]
        assert (InclusionAgreement.of(chains, comparable=True).warning() is None) == quiet


def test_units_of_a_network_may_trade_places():
    """Weights that one chain has and the other has not are no disagreement there, unless they are more in one."""
    rho = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    traded = {"0.weight": rho.flip(0), "2.weight": rho}
    for comparable in (False, True):
        found = InclusionAgreement.of([{"0.weight": rho, "2.weight": rho}, traded], comparable=comparable)
        assert found.difference == pytest.approx(0.4) and found.layer == "0.weight"
        assert (found.warning() is not None) == comparable
    traded["2.weight"] = rho.clone()
    traded["2.weight"][2] -= 3 * LAYER_TOLERANCE + 0.05
    found = InclusionAgreement.of([traded, {"0.weight": rho, "2.weight": rho}], comparable=False)
    start = "the chains disagree about how much of 2.weight belongs in the model: its average rho is 0.50 in chain 1"
    assert found.warning().startswith(f"{start} and 0.38 in chain 0. ") and "several fixed points" in found.warning()
    assert InclusionAgreement.of([traded], comparable=True) is None
    assert InclusionAgreement.of([{}, {}], comparable=True) is None
