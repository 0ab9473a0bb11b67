"""Exchange of replicas: energies of priors, what is exchanged and what is not, resuming, and what is refused."""

import math

import pytest
import torch
from torch import nn

from sparse_langevin import (
    Batches,
    CategoricalLikelihood,
    ChainWarning,
    GaussianLikelihood,
    GaussianPrior,
    PosteriorBank,
    Pruning,
    ReplicaExchange,
    SpikeSlab,
    Switch,
    fit,
    fit_chains,
    psgld_sa,
    sgld,
    sgld_sa,
)
from sparse_langevin.sampling.energies import Pair, data_difference, prior_difference, prior_energy
from sparse_langevin.sampling.info import Info

X = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
Y = X.sum(1, keepdim=True) + 0.5 * torch.randn(24, 1, generator=torch.Generator().manual_seed(1))
LOADER = {"batch_size": 8}


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def make(temperature: float, chain: int = 0, **options):
    arguments = {"num_data": 24, "step_size": 1e-3, "momentum": 0.5, "tau": 1 / temperature, "chain": chain}
    return psgld_sa(network(), GaussianLikelihood(sigma=0.5), **arguments | options)


def ladder(temperatures=(1.0, 1.2, 1.5), every=5, chain=0, **options) -> ReplicaExchange:
    return ReplicaExchange(lambda t: make(t, chain), temperatures, Batches(X, Y, **LOADER), every=every, **options)


@pytest.mark.parametrize(
    "prior",
    [
        GaussianPrior(0.7),
        SpikeSlab(v0=0.2, v1=3.0),
        SpikeSlab(v0=0.2, v1=3.0, latents="averaged"),
        SpikeSlab.for_network(v0=0.3),
    ],
    ids=["gaussian", "summed", "averaged", "fan-in"],
)
def test_the_energy_of_a_prior_has_its_gradient(prior):
    beta = torch.tensor([-2.0, -0.3, 0.05, 0.6, 1.7], dtype=torch.float64)
    own = prior.for_layer((5, 4))
    numbers = own.numbers(0.8, own.initial() | {"steps": 3.0})
    s = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)
    vectors = (s.clone(), s.clone()) if own.vectors else ()
    own.refresh(beta, vectors, numbers)
    gradient = own.add_gradient(torch.zeros_like(beta), beta, vectors, numbers)
    leaf = beta.clone().requires_grad_()
    (slope,) = torch.autograd.grad(own.energy(leaf, vectors, numbers).sum(), leaf)
    torch.testing.assert_close(slope, gradient)


def test_the_difference_is_that_of_the_log_posteriors():
    """Against the formula, term by term, for replicas with different sigma and delta."""
    a, b = make(1.0, prior=GaussianPrior(0.7)), make(2.0, prior=GaussianPrior(0.7))
    b.sigma = 0.9
    with torch.no_grad():
        b.flat.vector.add_(0.3)

    def energy(owner, weights):
        rest = (weights.model(X) - Y).square().sum() / (2 * owner.sigma**2)
        dense, sparse = weights.flat.vector[: weights.flat.sparse_start], weights.flat.vector[a.flat.sparse_start :]
        return float((rest + sparse.square().sum() / (2 * 0.7**2) + dense.square().sum() / 2).detach())

    expected = energy(a, a) - energy(a, b) + 0.5 * (energy(b, b) - energy(b, a))
    pair = Pair(a, b, 1.0, 0.5)
    examples, found = data_difference(pair, (X, Y))
    assert examples == 24
    assert found + prior_difference(pair) == pytest.approx(expected, rel=1e-5)


