"""Priors and metrics that users write: the examples, against quadrature and closed forms, on both engines."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import GaussianLikelihood, Prior, Sampler
from sparse_langevin.sampling.kernels import engines

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import own_metric
import own_prior


def test_examples_are_short():
    for name in ("own_prior", "own_metric", "own_simulator"):
        lines = (Path(__file__).parents[1] / "examples" / f"{name}.py").read_text().splitlines()
        assert len(lines) < 100, f"{name}.py has {len(lines)} lines"


def test_a_students_prior_against_quadrature(monkeypatch):
    """4000 chains of 3000 steps; momentum leaves a bias of about 1 % in the deviations."""
    monkeypatch.setattr(own_prior, "STEPS", 4000)
    prior = own_prior.Student()
    (mean, std), (true_mean, true_std) = own_prior.sampled(prior), own_prior.exact(prior)
    np.testing.assert_allclose(mean, true_mean, atol=0.02)
    np.testing.assert_allclose(std, true_std, rtol=0.02)


def test_a_frozen_metric_is_exact_where_rmsprop_is_not(monkeypatch):
    monkeypatch.setattr(own_metric, "STEPS", 4000)
    frozen = own_metric.deviations(own_metric.FrozenRMSprop())
    np.testing.assert_allclose(frozen, 1.0, atol=0.05)
    assert own_metric.deviations(own_metric.RMSprop(alpha=0.9)).max() > 1.15


@pytest.mark.parametrize("part", ["prior", "metric"])
def test_both_engines_agree(part, monkeypatch):
    """A user's native formulas and torch formulas are the same: a few steps apart by rounding only."""
    if part == "prior":
        monkeypatch.setattr(own_prior, "STEPS", 40)
        monkeypatch.setattr(own_prior, "BURN_IN", 0)
        found = [np.stack(own_prior.sampled(own_prior.Student(), engine)) for engine in ("native", "reference")]
    else:
        monkeypatch.setattr(own_metric, "STEPS", 40)
        monkeypatch.setattr(own_metric, "BURN_IN", 0)
        found = [own_metric.deviations(own_metric.FrozenRMSprop(10), engine=e) for e in ("native", "reference")]
    np.testing.assert_allclose(*found, rtol=1e-5)


class Laplace(Prior):
    """Without compiled formulas."""

    def numbers(self, sigma, scalars):
        return ()

    def add_gradient(self, grad, beta, vectors, numbers):
        return grad.add_(beta.sign())


def test_without_native_formulas_updates_run_in_torch(caplog):
    engines._say_once.cache_clear()
    sampler = Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=5, step_size=1e-3, prior=Laplace())
    assert isinstance(sampler._engine, engines.Reference)
    assert "Laplace has no compiled formulas" in caplog.text
    sampler.step(torch.ones(5, 3), torch.ones(5, 1))
    with pytest.raises(ValueError, match=r"needs compiled formulas, but Laplace.native\(\) returns none"):
        Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=5, step_size=1e-3, prior=Laplace(), engine="native")


def test_what_a_prior_lacks_is_named():
    class Empty(Prior):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define numbers\(sigma, scalars\)"):
        Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=5, step_size=1e-3, prior=Empty()).step(
            torch.ones(5, 3), torch.ones(5, 1)
        )
    with pytest.raises(TypeError, match=r"pass an instance, Laplace\(\)"):
        Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=5, step_size=1e-3, prior=Laplace)


def test_a_name_that_is_taken_is_refused():
    class Greedy(Laplace):
        vectors = ("beta",)

    with pytest.raises(ValueError, match="keeps a vector 'beta', but that name is taken"):
        Sampler(nn.Linear(3, 1), GaussianLikelihood(), num_data=5, step_size=1e-3, prior=Greedy())
