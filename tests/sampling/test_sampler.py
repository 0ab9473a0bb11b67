"""The sampler's face: what it reports, what it refuses, and what it warns about."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import (
    CategoricalLikelihood,
    ChainWarning,
    Constant,
    Cosine,
    GaussianLikelihood,
    GaussianPrior,
    Identity,
    Polynomial,
    Pruning,
    RMSprop,
    Sampler,
    SpikeSlab,
    psgld,
    psgld_sa,
    sgld,
    sgld_sa,
)
from sparse_langevin.sampling import kernels

X = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, :1] - X[:, 1:2]


@pytest.fixture(params=["native", "reference"], autouse=True)
def each_engine(request, monkeypatch):
    """Every test on both engines, where it does not name one."""

    def choose(vector, name="auto", parts=()):
        return kernels.engines.choose(vector, request.param if name == "auto" else name, parts)

    monkeypatch.setattr(kernels, "choose", choose)


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def make(model=None, likelihood=None, algorithm=psgld_sa, **options):
    options = {"num_data": 20, "step_size": 1e-3} | options
    return algorithm(model or net(), likelihood or GaussianLikelihood(), **options)


def snapshot(sampler):
    state = sampler.state_dict()
    return {n: t.clone() for n, t in state.pop("tensors").items()}, state


def test_algorithms_are_the_two_by_two():
    for algorithm, metric, prior in (
        (sgld, Identity, GaussianPrior),
        (psgld, RMSprop, GaussianPrior),
        (sgld_sa, Identity, SpikeSlab),
        (psgld_sa, RMSprop, SpikeSlab),
    ):
        sampler = make(algorithm=algorithm)
        assert isinstance(sampler.preconditioner, metric)
        assert all(isinstance(sampler._priors[b.name], prior) for b in sampler.flat.blocks if b.sparse)


def test_info_reports_the_step():
    sampler = make()
    model = net()
    info = sampler.step(X, Y)
    assert info.step == 1 == sampler.steps
    assert info.loss == pytest.approx((model(X) - Y).square().mean().item(), rel=1e-5)
    assert info.sigma == sampler.sigma != 1.0
    assert info.inclusion == pytest.approx(
        torch.cat([r.reshape(-1) for r in sampler.inclusion().values()]).mean().item()
    )
    assert info.sparsity == 0.0
    moved = sampler.flat.vector - torch.cat(
        [model[0].bias, model[2].bias, *(model[i].weight.reshape(-1) for i in (0, 2))]
    )
    assert info.drift_norm > 0 and info.noise_norm > 0
    assert abs(info.drift_norm - info.noise_norm) <= moved.norm().item() * 1.001
    assert moved.norm().item() <= (info.drift_norm + info.noise_norm) * 1.001


def test_gaussian_prior_has_no_inclusion():
    sampler = make(algorithm=sgld, step_size=1e-5)
    assert math.isnan(sampler.step(X, Y).inclusion)
    assert sampler.inclusion() == {}


def test_inclusion_has_the_layers_shapes():
    sampler = make()
    assert {n: r.shape for n, r in sampler.inclusion().items()} == {"0.weight": (4, 3), "2.weight": (1, 4)}


def test_priors_may_differ_by_layer():
    wide = SpikeSlab(v0=0.5, delta=0.2)
    sampler = make(prior={"2": wide, "0.weight": GaussianPrior(3.0)})
    assert sampler._priors["2.weight"] is wide
    assert sampler.delta == {"2.weight": 0.2}
    sampler.step(X, Y)
    with pytest.raises(ValueError, match="not a sparse layer"):
        make(prior={"2.bias": wide})
    with pytest.raises(ValueError, match="unknown layer name"):
        make(prior={"7": wide})


def test_frozen_parameters_and_unnamed_layers_stay():
    model = net()
    model[0].weight.requires_grad_(False)
    before = model[0].weight.clone()
    sampler = make(model)
    for _ in range(5):
        sampler.step(X, Y)
    assert torch.equal(model[0].weight, before)


def test_dict_batches_with_an_own_log_likelihood():
    def log_likelihood(model, batch):
        return -0.5 * (model(batch["inputs"][0]) - batch["targets"]).square().sum(1)

    sampler = make(likelihood=log_likelihood)
    info = sampler.step({"inputs": [X], "targets": Y})
    assert info.sigma == 1.0
    twin = make(likelihood=GaussianLikelihood(sigma=1.0, learn=False))
    twin.step(X, Y)
    torch.testing.assert_close(sampler.flat.vector, twin.flat.vector)


def test_chains_and_seeds_differ_and_repeat():
    def run(**options):
        sampler = make(**options)
        for _ in range(3):
            sampler.step(X, Y)
        return sampler.flat.vector.clone()

    assert torch.equal(run(seed=1), run(seed=1))
    assert not torch.equal(run(seed=1), run(seed=2))
    assert not torch.equal(run(seed=1), run(seed=1, chain=1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_state_round_trip_goes_on_identically(dtype):
    x, y = X.to(dtype), Y.to(dtype)
    plan = Pruning(target=0.5, end=20)
    one, two = make(net(dtype), pruning=plan), make(net(dtype), pruning=plan)
    for _ in range(15):
        one.step(x, y)
    tensors, rest = snapshot(one)
    two.load_state_dict(rest | {"tensors": tensors})
    for _ in range(15):
        assert one.step(x, y) == two.step(x, y)
    assert torch.equal(one.flat.vector, two.flat.vector)


def test_foreign_states_are_refused_whole():
    sampler = make()
    sampler.step(X, Y)
    before, _ = snapshot(sampler)
    wider = make(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)))
    for other in (make(algorithm=sgld, step_size=1e-5), make(net(torch.float64)), wider):
        with pytest.raises(ValueError, match="belongs to another sampler"):
            sampler.load_state_dict(other.state_dict())
    after, _ = snapshot(sampler)
    assert all(torch.equal(before[n], after[n]) for n in before)


@pytest.mark.parametrize("where", ["inputs", "targets", "gradient", "inf"])
def test_nan_stops_within_the_step_and_changes_nothing(where):
    class Fragile(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = net()
            self.broken = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.body(x) + torch.sqrt(self.broken)  # infinite derivative at 0

    model = Fragile() if where == "gradient" else net()
    if where == "gradient":
        model.broken.data.fill_(1.0)
    sampler = make(model, pruning=Pruning(target=0.5, end=100))
    sampler.step(X, Y)
    if where == "gradient":
        model.broken.data.zero_()
    before, rest = snapshot(sampler)
    x, y = X.clone(), Y.clone()
    if where == "inputs":
        x[3, 1] = math.nan
    if where == "targets":
        y[3] = math.nan
    if where == "inf":
        x[0, 0] = math.inf
    message = {
        "inputs": r"step 2: the gradient of parameter '.*' .*batch\[0\]",
        "targets": r"step 2: the gradient of parameter '.*' .*batch\[1\]",
        "gradient": r"step 2: the gradient of parameter 'broken'.*smaller step size",
        "inf": r"step 2: the gradient of parameter '.*' .*batch\[0\]",
    }[where]
    with pytest.raises(FloatingPointError, match=message):
        sampler.step(x, y)
    after, still = snapshot(sampler)
    assert rest == still
    assert all(torch.equal(before[n], after[n]) for n in before)
    if where != "gradient":
        sampler.step(X, Y)


def test_a_loss_that_is_not_finite_stops_even_if_gradients_are():
    sampler = make(likelihood=lambda model, batch: model(X).sum(1) * 0 + math.inf)
    with pytest.raises(FloatingPointError, match="the loss is not finite"):
        sampler.step(None)


def test_squares_that_overflow_are_refused_where_they_are_used():
    """A float32 gradient of 1e20 is finite, but V would be infinite and freeze its weight for good."""

    def steep(model, batch):
        return (1e20 * model.weight).sum().reshape(1)

    with pytest.raises(FloatingPointError, match="'weight'"):
        psgld(nn.Linear(2, 1, bias=False), steep, num_data=1, step_size=1e-3).step(None)


def test_curvature_that_is_not_finite_is_refused():
    class Kink(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return x * (self.w + self.w.abs() ** 1.5)

    metric = RMSprop(alpha=0.0, correction="auto")
    sampler = psgld(Kink(), GaussianLikelihood(), num_data=20, step_size=1e-3, preconditioner=metric)
    with pytest.raises(FloatingPointError, match="'w'"):
        sampler.step(X[:, :1], Y)
    assert sampler.steps == 0 and sampler.model.w.item() == 0


def test_exact_curvature_is_for_plain_linear_layers_only():
    class Tenfold(nn.Linear):
        def forward(self, x):
            return 10 * super().forward(x)

    metric = RMSprop(alpha=0.0, eta=10.0, correction="auto")
    for model in (Tenfold(3, 1), nn.utils.parametrizations.weight_norm(nn.Linear(3, 1))):
        sampler = psgld(model, GaussianLikelihood(), num_data=20, step_size=1e-3, preconditioner=metric)
        assert not sampler._gradient._curvature.exact
        sampler.step(X, Y)
    exact = psgld(nn.Linear(3, 1), GaussianLikelihood(), num_data=20, step_size=1e-3, preconditioner=metric)
    with pytest.raises(ValueError, match="use correction='hutchinson'"):
        exact.step(X[:, None], Y[:, None])


def test_diverged_weights_are_named():
    sampler = make()
    sampler.model[2].bias.data.fill_(math.inf)
    with pytest.raises(FloatingPointError, match=r"weights of '2.bias' are not finite: the chain diverged"):
        sampler.step(X, Y)


def test_huge_but_finite_gradients_pass():
    """A sum that overflows in float32 is not an error by itself."""
    model = nn.Linear(2, 1, bias=False)
    sampler = sgld(model, lambda m, b: (m.weight * 3e38).sum().reshape(1), num_data=1, step_size=1e-38, sparse=[])
    assert sampler.step(None).step == 1


def test_model_moved_after_construction():
    sampler = make()
    sampler.model.double()
    with pytest.raises(RuntimeError, match="moved or cast, or its parameters were replaced"):
        sampler.step(X.double(), Y.double())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_data": 0}, ValueError, "num_data, the number of examples in the whole data set, must be an integer"),
        ({"num_data": 20.0}, ValueError, "num_data"),
        ({"chain": 2**31}, ValueError, "chain must be an integer in"),
        ({"preconditioner": RMSprop}, TypeError, "preconditioner must be Identity"),
        ({"preconditioner": None}, TypeError, "preconditioner must be Identity"),
        ({"pruning": 0.7}, TypeError, "pruning must be Pruning"),
        ({"prior": {"0": "spike"}}, TypeError, "prior of layer '0' must be"),
        ({"sparse": nn.Linear(1, 1)}, TypeError, "put it in a list"),
        ({"num_data": True}, ValueError, "num_data"),
        ({"step_size": -1e-3}, ValueError, "step_size is -0.001 at step 1"),
        ({"step_size": "1e-3"}, TypeError, "step_size must be a number or a schedule"),
        ({"omega": -0.1}, ValueError, "omega is -0.1"),
        ({"preconditioner": RMSprop(alpha=lambda k: 1.5)}, ValueError, "alpha is 1.5"),
        ({"tau": -1.0}, ValueError, "tau is -1"),
        ({"seed": -1}, ValueError, "seed"),
        ({"sparse": ["nothing"]}, ValueError, "unknown layer name 'nothing'"),
        ({"sparse": []}, ValueError, "needs sparse layers"),
        ({"prior": "spike"}, TypeError, "prior must be"),
        ({"dense_prior": "flat"}, TypeError, "dense_prior must be a prior"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        make(**options)


def test_numpy_numbers_are_numbers():
    sampler = make(num_data=np.int64(20), seed=np.int64(3), step_size=np.float32(1e-3))
    assert sampler.step(X, Y).step == 1


def test_gaussian_algorithms_say_what_they_take():
    with pytest.raises(TypeError, match="use sgld_sa or psgld_sa"):
        make(algorithm=sgld, prior=SpikeSlab())


def test_num_data_is_required():
    with pytest.raises(TypeError, match="num_data"):
        psgld_sa(net(), GaussianLikelihood(), step_size=1e-3)


def test_bad_preconditioners():
    for settings in (
        *({"alpha": 1.5}, {"alpha": -0.1}, {"eta": 0.0}, {"correction": "diagonal"}, {"correction": "auto"}),
        *({"alpha": 0.5, "correction": "exact"}, {"alpha": 0.0, "correction": "exact", "freeze": 10}),
        *({"freeze": 0}, {"freeze": -1}, {"freeze": 1.5}, {"freeze": "end"}, {"freeze": True}, {"start": "zero"}),
    ):
        with pytest.raises(ValueError, match="RMSprop"):
            RMSprop(**settings)
    with pytest.raises(ValueError, match=r"needs a model that is one nn.Linear"):
        make(preconditioner=RMSprop(alpha=0.0, correction="exact"))


def test_pruning_needs_sparse_layers():
    with pytest.raises(ValueError, match="pruning needs sparse layers"):
        make(algorithm=sgld, sparse=[], pruning=Pruning(target=0.5, end=10))


def test_batch_larger_than_the_data_set():
    with pytest.raises(ValueError, match="the batch has 20 examples but num_data is 19"):
        make(num_data=19).step(X, Y)


def test_schedules_that_leave_their_range_stop_the_chain_unchanged():
    sampler = make(omega=lambda k: 0.4 * k)
    sampler.step(X, Y)
    sampler.step(X, Y)
    with pytest.raises(ValueError, match=r"omega is 1.2 at step 3, but must lie in \[0, 1\]"):
        sampler.step(X, Y)
    assert sampler.steps == 2
    with pytest.raises(ValueError, match="tau is 0"):
        make(tau=Constant(0.0))


def warned(action):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return [str(w.message) for w in caught if issubclass(w.category, ChainWarning)], result


def test_omega_above_one_is_capped_with_a_warning():
    messages, sampler = warned(lambda: make(omega=Polynomial(100, 100, 0.7)))
    assert len(messages) == 1 and "omega_1 = 3.95 is above 1" in messages[0]
    messages, _ = warned(lambda: [sampler.step(X, Y) for _ in range(3)])
    assert messages == []
    assert sampler.timetable._omega(1) == 0.1
    _, sampler = warned(lambda: make(omega=lambda k: 4.0 / k))
    assert [sampler.timetable._omega(k) for k in (1, 4, 100)] == [0.1, 0.1, 0.04]


def test_swapped_spike_and_slab_warn():
    messages, _ = warned(lambda: make(prior=SpikeSlab(v0=10.0, v1=0.1)))
    assert len(messages) == 1 and "slab the narrower component" in messages[0]
    assert warned(make)[0] == []


def test_fast_forgetting_warns_once():
    metric = RMSprop(alpha=0.5)
    messages, sampler = warned(lambda: make(step_size=1e-5, preconditioner=metric))
    assert messages == []
    messages, _ = warned(lambda: [sampler.step(X, Y) for _ in range(1001)])
    assert sum("1 - alpha" in m for m in messages) == 1
    for metric in (RMSprop(alpha=0.5, freeze=50), RMSprop(alpha=0.0, eta=10.0, correction="hutchinson")):
        correct = make(step_size=1e-5, preconditioner=metric)
        messages, _ = warned(lambda chain=correct: [chain.step(X, Y) for _ in range(101)])
        assert not any("1 - alpha" in m for m in messages)


def test_missing_spread_warns_once():
    sampler = make(algorithm=sgld, step_size=1e-14)
    messages, _ = warned(lambda: [sampler.step(X, Y) for _ in range(1001)])
    assert len(messages) == 1 and "samples have no spread" in messages[0]
    running_away = make(nn.Linear(3, 1), algorithm=sgld, step_size=0.11)  # the mean square error passes 1e20
    assert warned(lambda: [running_away.step(X, Y) for _ in range(101)])[0] == []
    annealed = make(algorithm=sgld, step_size=Cosine(1e-3, 100))  # its step 100 has size 0
    assert warned(lambda: [annealed.step(X, Y) for _ in range(101)])[0] == []
    optimiser = make(algorithm=sgld, step_size=1e-14, tau=math.inf)
    assert warned(lambda: [optimiser.step(X, Y) for _ in range(101)])[0] == []


def test_collapse_into_the_spike_warns_once():
    """The paper's rule for delta and a wide spike take every weight; the defaults do not."""

    def run(**prior):
        sampler = make(nn.Linear(3, 1), step_size=1e-3, prior=SpikeSlab(**prior), preconditioner=RMSprop(alpha=0.999))
        messages, _ = warned(lambda: [sampler.step(X, Y) for _ in range(10_001)])
        return [m for m in messages if "in the spike" in m]

    assert len(run(v0=2.0, v1=1000.0, delta_update="mode")) == 1
    assert run() == []