def test_only_weights_are_exchanged():
    replicas = ladder()
    for _ in range(7):
        for replica in replicas.replicas:
            replica.step(X, Y)
    before = [
        r.state_dict() | {"tensors": {k: v.clone() for k, v in r.state_dict()["tensors"].items()}}
        for r in replicas.replicas
    ]
    replicas._swap(0)
    for place, other in ((0, 1), (1, 0), (2, 2)):
        now = replicas.replicas[place].state_dict()
        assert torch.equal(now["tensors"]["beta"], before[other]["tensors"]["beta"])
        for name in ("v", "rho", "velocity"):
            assert torch.equal(now["tensors"][name], before[place]["tensors"][name])
        assert now["scalars"] == before[place]["scalars"]
        assert now["sigma"] == before[place]["sigma"]
    cold = replicas.target
    block, state = next((b, s) for b, s in zip(cold.flat.blocks, cold.blocks(), strict=True) if b.sparse)
    torch.testing.assert_close(state.latent[1], state.prior.inclusion(cold.flat.vector[block.span], state.numbers))


def test_replicas_have_noise_of_their_own():
    first, second = (replica._noise.normal(1) for replica in ladder((1.0, 2.0)).replicas)
    assert not torch.equal(first, second)
    assert torch.equal(first, make(1.0)._noise.normal(1))


def test_neighbours_take_turns():
    replicas = ladder((1.0, 1.1, 1.2, 1.3), every=2)
    fit(replicas, Batches(X, Y, **LOADER), steps=8)
    assert replicas.attempts == [2, 2, 2]
    assert [math.isnan(share) for share in ladder().acceptance] == [True, True]


def test_round_trips_are_counted():
    replicas = ladder()
    for pair in (0, 1, 0, 1, 1, 0):
        replicas._swap(pair)
    assert replicas.exchanges == [3, 3]
    assert replicas.round_trips == 2  # the third weights at the third exchange, the second ones at the last


def test_nothing_is_exchanged_before_the_noise_sets_in():
    def quiet(temperature):
        return sgld(
            network(),
            GaussianLikelihood(sigma=0.5),
            num_data=24,
            step_size=1e-4,
            tau=Switch(math.inf, 1 / temperature, 10),
        )

    replicas = ReplicaExchange(quiet, (1.0, 1.1), Batches(X, Y, **LOADER), every=5)
    fit(replicas, Batches(X, Y, **LOADER), steps=9)
    assert replicas.attempts == [0]
    fit(replicas, Batches(X, Y, **LOADER), steps=11)
    assert replicas.attempts[0] > 0


@pytest.mark.parametrize("batches", [None, 8])
def test_a_run_resumes_bit_for_bit(tmp_path, batches):
    train = {"batch_size": 3}

    def run(name, steps):
        replicas = ReplicaExchange(make, (1.0, 1.2, 1.5), Batches(X, Y, **train), every=5, batches=batches)
        bank = PosteriorBank(burn_in=10, thin=5, folder=tmp_path / name / "samples")
        fit(replicas, Batches(X, Y, **train), steps=steps, bank=bank, run=tmp_path / name, save_every=7)
        return replicas

    whole = run("whole", 60)
    run("parts", 33)
    parts = run("parts", 60 - 33 + 33)
    for mine, theirs in zip(whole.replicas, parts.replicas, strict=True):
        assert torch.equal(mine.flat.vector, theirs.flat.vector)
    assert (whole.attempts, whole.exchanges, whole.round_trips) == (parts.attempts, parts.exchanges, parts.round_trips)
    assert sum(whole.exchanges) > 0


def test_samples_are_those_of_the_coldest():
    replicas, bank = ladder(), PosteriorBank(burn_in=10, thin=1)
    fit(replicas, Batches(X, Y, **LOADER), steps=20, bank=bank)
    assert len(bank) == 10
    assert isinstance(replicas.step(X, Y), Info)
    assert replicas.inclusion().keys() == replicas.target.inclusion().keys()


def test_several_chains_of_replicas():
    bank = PosteriorBank(burn_in=5, thin=5)
    chains = fit_chains(lambda c: ladder(chain=c), Batches(X, Y, **LOADER), bank=bank, chains=2, steps=15, workers=0)
    assert len(bank) == 4
    assert len(chains.inclusions) == 2


