"""The native engine against the reference: every combination of what an update can have, and its noise."""

import itertools
import math

import numpy as np
import pytest
import torch

from sparse_langevin.runtime import native_math
from sparse_langevin.sampling.kernels import BlockState, StepScalars, native, native_noise
from sparse_langevin.sampling.kernels.engines import Native, Reference
from sparse_langevin.sampling.metrics import Identity, RMSprop
from sparse_langevin.sampling.noise import CounterNoise
from sparse_langevin.sampling.priors import GaussianPrior, SpikeSlab

STEPS = 25
# Odd sizes, a block that begins within a pair of normal numbers, one that is longer than a chunk, an empty one.
SIZES = (3, 1, 2 * native.CHUNK + 77, 0, 10)


def state_of(block):
    """Everything that a step changes, by name."""
    found = {"beta": block.beta, "velocity": block.velocity}
    found |= dict(zip(block.metric.vectors, block.moments, strict=True))
    found |= dict(zip(block.prior.vectors, block.latent, strict=True))
    return {name: vector for name, vector in found.items() if vector is not None}


def scalars(k, step_size, tau, omega, alpha, eta, momentum=0.0, metric=True):
    """The numbers of a step."""
    numbers = tuple(RMSprop(alpha=alpha, eta=eta).numbers(k)) if metric else ()
    return StepScalars(step_size, tau, omega, momentum, numbers)


SUITS = {torch.float32: 1e-6, torch.float64: 1e-12}


def make_states(dtype, *, metric, latent, masked, gamma, momentum=False, seed=0):
    """Blocks side by side in one vector, with random contents."""
    generator = torch.Generator().manual_seed(seed)

    def vector(scale=1.0):
        return scale * torch.randn(sum(SIZES), generator=generator, dtype=torch.float64).to(dtype)

    beta, grad, v, curvature = vector(0.3), vector(30.0), vector().square() * 900, vector(100.0)
    v[5] = grad[5] = beta[5] = 0.0  # Gamma is zero where V is
    rho, s = vector().sigmoid(), vector().sigmoid()
    keep, velocity = vector() > -0.5, vector(0.01)
    states, start = [], 0
    for i, size in enumerate(SIZES):
        span = slice(start, start + size)
        spiky = latent and i > 0
        prior = (
            SpikeSlab(v0=0.1 * (1 + i), v1=5.0, latents=("averaged", "summed")[i % 2]) if spiky else GaussianPrior(0.7)
        )
        states.append(
            BlockState(
                prior,
                RMSprop() if metric else Identity(),
                beta[span],
                grad[span],
                start=start,
                latent=(rho[span], s[span]) if spiky else (),
                moments=(v[span],) if metric else (),
                velocity=velocity[span] if momentum else None,
                curvature=curvature[span] if gamma else None,
                keep=keep[span] if masked and i > 0 else None,
                numbers=tuple(prior.numbers(0.8, {"delta": 0.2})),
            )
        )
        start += size
    return states


def distance(ours, theirs, size=None):
    """Largest difference, relative to the largest value, or to that of ``size``."""
    if not len(theirs):
        return 0.0
    return float((ours - theirs).abs().max() / (theirs if size is None else size).abs().max().clamp(min=1e-30))


def copy_state(source, target):
    for one, other in zip(source, target, strict=True):
        other.grad.copy_(one.grad)
        for mine, theirs in zip(state_of(one).values(), state_of(other).values(), strict=True):
            theirs.copy_(mine)


CASES = [
    (*case, False) for case in itertools.product([False, True], repeat=5) if case[0] or not case[3]
]  # without a metric there is no Gamma
CASES += [(metric, metric, metric, False, cold, True) for metric in (False, True) for cold in (False, True)]


@pytest.mark.parametrize("dtype", SUITS, ids=str)
@pytest.mark.parametrize(("metric", "latent", "masked", "gamma", "cold", "momentum"), CASES)
def test_native_equals_reference(dtype, metric, latent, masked, gamma, cold, momentum):
    options = {"metric": metric, "latent": latent, "masked": masked, "gamma": gamma, "momentum": momentum}
    ours, theirs = make_states(dtype, **options), make_states(dtype, **options)
    noise = CounterNoise(5, sum(SIZES), dtype=dtype)
    generator = torch.Generator().manual_seed(1)
    tolerance = SUITS[dtype]
    for k in range(1, STEPS + 1):
        step_size = (1e-2 if metric else 1e-4) / k
        # A large eta: a gradient that nearly cancels is ill-conditioned in float32, and 1/(eta + sqrt(V)) amplifies it.
        step = scalars(k, step_size, math.inf if cold else 2.0, 0.3, 0.9, 1.0, momentum=0.8, metric=metric)
        gradient = 30 * torch.randn(sum(SIZES), generator=generator, dtype=torch.float64).to(dtype)
        for state in theirs:
            state.grad.copy_(gradient[state.span])
        copy_state(theirs, ours)  # so that the comparison is of one step, not of a chaotic path
        seen, wanted = Native().step(ours, step, noise, k), Reference().step(theirs, step, noise, k)
        for one, other in zip(ours, theirs, strict=True):
            mine = state_of(one)
            for name, reference in state_of(other).items():
                size = other.beta if name == "velocity" else None  # its terms cancel, and a block may be one weight
                assert distance(mine[name], reference, size) <= tolerance, (name, k)
        for mine, reference in zip(seen, wanted, strict=True):
            assert mine == pytest.approx(reference, rel=4 * tolerance, abs=1e-30)


