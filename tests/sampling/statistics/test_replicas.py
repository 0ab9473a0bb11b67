"""Exchange of replicas: a posterior with two modes against quadrature, and the correction for noisy energies."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import Batches, GaussianLikelihood, GaussianPrior, ReplicaExchange, Sampler
from sparse_langevin.sampling.energies import Estimate, penalty

EXAMPLES, SIGMA, SIGMA0 = 64, 2.0, 0.5
TEMPERATURES = (1.0, 3.0, 9.0)


class TwoModes(nn.Module):
    """One weight with output beta^2 + beta/4: the data leave two places for it, and the prior prefers the right one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), -1.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight.square() + 0.25 * self.weight)


def observed() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.ones(EXAMPLES, 1), 1.0 + SIGMA * torch.randn(EXAMPLES, 1, generator=generator)


def make(temperature: float) -> Sampler:
    options = {"prior": GaussianPrior(SIGMA0), "dense_prior": GaussianPrior(SIGMA0), "tau": 1 / temperature}
    return Sampler(
        TwoModes(),
        GaussianLikelihood(sigma=SIGMA, learn=False),
        num_data=EXAMPLES,
        step_size=0.05,
        momentum=0.9,
        **options,
    )


def quantities(beta: np.ndarray) -> np.ndarray:
    """Whether a weight is in the left mode, its output, and the square of that."""
    output = beta**2 + beta / 4
    return np.stack([beta < 0, output, output**2])


def exact(y: torch.Tensor, temperature: float) -> np.ndarray:
    """Expectations of the quantities by quadrature."""
    grid = np.linspace(-4, 4, 20_001)
    residuals = (y.double().numpy() - (grid**2 + grid / 4)) ** 2
    log_density = -(residuals.sum(0) / SIGMA**2 + grid**2 / SIGMA0**2) / (2 * temperature)
    density = np.exp(log_density - log_density.max())
    return quantities(grid) @ density / density.sum()


def test_a_chain_alone_stays_in_its_mode():
    """Otherwise the next test would show nothing."""
    x, y = observed()
    sampler = make(1.0)
    values = [sampler.step(x, y) and sampler.flat.vector.item() for _ in range(3000)]
    assert np.mean(np.array(values) < 0) > 0.95


@pytest.mark.parametrize("batches", [None, 8], ids=["all data", "half of the data"])
def test_two_modes_have_their_weights(batches):
    x, y = observed()
    ladder = ReplicaExchange(make, TEMPERATURES, Batches(x, y, batch_size=4, seed=1), every=5, batches=batches)
    values = np.empty((8000, len(TEMPERATURES)))
    for k in range(len(values)):
        ladder.step(x, y)
        values[k] = [replica.flat.vector.item() for replica in ladder.replicas]
    assert ladder.round_trips > 100
    assert all(0.2 < share < 0.9 for share in ladder.acceptance)
    for sampled, temperature in zip(values[500:].T, TEMPERATURES, strict=True):
        found = quantities(sampled)
        errors = found.reshape(3, 30, -1).mean(2).std(1) / math.sqrt(30)
        assert (errors < 0.05 * temperature).all()
        assert (np.abs(found.mean(1) - exact(y, temperature)) < 4 * errors).all()


@pytest.mark.parametrize("batches", [8, 16])
@pytest.mark.parametrize(("noise", "within"), [(0.5, 0.02), (1.0, 0.03), (2.0, 0.1)])
def test_noise_leaves_the_ratio_of_rates(batches, noise, within):
    """The rates of an exchange and of its reverse must have the ratio exp(d), or the colder replica gets too warm."""
    truth, trials = 1.0, 400_000
    rng = np.random.default_rng(0)
    error = noise * rng.standard_normal(trials)
    variance = noise**2 * rng.chisquare(batches - 1, trials) / (batches - 1)

    def log_ratio(u):
        there, back = (np.minimum(1.0, np.exp(d + error - u)).mean() for d in (truth, -truth))
        return math.log(there / back)

    assert log_ratio(penalty(variance, batches - 1)) == pytest.approx(truth, abs=within)
    if noise > 0.5:
        assert log_ratio(0.0) < 0.8 * truth  # so the test can fail


def test_estimates_of_sums_have_the_error_that_they_state():
    """Batches of unequal sizes, drawn without replacement."""
    rng = np.random.default_rng(1)
    values = rng.gamma(1.0, size=300)
    sizes = [20, 20, 20, 20, 20, 20, 20, 11]
    found = []
    for _ in range(4000):
        drawn = rng.permutation(values)[: sum(sizes)]
        found.append(Estimate.of([part.sum() for part in np.split(drawn, np.cumsum(sizes)[:-1])], sizes, 300))
    estimates, variances = np.array([e.value for e in found]), np.array([e.variance for e in found])
    assert estimates.mean() == pytest.approx(values.sum(), abs=4 * estimates.std() / math.sqrt(len(found)))
    assert variances.mean() == pytest.approx(estimates.var(), rel=0.1)
    assert {e.freedom for e in found} == {7}


def test_all_examples_leave_no_error():
    whole = Estimate.of([1.0, 2.0, 5.0], [2, 2, 1], 5)
    assert whole.value == pytest.approx(8.0)
    assert whole.variance == 0.0
    assert whole.plus(-9.0).log_acceptance == pytest.approx(-1.0)
    assert whole.log_acceptance == 0.0
