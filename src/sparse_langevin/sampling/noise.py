r"""Gaussian noise as a pure function of (seed, stream, step, index).

The generator is Threefry-2x32 with 13 rounds, the faster of the two forms for which Random123 publishes known answers
(Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): a keyed bijection of 64-bit counters. The key comes
from the seed and the stream, the counter is (index // 2, step), and each pair of 32-bit words gives two normal numbers
by Box and Muller:

    u1 = (word0 + 1/2) / 2^32      u2 = (word1 + 1/2) / 2^32      (words as signed integers + 2^31)
    z[2i] = sqrt(-2 log u1) cos(2 pi u2)      z[2i + 1] = sqrt(-2 log u1) sin(2 pi u2)

There is no state: a run that resumes at step k needs only k, and the noise does not depend on the number of threads,
devices or ranks. The arithmetic is done in float64, so float32 and float64 models get the same draws.
"""

import functools
import math
from typing import Any

import torch
from torch import Tensor

ROUNDS = 13
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

# Number of counters processed at a time. They fit in the cache and are fewer than torch's parallel grain of 32768, so
# that every element is computed by the same instructions whatever the number of threads.
CHUNK = 1 << 14

Key = tuple[int, int] | tuple[Tensor, Tensor]

WEIGHTS, PROBES = 0, 1  # streams: the Langevin noise, and the probes of the curvature estimate


