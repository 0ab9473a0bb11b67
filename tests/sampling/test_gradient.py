"""The scaling N/n: a minibatch gradient is an unbiased estimate of the full gradient."""

import pytest
import torch
from torch import nn

from sparse_langevin import Batches, CategoricalLikelihood, GaussianLikelihood, GaussianPrior, Sampler, sgld

N = 53  # prime: every batch size leaves a ragged batch


def problem(kind):
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    if kind == "categorical":
        y, likelihood = torch.randint(0, 4, (N,), generator=generator), CategoricalLikelihood()
    elif kind == "gaussian":
        y, likelihood = torch.randn(N, 4, generator=generator, dtype=torch.float64), GaussianLikelihood(sigma=0.7)
    else:
        y = torch.randn(N, 4, generator=generator, dtype=torch.float64)

        def likelihood(model, batch):
            return -(model(batch["x"]) - batch["y"]).abs().sum(1)

    return sgld(model, likelihood, num_data=N, step_size=1e-9), x, y


def gradient(sampler, kind, x, y):
    data = {"x": x, "y": y} if kind == "function" else (x, y)
    sampler._gradient(data, sampler.sigma, 1)
    return sampler.flat.grad.clone()


def by_hand(sampler, kind, x, y):
    """Minus the log-likelihood of all the data, written out here."""
    out = sampler.model(x)
    if kind == "categorical":
        loss = -out.log_softmax(1)[torch.arange(N), y].sum()
    elif kind == "gaussian":
        loss = (out - y).square().sum() / (2 * 0.7**2)
    else:
        loss = (out - y).abs().sum()
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, sampler.flat.parameters)])


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "function"])
@pytest.mark.parametrize("size", [1, 7, 16, 32, N])
def test_mean_over_minibatches_is_the_full_gradient(kind, size):
    sampler, x, y = problem(kind)
    full = by_hand(sampler, kind, x, y)
    mean = torch.zeros_like(full)
    for bx, by in Batches(x, y, batch_size=size, seed=1):
        mean += len(bx) / N * gradient(sampler, kind, bx, by)
    torch.testing.assert_close(mean, full, rtol=1e-12, atol=1e-12 * full.abs().max().item())


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "function"])
def test_halving_the_batch_leaves_the_expectation(kind):
    """A batch's gradient is the mean of its two halves' gradients, so their expectations agree for any data."""
    sampler, x, y = problem(kind)
    whole = gradient(sampler, kind, x[:16], y[:16])
    halves = (gradient(sampler, kind, x[:8], y[:8]) + gradient(sampler, kind, x[8:16], y[8:16])) / 2
    torch.testing.assert_close(whole, halves, rtol=1e-12, atol=1e-12 * whole.abs().max().item())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("sparse", [None, []])
def test_one_linear_layer_needs_no_autograd(bias, outputs, sparse):
    """The closed form against the graph: gradient, loss and residuals."""
    torch.manual_seed(0)
    layer = nn.Linear(5, outputs, bias=bias).double()
    sampler = Sampler(
        layer, GaussianLikelihood(sigma=0.7), num_data=40, step_size=1e-4, prior=GaussianPrior(), sparse=sparse
    )
    batch = torch.randn(7, 5).double(), torch.randn(7, outputs).double()
    assert sampler._gradient._linear is not None
    quick, scale, _ = sampler._gradient(batch, sampler.sigma, 1)
    gradient = sampler.flat.grad.clone()
    sampler._gradient._linear = None
    slow, same, _ = sampler._gradient(batch, sampler.sigma, 1)
    assert scale == same
    torch.testing.assert_close(gradient, sampler.flat.grad, rtol=1e-12, atol=1e-12)
    assert quick.examples == slow.examples and quick.residuals_per_example == slow.residuals_per_example
    for mine, theirs in ((quick.rss, slow.rss), (quick.loss, slow.loss), (quick.log_likelihood, slow.log_likelihood)):
        torch.testing.assert_close(mine, theirs.detach(), rtol=1e-12, atol=1e-12)


def test_whatever_is_not_plain_goes_through_autograd():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    frozen = nn.Linear(2, 1)
    frozen.bias.requires_grad_(False)
    for model in (Doubled(2, 1), frozen, nn.Sequential(nn.Linear(2, 1))):
        sampler = Sampler(model, GaussianLikelihood(), num_data=9, step_size=1e-4, prior=GaussianPrior())
        assert sampler._gradient._linear is None
    late = Sampler(nn.Linear(2, 1), GaussianLikelihood(), num_data=9, step_size=1e-4, prior=GaussianPrior())
    x, y = torch.randn(4, 2), torch.randn(4, 1)
    late._gradient((x, y), late.sigma, 1)
    before = late.flat.grad.clone()
    late.model.register_forward_hook(lambda module, inputs, output: 2 * output)
    late._gradient((x, y), late.sigma, 1)
    assert not torch.equal(before, late.flat.grad)