def test_a_pair_that_never_exchanges_is_told():
    def far(temperature):
        return sgld_sa(
            network(), GaussianLikelihood(sigma=0.01, learn=False), num_data=24, step_size=1e-8, tau=1 / temperature
        )

    replicas = ReplicaExchange(far, (1.0, 1e4), Batches(X, Y, batch_size=2), every=1, batches=8)
    with torch.no_grad():
        replicas.replicas[1].flat.vector.add_(5.0)
    with pytest.warns(
        ChainWarning, match=r"temperatures 1 and 10000 have not exchanged .* in 50 attempts.* such as 100.*error of"
    ):
        fit(replicas, Batches(X, Y, **LOADER), steps=50)


def test_classes_can_be_exchanged_too():
    labels = (Y[:, 0] > 0).long()

    def classifier(temperature):
        torch.manual_seed(0)
        return sgld(nn.Linear(3, 2), CategoricalLikelihood(), num_data=24, step_size=1e-2, tau=1 / temperature)

    replicas = ReplicaExchange(classifier, (1.0, 1.5), Batches(X, labels, **LOADER), every=2)
    fit(replicas, Batches(X, labels, **LOADER), steps=40)
    assert replicas.exchanges[0] > 2


@pytest.mark.parametrize("temperatures", [(1.0,), (), (2.0, 1.0), (0.0, 1.0), (1.0, math.inf), (1.0, math.nan)])
def test_temperatures_that_do_not_rise(temperatures):
    with pytest.raises(ValueError, match="temperatures must be at least two rising positive numbers"):
        ladder(temperatures)


def test_what_is_refused():
    loader = Batches(X, Y, **LOADER)
    with pytest.raises(TypeError, match=r"make\(1\) must return a sampler"):
        ReplicaExchange(lambda t: None, (1.0, 2.0), loader)
    with pytest.raises(ValueError, match="cannot be pruned"):
        ReplicaExchange(lambda t: make(t, pruning=Pruning(0.5, end=10)), (1.0, 2.0), loader)
    with pytest.raises(ValueError, match="tau must fall from replica to replica"):
        ReplicaExchange(lambda t: make(1.0), (1.0, 2.0), loader)
    with pytest.raises(ValueError, match="differ in seed: 1 and 2"):
        ReplicaExchange(lambda t: make(t, seed=int(t)), (1.0, 2.0), loader)
    shared = network()
    with pytest.raises(ValueError, match="model of its own"):
        ReplicaExchange(
            lambda t: sgld(shared, GaussianLikelihood(), num_data=24, step_size=1e-3, tau=1 / t), (1.0, 2.0), loader
        )
    with pytest.raises(ValueError, match="batches must be"):
        ladder(batches=2)
    with pytest.raises(ValueError, match="every must be"):
        ladder(every=0)
    with pytest.raises(ValueError, match="control variates need weights that stay"):
        fit(ladder(), loader, steps=2, control_variates=1)


def test_data_for_exchanges_must_be_the_whole():
    half = Batches(X[:12], Y[:12], **LOADER)
    with pytest.raises(ValueError, match="have 12 examples, but num_data is 24"):
        fit(ReplicaExchange(make, (1.0, 2.0), half, every=1), Batches(X, Y, **LOADER), steps=1)
    few = ReplicaExchange(make, (1.0, 2.0), Batches(X, Y, batch_size=8), every=1, batches=8)
    with pytest.raises(ValueError, match="have 3 batches, fewer than batches=8"):
        fit(few, Batches(X, Y, **LOADER), steps=1)


def test_the_energy_of_all_priors_together():
    sampler = make(1.0, prior=GaussianPrior(2.0))
    dense = sampler.flat.vector[: sampler.flat.sparse_start].square().sum() / 2
    sparse = sampler.flat.vector[sampler.flat.sparse_start :].square().sum() / 8
    assert prior_energy(sampler, sampler.flat.vector) == pytest.approx(float(dense + sparse), rel=1e-5)