def test_collapse_of_a_network_is_noticed_early():
    """A spike as wide as the weights takes them all as soon as delta is released."""
    prior = SpikeSlab.for_network(v0=3.0, v1=1e5, hold=10)
    sampler = make(net(), step_size=1e-3, prior=prior, preconditioner=RMSprop(alpha=0.999))
    messages, _ = warned(lambda: [sampler.step(X, Y) for _ in range(1011)])
    assert len([m for m in messages if "every weight is in the spike after 1010 steps" in m]) == 1


def test_warnings_point_at_the_user():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        psgld_sa(net(), GaussianLikelihood(), num_data=20, step_size=1e-3, omega=2.0)
        Sampler(net(), GaussianLikelihood(), num_data=20, step_size=1e-3, omega=2.0)
    assert [w.filename for w in caught] == [__file__] * 2


def test_classification_runs():
    model = nn.Linear(3, 2)
    sampler = make(model, CategoricalLikelihood())
    info = sampler.step(X, (Y[:, 0] > 0).long())
    assert info.sigma == 1.0


def test_gradients_of_the_user_are_left_alone():
    model = net()
    model(X).sum().backward()
    before = model[0].weight.grad.clone()
    sampler = make(model)
    sampler.step(X, Y)
    assert torch.equal(model[0].weight.grad, before)


def test_works_under_no_grad():
    with torch.no_grad():
        assert make().step(X, Y).drift_norm > 0


def test_only_gaussian_noise_is_noise_of_a_new_observation():
    def noise(likelihood):
        return sgld(nn.Linear(3, 2), likelihood, num_data=10, step_size=1e-4).noise_std

    assert noise(GaussianLikelihood(sigma=0.7)) == 0.7
    assert noise(CategoricalLikelihood()) == noise(lambda model, batch: model(batch)[:, 0]) == 0.0
