"""The sampler against the NumPy reference: four algorithms, two likelihoods, masked and not, float64 and float32."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from sparse_langevin import (
    CategoricalLikelihood,
    GaussianLikelihood,
    GaussianPrior,
    Identity,
    Polynomial,
    Pruning,
    RMSprop,
    Sampler,
    SpikeSlab,
)
from sparse_langevin.sampling.noise import CounterNoise
from tests.sampling.numpy_reference import Network, Reference

N, STEPS = 40, 25
EPS = {False: 1e-3, True: 1e-2}
ALPHA = Polynomial(0.5, 1.0, 0.3)
OMEGA = Polynomial(1.0, 5.0, 0.7)
TAU = 2.0
PRUNING = Pruning(target=0.5, end=15, every=4)
LAYERS = {
    "0.weight": SpikeSlab(v0=0.2, v1=5.0),
    "2": SpikeSlab(v0=0.05, v1=20.0, b=3.0),
}


def make_pair(preconditioned, adaptive, categorical, masked, dtype, engine, momentum=0.0, summed=False):
    rng = np.random.default_rng(7)
    network = Network()
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)
    latents = "summed" if summed else "averaged"
    layers = {name: replace(prior, latents=latents) for name, prior in LAYERS.items()}
    prior = layers if adaptive else GaussianPrior(0.7)
    sampler = Sampler(
        model,
        CategoricalLikelihood() if categorical else GaussianLikelihood(sigma=0.8, nu=2.0, lambda_=0.3),
        num_data=N,
        step_size=EPS[preconditioned],
        prior=prior,
        dense_prior=GaussianPrior(0.7),
        preconditioner=RMSprop.as_printed(alpha=ALPHA) if preconditioned else Identity(),
        omega=OMEGA,
        tau=TAU,
        pruning=PRUNING if masked else None,
        momentum=momentum,
        seed=11,
        engine=engine,
    )
    start = rng.normal(size=network.size) * 0.5
    sampler.flat.vector.copy_(torch.from_numpy(start))
    reference = Reference(
        network,
        sampler.flat.vector.double().numpy().copy(),
        N,
        preconditioned,
        adaptive,
        categorical,
        sigma0=0.7,
        momentum=momentum,
        summed=summed,
        v0=(0.2, 0.05),
        v1=(5.0, 20.0),
        b=(None, 3.0),
        nu=2.0,
        lam=0.3,
        sigma=1.0 if categorical else 0.8,
    )
    x = rng.normal(size=(N, 3))
    y = rng.integers(0, 2, size=N) if categorical else rng.normal(size=(N, 2))
    return sampler, reference, x, y


def relative(ours, theirs):
    theirs = np.asarray(theirs)
    return np.abs(np.asarray(ours) - theirs).max() / max(np.abs(theirs).max(), 1e-300)


def push(sampler, reference):
    """Give the sampler the reference's state, so that single steps can be compared in float32."""
    start = sampler.flat.sparse_start
    sampler.flat.vector.copy_(torch.from_numpy(reference.beta))
    sampler.sigma = reference.sigma
    if sampler.vectors.get("v") is not None:
        sampler.vectors["v"].copy_(torch.from_numpy(reference.v))
    if sampler.vectors.get("velocity") is not None:
        sampler.vectors["velocity"].copy_(torch.from_numpy(reference.velocity))
    if sampler.vectors.get("rho") is not None:
        s = np.concatenate(
            [reference.kappa1[layer] * v1 for layer, v1 in zip(reference.network.layers, reference.v1, strict=True)]
        )
        sampler.vectors["rho"].copy_(torch.from_numpy(reference.rho[start:]))
        sampler.vectors["s"].copy_(torch.from_numpy(s))
        for name, delta in zip(sampler.delta, reference.delta, strict=True):
            sampler.scalars[name] = sampler.scalars[name] | {"delta": delta}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("categorical", [False, True], ids=["gaussian", "categorical"])
@pytest.mark.parametrize("adaptive", [False, True], ids=["gaussian-prior", "spike-slab"])
@pytest.mark.parametrize("preconditioned", [False, True], ids=["identity", "rmsprop"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["f64", "f32"])
def test_update_equals_numpy_reference(preconditioned, adaptive, categorical, masked, dtype, tolerance, engine):
    compare(*make_pair(preconditioned, adaptive, categorical, masked, dtype, engine), tolerance)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("whole", [False, True], ids=["sgld", "psgld-sa-masked"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["f64", "f32"])
def test_momentum_equals_numpy_reference(whole, dtype, tolerance, engine):
    """The reference has masses and a step in time; ours scales the velocity."""
    compare(*make_pair(whole, whole, False, whole, dtype, engine, momentum=0.6), tolerance)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("categorical", [False, True], ids=["gaussian", "categorical"])
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-5)], ids=["f64", "f32"])
def test_latents_summed_out_equal_numpy_reference(categorical, masked, dtype, tolerance, engine):
    compare(*make_pair(True, True, categorical, masked, dtype, engine, summed=True), tolerance)


def compare(sampler, reference, x, y, tolerance):
    """Take steps with both."""
    dtype, preconditioned, adaptive = sampler.flat.vector.dtype, reference.preconditioned, reference.adaptive
    masked = sampler.pruning is not None
    noise = CounterNoise(11, sampler.flat.size, dtype=torch.float64)
    start = sampler.flat.sparse_start
    sizes = [7, 10, 3]  # ragged batches
    for k in range(1, STEPS + 1):
        rows = np.arange(k * 5, k * 5 + sizes[k % 3]) % N
        if dtype == torch.float32:
            push(sampler, reference)
        info = sampler.step(torch.from_numpy(x[rows]).to(dtype), torch.from_numpy(y[rows]).to(y_type(y, dtype)))
        z = noise.normal(k).numpy()
        share = PRUNING.share(k) if masked and PRUNING.due(k) else None
        drift, noise_norm = reference.step(x[rows], y[rows], z, EPS[preconditioned], ALPHA(k), OMEGA(k), TAU, share)

        assert relative(sampler.flat.vector.numpy(), reference.beta) < tolerance
        assert relative(info.sigma, reference.sigma) < tolerance
        assert relative(info.drift_norm, drift) < tolerance
        assert relative(info.noise_norm, noise_norm) < tolerance
        if preconditioned:
            assert relative(sampler.vectors["v"].numpy(), reference.v) < tolerance
        if adaptive:
            assert relative(sampler.vectors["rho"].numpy(), reference.rho[start:]) < tolerance
            assert relative(list(sampler.delta.values()), reference.delta) < tolerance
            assert relative(info.inclusion, reference.included[start:].mean()) < tolerance
            for layer, v0, v1 in zip(reference.network.layers, reference.v0, reference.v1, strict=True):
                s = sampler.vectors["s"].numpy()[layer.start - start : layer.stop - start]
                assert relative((1 - s) / v0, reference.kappa0[layer]) < tolerance
                assert relative(s / v1, reference.kappa1[layer]) < tolerance
        if masked:
            assert np.array_equal(sampler.flat.vector.numpy() == 0, reference.pruned)
            assert info.sparsity == pytest.approx(reference.pruned[start:].mean())


def y_type(y, dtype):
    return torch.int64 if y.dtype.kind == "i" else dtype