class CounterNoise:
    """A stream of noise vectors of one size, one vector per step.

    Parameters
    ----------
    seed
        Any integer in [0, 2**64).
    size
        Length of each vector.
    stream
        Number of the stream; the streams of one seed are independent.
    replica
        Number of the replica; those of one stream are independent too.
    dtype
        Precision of the vectors.
    device
        Device of the vectors.

    Attributes
    ----------
    key : tuple of int
        The two 32-bit words with which counters are encrypted, for code that computes the same noise elsewhere.

    Examples
    --------
    >>> noise = CounterNoise(seed=0, size=3)
    >>> bool((noise.normal(5) == CounterNoise(seed=0, size=3).normal(5)).all())
    True
    """

    def __init__(
        self,
        seed: int,
        size: int,
        *,
        stream: int = WEIGHTS,
        replica: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise ValueError(f"seed must be an integer in [0, 2**64), got {seed!r}")
        self.size = size
        self.dtype = dtype
        self.device = device
        self.key = _derive_key(seed, stream, replica)
        self._pairs = max(1, (size + 1) // 2)
        # When vectors are short, a chunk holds the counters of several steps: small models would otherwise be slowed
        # down by the overhead of a hundred tiny operations per step.
        self._steps_per_chunk = max(1, CHUNK // self._pairs)
        self._out = torch.empty(0, dtype=dtype, device=device)
        self._first = -1  # first step held in _out

    def normal(self, step: int) -> Tensor:
        """Return the standard normal vector of ``step``. The tensor is shared between calls: do not change it."""
        rows = self._steps_per_chunk
        first = step - step % rows
        if first != self._first:
            self._out = self._normals(first)
            self._first = first
        return self._out[step - first]

    def words(self, step: int) -> Tensor:
        """Return the key and the step as three int32 words, for `normals_at`."""
        return torch.tensor([*map(_signed, (*self.key, step))], dtype=torch.int32, device=self.device)

    def rademacher(self, step: int) -> Tensor:
        """Return a vector of -1 and +1 for ``step``."""
        return torch.where(self.normal(step) < 0, -1.0, 1.0).to(self.dtype)

    @functools.cached_property
    def _counters(self) -> tuple[Tensor, Tensor]:
        """Index and step of each counter in a chunk; computed when needed, since some engines use only the key."""
        position = torch.arange(CHUNK, dtype=torch.int32, device=self.device)
        if self._steps_per_chunk > 1:
            return position % self._pairs, position // self._pairs
        return position, torch.zeros_like(position)

    def _normals(self, first: int) -> Tensor:
        """Return the normal vectors of the steps ``first .. first + steps_per_chunk - 1``, one per row."""
        rows, pairs = self._steps_per_chunk, self._pairs
        out = torch.empty(rows, pairs, 2, dtype=self.dtype, device=self.device)
        flat = out.view(rows * pairs, 2)
        index, ahead = self._counters
        for start in range(0, rows * pairs, CHUNK):
            count = min(CHUNK, rows * pairs - start)
            words = threefry2x32(self.key, index + start, ahead + _signed(first))
            radius, angle = _polar(*words)
            flat[start : start + count, 0] = (radius * angle.cos())[:count]
            flat[start : start + count, 1] = (radius * angle.sin())[:count]
        return out.view(rows, 2 * pairs)[:, : self.size]


def for_chain(vector: Tensor, seed: int, chain: int, kind: int, replica: int = 0) -> CounterNoise:
    """Return the noise of one kind, `WEIGHTS` or `PROBES`, for a replica of a chain over weights like ``vector``."""
    stream, size = 2 * chain + kind, vector.numel()
    return CounterNoise(seed, size, stream=stream, replica=replica, dtype=vector.dtype, device=vector.device)


def normals_at(words: Tensor, start: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Return the normal numbers with the indices ``start .. start + size - 1``, each computed on its own.

    They are the same as those of `CounterNoise.normal`. Computing each pair twice lets torch.compile fuse the noise
    with the arithmetic that uses it. ``words`` comes from `CounterNoise.words`.
    """
    index = torch.arange(size, device=words.device) + start
    pair = (index >> 1).int()
    radius, angle = _polar(*threefry2x32((words[0], words[1]), pair, words[2].expand_as(pair).clone()))
    return (radius * torch.where((index & 1) == 0, angle.cos(), angle.sin())).to(dtype)


def threefry2x32(key: Key, word0: Tensor, word1: Tensor) -> tuple[Tensor, Tensor]:
    """Encrypt int32 counters (word0, word1) under ``key``; the words are overwritten.

    torch has no unsigned 32-bit arithmetic. The words are int32, whose additions wrap around, and a logical shift is an
    arithmetic shift with the copies of the sign bit masked out.
    """
    schedule = tuple(map(_signed, (key[0], key[1], key[0] ^ key[1] ^ PARITY)))
    spill = torch.empty_like(word1)
    word0.add_(schedule[0])
    word1.add_(schedule[1])
    for number in range(ROUNDS):
        group, place = divmod(number, 4)
        turn = ROTATIONS[group % 2][place]
        word0.add_(word1)
        torch.bitwise_right_shift(word1, 32 - turn, out=spill)
        spill.bitwise_and_((1 << turn) - 1)
        word1.bitwise_left_shift_(turn).bitwise_or_(spill).bitwise_xor_(word0)
        if place == 3:
            word0.add_(schedule[(group + 1) % 3])
            word1.add_(_signed(schedule[(group + 2) % 3] + group + 1))
    return word0, word1


def _polar(word0: Tensor, word1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the radius and the angle of the Box-Muller transform, in float64, from two signed words."""
    shift = 2.0**31 + 0.5
    radius = word0.double().add_(shift).mul_(2.0**-32).log_().mul_(-2.0).sqrt_()
    angle = word1.double().add_(shift).mul_(2.0**-32 * 2.0 * math.pi)
    return radius, angle


def _derive_key(seed: int, stream: int, replica: int) -> tuple[int, int]:
    """Return the key of a stream: the counter (stream, replica) encrypted with the seed as the key."""
    words = threefry2x32(
        (seed & 0xFFFFFFFF, seed >> 32),
        torch.tensor([_signed(stream)], dtype=torch.int32),
        torch.tensor([_signed(replica)], dtype=torch.int32),
    )
    return int(words[0].item()) & 0xFFFFFFFF, int(words[1].item()) & 0xFFFFFFFF


def _signed(word: Any) -> Any:
    """Return the signed 32-bit integer with the bits of ``word`` modulo 2**32; int32 tensors stay as they are."""
    if isinstance(word, Tensor):
        return word
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >= 1 << 31 else word
