"""Gradients with control variates: unbiased, exact at the anchor, less noisy beside it; and runs that resume."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import Batches, GaussianLikelihood, PosteriorBank, fit, psgld_sa, sgld
from sparse_langevin.sampling.control_variates import Anchor

N = 60


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    return x, torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(N, 1, generator=generator, dtype=torch.float64)


def network(seed=0, dropout=0.0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)).double()


def anchored(model=None, **options):
    options = {"num_data": N, "step_size": 1e-6, "seed": 1} | options
    sampler = sgld(model or network(), GaussianLikelihood(0.3, learn=False), **options)
    sampler.plan(None, None, anchored=True)
    return sampler


def gradients(sampler, batches):
    return torch.stack([sampler.gradient(batch) for batch in batches])


def test_the_mean_over_ragged_batches_is_the_full_gradient():
    """Batches of 25, 25 and 10, weighted by their sizes; without the anchor the weights hold too."""
    x, y = data()
    sampler = anchored()
    batches = list(Batches(x, y, batch_size=25))
    sampler.anchor.move(batches, sampler.sigma)
    full = anchored(deepcopy(sampler.model)).gradient((x, y))
    torch.testing.assert_close(sampler.anchor.tensors["anchor_gradient"], full, rtol=1e-12, atol=1e-10)
    for found in gradients(sampler, batches):  # at the anchor there is no noise at all
        torch.testing.assert_close(found, full, rtol=1e-12, atol=1e-10)
    sampler.flat.vector.add_(0.1 * torch.randn(sampler.flat.size, dtype=torch.float64))
    shares = torch.tensor([len(batch[0]) / N for batch in batches], dtype=torch.float64)
    away = anchored(deepcopy(sampler.model)).gradient((x, y))
    torch.testing.assert_close(shares @ gradients(sampler, batches), away, rtol=1e-12, atol=1e-10)


def test_noise_falls_with_the_distance_to_the_anchor():
    x, y = data()
    sampler, plain = anchored(), anchored()
    batches = list(Batches(x, y, batch_size=10))
    sampler.anchor.move(batches, sampler.sigma)
    step = torch.randn(sampler.flat.size, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    noises = []
    for distance in (0.1, 0.01, 0.001):
        sampler.anchor.move(batches, sampler.sigma)
        origin = sampler.flat.vector.clone()
        sampler.flat.vector.add_(step, alpha=distance)
        noises.append(float(gradients(sampler, batches).var(0).sum()))
        sampler.flat.vector.copy_(origin)
    noise = float(gradients(plain, batches).var(0).sum())
    slopes = np.diff(np.log(noises)) / np.diff(np.log([0.1, 0.01, 0.001]))
    assert np.allclose(slopes, 2, atol=0.15) and noises[1] < 0.01 * noise


def test_the_same_dropout_at_both_points():
    x, y = data()
    sampler = anchored(network(dropout=0.5))
    sampler.anchor.move([(x, y)], sampler.sigma)
    before = sampler.anchor.tensors["anchor_gradient"].clone()
    torch.manual_seed(5)
    difference = sampler.anchor.difference((x, y))
    torch.manual_seed(5)
    plain = anchored(deepcopy(sampler.model)).gradient((x, y))
    torch.testing.assert_close(before - difference, plain, rtol=1e-12, atol=1e-12)


def test_a_run_resumes_with_its_anchor(tmp_path):
    x, y = data()

    def run(folder, steps):
        sampler = psgld_sa(network(), GaussianLikelihood(), num_data=N, step_size=1e-3, seed=2)
        bank = PosteriorBank(thin=5, burn_in=10, folder=folder / "samples")
        fit(
            sampler,
            Batches(x, y, batch_size=25),
            steps=steps,
            run=folder,
            bank=bank,
            save_every=7,
            control_variates=2,
            progress=False,
        )
        return sampler

    whole = run(tmp_path / "whole", 40)
    for stop in (7, 16, 23, 40):
        last = run(tmp_path / "parts", stop)
    assert whole.anchor.known
    for name, tensor in whole.state_dict()["tensors"].items():
        assert torch.equal(tensor, last.state_dict()["tensors"][name]), name


def test_they_set_in_half_way_through_the_burn_in():
    x, y = data()
    known = []
    fit(
        sgld(network(), GaussianLikelihood(), num_data=N, step_size=1e-5),
        Batches(x, y, batch_size=30),
        epochs=10,
        bank=PosteriorBank(burn_in=12),
        control_variates=1,
        callbacks=[lambda sampler, _: known.append(sampler.anchor.known)],
    )
    assert known == [False] * 6 + [True] * 14


def test_bad_use():
    x, y = data()
    with pytest.raises(ValueError, match="control_variates must be an integer at least 1, got 0"):
        fit(anchored(), [(x, y)], steps=2, control_variates=0)
    assert not Anchor(anchored().flat, lambda batch, sigma: 1).known
