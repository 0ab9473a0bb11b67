import itertools

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import GaussianLikelihood, Pruning, psgld_sa, sgld
from sparse_langevin.sampling.pruning import Inclusion, Layer, lowest, prune


@pytest.mark.parametrize("growth", ["cubic", "exponential"])
def test_share_grows_from_zero_to_exactly_the_target(growth):
    plan = Pruning(target=0.7, start=100, end=1100, growth=growth)
    shares = [plan.share(k) for k in range(0, 1300)]
    assert shares[100] == 0
    assert shares[1100] == shares[1299] == 0.7
    assert all(np.diff(shares) >= 0)
    middle = 0.7 * (1 - 0.5**3) if growth == "cubic" else 0.7 * (1 - np.exp(-2.5)) / (1 - np.exp(-5))
    assert shares[600] == pytest.approx(middle)


def test_due_steps():
    plan = Pruning(target=0.5, start=10, end=35, every=10)
    assert [k for k in range(60) if plan.due(k)] == [20, 30, 35]


@pytest.mark.parametrize("count", [0, 1, 5, 9, 10])
def test_smallest_marks_exactly_the_count_with_ties(count):
    values = torch.tensor([0.0, 0.0, -0.0, 1.0, -1.0, 1.0, 0.5, -0.5, 2.0, 0.0])
    marked = lowest(values.abs(), count)
    assert int(marked.sum()) == count
    expected = np.argsort(np.abs(values.numpy()), kind="stable")[:count]
    assert set(marked.nonzero().squeeze(1).tolist()) == set(expected.tolist())


def test_prune_per_part_and_as_a_whole():
    beta = torch.tensor([0.1, 0.2, 0.3, 0.4, 10.0, 20.0, 30.0, 40.0])
    for scope, expected in (("layer", [True, True, False, False] * 2), ("global", [True] * 4 + [False] * 4)):
        weights, keep = beta.clone(), torch.ones(8, dtype=torch.bool)
        layers = [Layer(weights[part], keep[part]) for part in (slice(0, 4), slice(4, 8))]
        prune(Pruning(0.5, end=10, scope=scope), layers, 10)
        assert (weights == 0).tolist() == (~keep).tolist() == expected
        assert not torch.signbit(weights).any()


def test_by_inclusion_probability():
    """Not the smallest weight goes, but the one that has been small for long."""
    beta, rho = torch.tensor([1e-6, 0.5, 2.0, 0.3]), torch.tensor([0.9, 0.1, 0.8, 0.2])
    layer = Layer(beta, torch.ones(4, dtype=torch.bool), {"rho": rho})
    prune(Pruning(0.5, end=1, criterion=Inclusion()), [layer], 1)
    assert beta.tolist() == [pytest.approx(1e-6), 0.0, 2.0, 0.0]
    with pytest.raises(ValueError, match="needs inclusion probabilities"):
        prune(Pruning(0.5, end=1, criterion=Inclusion()), [Layer(beta, layer.keep)], 1)
    with pytest.raises(TypeError, match=r"must have a method score"):
        Pruning(0.5, end=1, criterion="magnitude")


def test_a_sampler_with_a_criterion_of_its_own():
    class Oldest:
        def score(self, beta, vectors):
            assert set(vectors) == {"rho", "s", "v"}
            return torch.arange(len(beta))

    model = torch.nn.Linear(6, 1)
    plan = Pruning(0.5, end=2, criterion=Oldest())
    sampler = psgld_sa(model, GaussianLikelihood(), num_data=5, step_size=1e-3, pruning=plan)
    for _ in range(3):
        sampler.step(torch.ones(5, 6), torch.ones(5, 1))
    assert (model.weight[0] == 0).tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("regrow", [False, True])
@pytest.mark.parametrize("growth", ["cubic", "exponential"])
@pytest.mark.parametrize("target", [0.0, 0.3, 0.7, 0.95])
def test_finished_model_has_exactly_the_target_share(scope, regrow, growth, target):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 11), nn.Tanh(), nn.Linear(11, 3))
    plan = Pruning(target=target, end=60, every=7, scope=scope, regrow=regrow, growth=growth)
    sampler = psgld_sa(model, GaussianLikelihood(), num_data=20, step_size=1e-2, pruning=plan)
    x, y = torch.randn(20, 7), torch.randn(20, 3)
    for _ in range(90):
        info = sampler.step(x, y)
    weights = [model[0].weight, model[2].weight]
    total = sum(w.numel() for w in weights)
    zeros = [int((w == 0).sum()) for w in weights]
    if scope == "global":
        assert sum(zeros) == round(target * total)
        if target == 0.7:
            assert zeros != [round(target * w.numel()) for w in weights]
    else:
        assert zeros == [round(target * w.numel()) for w in weights]
    assert info.sparsity == pytest.approx(sum(zeros) / total)
    assert not (model[0].bias == 0).any()


def test_zeros_persist_unless_they_may_regrow():
    torch.manual_seed(0)
    x, y = torch.randn(20, 7), torch.randn(20, 3)
    history = {}
    for regrow in (False, True):
        model = nn.Linear(7, 3)
        plan = Pruning(target=0.6, end=400, every=20, regrow=regrow)
        sampler = sgld(model, GaussianLikelihood(), num_data=20, step_size=1e-2, pruning=plan)
        masks = []
        for k in range(1, 450):
            sampler.step(x, y)
            if plan.due(k):
                masks.append(model.weight.detach() == 0)
            if k == 399:
                free = int((model.weight == 0).sum())
        came_back = any((earlier & ~later).any() for earlier, later in itertools.pairwise(masks))
        history[regrow] = (came_back, free)
    assert history[False] == (False, round(plan.share(380) * 21))
    assert history[True] == (True, 0)  # between prunings nothing is held at zero


def test_sigma_does_not_count_pruned_weights():
    """200 noisy observations of 2 of 150 predictors: sigma stays near 1 when 148 weights are held at zero."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 150, generator=generator)
    y = 3 * x[:, :1] - 3 * x[:, 1:2] + torch.randn(200, 1, generator=generator)
    model = nn.Linear(150, 1, bias=False)
    plan = Pruning(target=148 / 150, start=300, end=600)  # when the two have grown, whatever the first weights
    sampler = psgld_sa(model, GaussianLikelihood(), num_data=200, step_size=1e-2, pruning=plan)
    for _ in range(2000):
        info = sampler.step(x, y)
    assert info.sigma == pytest.approx(1.0, abs=0.15)  # counting them would give about 1/sqrt(1.75) = 0.76


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": 1.0, "end": 10}, r"must be a share in \[0, 1\)"),
        ({"target": -0.1, "end": 10}, r"must be a share in \[0, 1\)"),
        ({"target": 70, "end": 10}, "0.7 for 70 %, got 70"),
        ({"target": 0.5, "end": 0}, "0 <= start < end"),
        ({"target": 0.5, "end": 10, "start": 10}, "0 <= start < end"),
        ({"target": 0.5, "end": 10, "every": 0}, "every"),
        ({"target": 0.5, "end": 10, "growth": "linear"}, "growth"),
        ({"target": 0.5, "end": 10, "scope": "row"}, "scope"),
    ],
)
def test_bad_plans(settings, message):
    with pytest.raises(ValueError, match=message):
        Pruning(**settings)