@pytest.mark.parametrize("dtype", SUITS, ids=str)
def test_many_steps_without_meeting(dtype):
    """Two engines on their own paths stay together: no error adds up from step to step."""
    options = {"metric": True, "latent": True, "masked": False, "gamma": False, "momentum": True}
    ours, theirs = make_states(dtype, **options), make_states(dtype, **options)
    noise = CounterNoise(5, sum(SIZES), dtype=dtype)
    for k in range(1, STEPS + 1):
        step = scalars(k, 1e-3, 1.0, 0.1, 0.9, 1e-3, momentum=0.5)
        for states in (ours, theirs):
            for state in states:
                state.grad.copy_(10 * (state.beta - 1))
        Native().step(ours, step, noise, k)
        Reference().step(theirs, step, noise, k)
    for one, other in zip(ours, theirs, strict=True):
        mine = state_of(one)
        for name, reference in state_of(other).items():
            assert distance(mine[name], reference) <= STEPS * SUITS[dtype], name


@pytest.mark.parametrize("start", [0, 1, 2, 101])
def test_noise_equals_the_reference(start):
    size = 2_000_000
    exact = CounterNoise(9, start + size, dtype=torch.float64)
    for k in (1, 2**32 - 1, 2**32 + 5):
        for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
            first = start // 2
            out = np.empty(size // 2 * 2, dtype)
            native_noise.normals(exact.key, k, first, out)
            z = exact.normal(k).numpy()[2 * first : 2 * first + len(out)]
            assert (np.abs(out[: len(z)] - z) / np.maximum(1, np.abs(z))).max() < tolerance


def test_extreme_words():
    """The tails: u1 = (word + 1/2)/2^32 down to 2^-33 and up to 1 - 2^-33, and every change of formula between."""
    turns = [round(2**32 * math.sqrt(0.5)) + i for i in range(-3, 4)] + [
        2**e + i for e in range(2, 32) for i in (-1, 1)
    ]
    words = np.array([*range(1000), *range(2**32 - 1000, 2**32), 2**31, *turns], dtype=np.uint32)
    u = (words.astype(np.float64) + 0.5) / 2**32
    radius = np.array([native_noise._radius(word) for word in words])
    assert np.abs(radius / np.sqrt(-2 * np.log(u)) - 1).max() < 3e-7
    eighths = [(i << 29) + j & 0xFFFFFFFF for i in range(8) for j in range(-3, 4)]
    words = np.concatenate([words, np.array(eighths, dtype=np.uint32)])
    angle = 2 * np.pi * (words.astype(np.float64) + 0.5) / 2**32
    pairs = np.array([native_noise._cosine_sine(word) for word in words], dtype=np.float64)
    assert np.abs(pairs - np.stack([np.cos(angle), np.sin(angle)], 1)).max() < 1.5e-7


def test_exponential():
    x = np.linspace(-87, 88, 100_001, dtype=np.float32)
    seen = np.array([native_math.exp32(value) for value in x], dtype=np.float64)
    assert np.abs(seen / np.exp(x.astype(np.float64)) - 1).max() < 2e-7
    for value, bound in ((-math.inf, -87.0), (math.inf, 88.0), (-1e30, -87.0)):
        assert native_math.exp32(np.float32(value)) == pytest.approx(math.exp(bound), rel=1e-6)
    assert math.isnan(native_math.exp32(np.float32(math.nan)))


@pytest.mark.parametrize("dtype", SUITS, ids=str)
def test_same_bits_for_one_and_two_threads(dtype, monkeypatch):
    size = 5 * Native.PIECE * native.CHUNK + 333
    noise = CounterNoise(1, size, dtype=dtype)
    results = []
    for count in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        generator = torch.Generator().manual_seed(0)
        beta, grad, v, rho, s = (torch.rand(size, generator=generator, dtype=dtype) for _ in range(5))
        states = [
            BlockState(GaussianPrior(), RMSprop(), beta[:99], grad[:99], moments=(v[:99],), numbers=(1.0,)),
            BlockState(
                SpikeSlab(latents="averaged"),
                RMSprop(),
                beta[99:],
                grad[99:],
                start=99,
                moments=(v[99:],),
                latent=(rho[99:], s[99:]),
                numbers=tuple(SpikeSlab(latents="averaged").numbers(1.0, {"delta": 0.5})),
            ),
        ]
        for k in (1, 2):
            sums = Native().step(states, scalars(k, 1e-3, 1.0, 0.1, 0.9, 1e-3), noise, k)
        results.append((torch.stack([beta, v, rho, s]), sums))
    for vectors, sums in results[1:]:
        assert torch.equal(vectors, results[0][0])
        assert sums == results[0][1]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_visible(value):
    options = {"metric": True, "latent": True, "masked": False, "gamma": False}
    ours, theirs = make_states(torch.float32, **options), make_states(torch.float32, **options)
    noise = CounterNoise(5, sum(SIZES))
    for states in (ours, theirs):
        states[0].grad[0] = value
        states[2].grad[[1, 1024, 2000]] = value
        states[4].beta[0] = value
    step = scalars(2, 1e-3, 1.0, 0.1, 0.9, 1e-3)
    seen, wanted = Native().step(ours, step, noise, 1), Reference().step(theirs, step, noise, 1)
    for one, other in zip(ours, theirs, strict=True):
        mine = state_of(one)
        for name, reference in state_of(other).items():
            assert torch.equal(mine[name].isnan(), reference.isnan()), name
    assert [math.isnan(x) for row in seen for x in row] == [math.isnan(x) for row in wanted for x in row]
