"""The counter-based generator: known answers, and the distribution of its normal numbers."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sparse_langevin.sampling.noise import CHUNK, CounterNoise, _signed, threefry2x32


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [  # the Random123 distribution's known answers for threefry2x32, 13 rounds
        ((0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0xFD36D048, 0x2D17272C)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xBA3E4725, 0xF27D669E)),
    ],
)
def test_threefry_known_answers(key, counter, answer):
    words = threefry2x32(key, *(torch.tensor([_signed(c)], dtype=torch.int32) for c in counter))
    assert tuple(int(w.item()) & 0xFFFFFFFF for w in words) == answer


def draws(count, seed=0, step=1):
    return CounterNoise(seed, count, dtype=torch.float64).normal(step).numpy()


def test_distribution_on_ten_million_draws():
    z = draws(10_000_000)
    moments = [(z**k).mean() for k in range(1, 7)]
    exact = [0, 1, 0, 3, 0, 15]
    for k, (seen, wanted) in enumerate(zip(moments, exact, strict=True), start=1):
        variance = math.prod(range(1, 2 * k, 2)) - wanted**2  # E z^2k = (2k - 1)!!
        assert abs(seen - wanted) < 4 * math.sqrt(variance / len(z)), f"moment {k}"
    # The statistic against the asymptotic distribution of Kolmogorov at 10^7 draws.
    assert stats.kstest(z, "norm").pvalue > 0.001
    for lag in (1, 2, 3, 7, 64, CHUNK, 2 * CHUNK):
        assert abs(np.mean(z[lag:] * z[:-lag])) < 4.5 / math.sqrt(len(z)), f"lag {lag}"
        assert abs(np.mean(z[lag:] ** 2 * z[:-lag] ** 2) - 1) < 4.5 * math.sqrt(8 / len(z)), f"lag {lag}, squares"


def test_steps_seeds_and_streams_are_uncorrelated():
    size = 500_000
    base = draws(size)
    others = [draws(size, step=2), draws(size, step=1 + 2**16), draws(size, seed=1), draws(size, seed=2**32)]
    others.append(CounterNoise(0, size, stream=1, dtype=torch.float64).normal(1).numpy())
    for other in others:
        assert abs(np.mean(base * other)) < 4.5 / math.sqrt(size)
        assert abs(np.corrcoef(base**2, other**2)[0, 1]) < 4.5 / math.sqrt(size)


def test_index_series_over_steps():
    """Each index is white noise over steps, and neighbouring indices do not follow each other."""
    noise = CounterNoise(0, 40, dtype=torch.float64)
    z = np.stack([noise.normal(k).numpy() for k in range(1, 20_001)])
    bound = 5 / math.sqrt(len(z))
    assert np.abs(np.corrcoef(z.T) - np.eye(40)).max() < bound
    assert np.abs((z[1:] * z[:-1]).mean(0)).max() < bound


def test_no_repeats_across_steps():
    noise = CounterNoise(0, 1000, dtype=torch.float64)
    values = np.concatenate([noise.normal(k).numpy() for k in range(1, 1001)])
    # 2^32 radii and 2^32 angles: a repeat among 10^6 draws would be a fault.
    assert len(np.unique(values)) == len(values)


def test_pure_function_of_seed_step_and_index():
    """The same draws for any size of vector, any order of steps, float32 and float64, one thread and two."""
    long = CounterNoise(9, 3 * CHUNK + 17, dtype=torch.float64)
    reference = {k: long.normal(k).clone() for k in (5, 1, 1000)}
    for size in (1, 2, 31, 1000, CHUNK, 2 * CHUNK + 1):
        noise = CounterNoise(9, size, dtype=torch.float64)
        single = CounterNoise(9, size, dtype=torch.float32)
        for k in (1000, 1, 5):
            assert torch.equal(noise.normal(k), reference[k][:size])
            assert torch.equal(single.normal(k), reference[k][:size].float())


def test_same_for_one_and_two_threads():
    size = 5 * CHUNK + 3
    one = CounterNoise(3, size).normal(7).clone()
    try:
        torch.set_num_threads(2)
        two = CounterNoise(3, size).normal(7).clone()
    finally:
        torch.set_num_threads(1)
    assert torch.equal(one, two)


def test_rademacher_signs():
    z = CounterNoise(0, 100_001, dtype=torch.float64).rademacher(3)
    assert set(z.tolist()) == {-1.0, 1.0}
    assert abs(z.mean().item()) < 4 / math.sqrt(len(z))


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "0"])
def test_bad_seed(seed):
    with pytest.raises(ValueError, match="seed must be an integer"):
        CounterNoise(seed, 3)
