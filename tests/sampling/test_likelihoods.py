import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import CategoricalLikelihood, GaussianLikelihood
from sparse_langevin.sampling.likelihoods import FunctionLikelihood, as_likelihood
from sparse_langevin.sampling.mixture import sigma_root


@pytest.mark.parametrize(("a", "b", "c"), [(100.0, 3.0, 7.0), (1.0, 0.0, 4.0), (1e7, 1e3, 1e-3), (5.0, 1e6, 1.0)])
def test_sigma_root_solves_the_quadratic(a, b, c):
    root = sigma_root(a, b, c)
    assert root > 0
    assert a * root**2 == pytest.approx(b * root + c, rel=1e-12)
    assert root == pytest.approx(max(np.roots([a, -b, -c]).real), rel=1e-9)


def test_sigma_root_maximises_the_expected_log_posterior():
    """-(A) log s - B/s - C/(2 s^2) has its maximum there."""
    a, b, c = 120.0, 4.0, 30.0
    grid = np.linspace(0.05, 3, 200_001)
    best = grid[np.argmax(-a * np.log(grid) - b / grid - c / (2 * grid**2))]
    assert sigma_root(a, b, c) == pytest.approx(best, abs=3e-5)


def test_gaussian_counts_every_scalar_residual():
    model = nn.Conv2d(1, 2, 3, padding=1)
    x, y = torch.randn(5, 1, 4, 4), torch.randn(5, 2, 4, 4)
    result = GaussianLikelihood().evaluate(model, (x, y), 0.5)
    rss = (model(x) - y).square().sum().item()
    assert result.examples == 5
    assert result.residuals_per_example == 32
    assert result.rss.item() == pytest.approx(rss)
    assert result.loss.item() == pytest.approx(rss / 160)
    assert result.log_likelihood.item() == pytest.approx(-rss / (2 * 0.25))


def test_gaussian_takes_scalar_targets():
    result = GaussianLikelihood().evaluate(lambda x: x.sum(1), (torch.randn(6, 3), torch.randn(6)), 1.0)
    assert (result.examples, result.residuals_per_example) == (6, 1)


def test_inputs_may_be_tuples_or_mappings():
    class Two(nn.Module):
        def forward(self, left, right):
            return left * right

    left, right, y = torch.randn(4, 1), torch.randn(4, 1), torch.randn(4, 1)
    for inputs in ((left, right), {"right": right, "left": left}):
        result = GaussianLikelihood().evaluate(Two(), (inputs, y), 1.0)
        assert result.rss.item() == pytest.approx((left * right - y).square().sum().item())


def test_categorical_equals_the_log_probability():
    model = nn.Linear(3, 4)
    x, y = torch.randn(7, 3), torch.randint(0, 4, (7,))
    result = CategoricalLikelihood().evaluate(model, (x, y), 1.0)
    expected = torch.distributions.Categorical(logits=model(x)).log_prob(y)
    assert result.log_likelihood.item() == pytest.approx(expected.sum().item(), rel=1e-5)
    assert result.loss.item() == pytest.approx(-expected.mean().item(), rel=1e-5)


def test_categorical_takes_images_of_classes():
    result = CategoricalLikelihood().evaluate(
        nn.Identity(), (torch.randn(2, 3, 4, 4), torch.randint(0, 3, (2, 4, 4))), 1.0
    )
    assert result.examples == 2


@pytest.mark.parametrize(
    ("likelihood", "batch", "message"),
    [
        (GaussianLikelihood(), (torch.randn(4, 3), torch.randn(4, 1)), r"\(4, 3\) but .* shape \(4, 1\)"),
        (GaussianLikelihood(), (torch.randn(4, 1), torch.randn(4)), "not broadcast"),
        (GaussianLikelihood(), (torch.randn(0, 1), torch.randn(0, 1)), "the batch is empty"),
        (CategoricalLikelihood(), (torch.randn(4, 3), torch.randn(4)), "integer targets"),
        (CategoricalLikelihood(), (torch.randn(4, 3), torch.zeros(4, 1).long()), "integer targets"),
        (CategoricalLikelihood(), (torch.randn(4, 3), torch.full((4,), 3)), "3 classes"),
    ],
)
def test_wrong_shapes(likelihood, batch, message):
    with pytest.raises(ValueError, match=message):
        likelihood.evaluate(nn.Identity(), batch, 1.0)


@pytest.mark.parametrize("batch", [torch.randn(4, 3), (torch.randn(4, 3),), {"x": torch.randn(4, 3)}, (1, 2)])
def test_batches_that_are_no_pairs(batch):
    with pytest.raises(TypeError, match="needs batches"):
        GaussianLikelihood().evaluate(nn.Identity(), batch, 1.0)


def test_function_must_give_one_value_per_example():
    for bad in (torch.tensor(1.0), torch.ones(3, 1), torch.ones(0), 1.0):
        with pytest.raises(ValueError, match="one value per example"):
            FunctionLikelihood(lambda model, batch, bad=bad: bad).evaluate(nn.Identity(), None, 1.0)


def test_model_output_must_be_a_tensor():
    with pytest.raises(TypeError, match="not a tensor"):
        GaussianLikelihood().evaluate(lambda x: {"out": x}, (torch.randn(2, 1), torch.randn(2, 1)), 1.0)


def test_what_is_no_likelihood():
    with pytest.raises(TypeError, match="must be an instance, not a class"):
        as_likelihood(GaussianLikelihood)
    with pytest.raises(TypeError, match="the likelihood must be"):
        as_likelihood("gaussian")
    with pytest.raises(ValueError, match="sigma"):
        GaussianLikelihood(sigma=0.0)
    with pytest.raises(TypeError, match="has no next_sigma"):
        as_likelihood(FunctionLikelihood(lambda model, batch: batch, learn=True))
