"""The engines that compute the update of all blocks, and the choice between them.

`Reference` runs `reference.update` on any device. `Compiled` is the same under torch.compile, with the noise computed
inside: one pass over memory, for accelerators. `Native` runs the loops of `native` on the CPU, also in one pass. They
agree up to rounding, not to the last bit. Like the device, the engine is not part of a run's settings, and a run that
is to resume bit for bit must keep it.
"""

import dataclasses
import functools
import itertools
import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from torch import Tensor

from sparse_langevin.runtime import threads
from sparse_langevin.sampling.kernels.reference import BlockState, StepScalars, Sums, update
from sparse_langevin.sampling.metrics import Metric
from sparse_langevin.sampling.noise import CounterNoise, normals_at
from sparse_langevin.sampling.priors import Prior

EngineName = Literal["auto", "native", "reference", "compiled"]

logger = logging.getLogger("sparse_langevin")


class Engine(Protocol):
    """Computes one step of all blocks."""

    def step(self, states: Sequence[BlockState], scalars: StepScalars, noise: CounterNoise, k: int) -> list[Sums]:
        """Update every block in place with the noise of step ``k``; return the sums of each block."""


def choose(vector: Tensor, name: EngineName = "auto", parts: Iterable[Prior | Metric] = ()) -> Engine:
    """Return the engine called ``name`` for weights like ``vector``; ``"auto"`` is the fastest that works.

    ``parts`` are the priors and metrics in use; the native engine needs compiled formulas for all of them.
    """
    if name not in get_args(EngineName):
        raise ValueError(f"engine must be one of {', '.join(map(repr, get_args(EngineName)))}, got {name!r}")
    if name == "native" and not vector.is_cpu:
        raise ValueError(f"engine='native' is for models on the CPU, but this one is on {vector.device}: use 'auto'")
    if name == "reference":
        return Reference()
    if name == "compiled":
        return Compiled()
    if not vector.is_cpu:
        return Compiled() if _compiler_works(vector.device) else Reference()
    try:
        engine = Native()
        foreign = sorted({type(part).__name__ for part in parts if part.native() is None})
    except ImportError as error:
        if name == "native":
            raise ImportError("engine='native' needs numba: pip install numba") from error
        _say_once(f"numba cannot be imported ({error}): updates run in plain torch, several times slower")
        return Reference()
    if not foreign:
        return engine
    if name == "native":
        raise ValueError(f"engine='native' needs compiled formulas, but {foreign[0]}.native() returns none: use 'auto'")
    _say_once(
        f"{foreign[0]} has no compiled formulas (no method native): updates run in plain torch, several times slower"
    )
    return Reference()


class Reference:
    """Uses plain torch operations, on any device."""

    def step(self, states: Sequence[BlockState], scalars: StepScalars, noise: CounterNoise, k: int) -> list[Sums]:
        """Update every block in place; all sums are copied to the host in one transfer."""
        z = None if math.isinf(scalars.tau) else noise.normal(k)
        with torch.no_grad():
            rows = [torch.stack(update(state, scalars, None if z is None else z[state.span])) for state in states]
        return [Sums(*row) for row in torch.stack(rows).tolist()]


class Compiled:
    """Runs the reference under torch.compile; each kind of block is compiled when it first occurs."""

    def __init__(self) -> None:
        self._update = torch.compile(_noisy_update, fullgraph=True, dynamic=True)

    def step(self, states: Sequence[BlockState], scalars: StepScalars, noise: CounterNoise, k: int) -> list[Sums]:
        """Update every block in place; all sums are copied to the host in one transfer."""
        words = None if math.isinf(scalars.tau) else noise.words(k)
        # Python numbers would be compiled into the code, but they change at every step; tensors are arguments of it.
        numbers: Any = [*_tensors(scalars[:-1]), _tensors(scalars.metric)]
        with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=64):
            rows = torch.stack(
                [
                    self._update(s, StepScalars(*numbers), _tensors(s.numbers), torch.tensor(s.start), words)
                    for s in states
                ]
            )
        return [Sums(*row) for row in rows.tolist()]


def _tensors(numbers: Sequence[float]) -> tuple[Tensor, ...]:
    return torch.tensor(numbers, dtype=torch.float64).unbind()


def _noisy_update(state: BlockState, scalars: StepScalars, numbers: Any, start: Tensor, words: Tensor | None) -> Tensor:
    block = dataclasses.replace(state, start=0, numbers=numbers)
    z = None if words is None else normals_at(words, start, len(state.beta), state.beta.dtype)
    return torch.stack(update(block, scalars, z))


class Native:
    """Runs compiled code on as many CPU threads as torch uses; the result does not depend on their number."""

    SMALL = 32  # with fewer chunks than this, starting threads is not worthwhile
    PIECE = 64  # chunks per task, which take about 0.3 ms

    def __init__(self) -> None:
        from sparse_langevin.sampling.kernels import native  # numba takes half a second to import, and may be missing

        self._native: Any = native

    def step(self, states: Sequence[BlockState], scalars: StepScalars, noise: CounterNoise, k: int) -> list[Sums]:
        """Update every block in place, chunk by chunk."""
        key = None if math.isinf(scalars.tau) else noise.key
        blocks = [self._prepared(state, scalars, key, k) for state in states]
        chunks = [max(1, -(-state.beta.numel() // self._native.CHUNK)) for state in states]
        starts = [0, *itertools.accumulate(chunks[:-1])]
        sums = np.empty((sum(chunks), len(Sums._fields)))
        count = torch.get_num_threads() if len(sums) >= self.SMALL else 1
        if count == 1:
            for block, start, length in zip(blocks, starts, chunks, strict=True):
                block(sums[start : start + length], 0)
        else:
            tasks = (
                functools.partial(block, sums[start + first : start + last], first)
                for block, start, length in zip(blocks, starts, chunks, strict=True)
                for first, last in pieces(length, self.PIECE)
            )
            threads.run(deque(tasks), count)
        rows = sums if len(sums) == len(blocks) else np.add.reduceat(sums, starts)
        return [Sums(*row) for row in rows.tolist()]

    def _prepared(
        self, state: BlockState, scalars: StepScalars, key: tuple[int, int] | None, k: int
    ) -> Callable[..., None]:
        """Return the loop over a block, which still needs the range of chunks.

        All numbers must be floats: an int in place of a float would compile the loop again.
        """
        if not state.arrays:  # the conversion costs as much as the arithmetic of a hundred weights
            latent, moments = (tuple(map(_array, vectors)) for vectors in (state.latent, state.moments))
            loop = self._native.specialised(state.prior.native(), state.metric.native())
            state.arrays = loop, _array(state.beta), _array(state.grad), _array(state.velocity), moments, latent
        loop, beta, grad, velocity, moments, latent = state.arrays
        arrays = self._native.Arrays(beta, grad, velocity, _array(state.curvature), _array(state.keep), moments, latent)
        numbers = self._native.Scalars(*scalars, state.numbers, state.prior.divisors)
        return functools.partial(loop, arrays, numbers, key, k, state.start)


def _array(vector: Tensor | None) -> Any:
    return None if vector is None else vector.numpy()


def pieces(length: int, piece: int) -> Iterator[tuple[int, int]]:
    """Cut range(length) into pieces."""
    for first in range(0, length, piece):
        yield first, min(first + piece, length)


@functools.cache
def _compiler_works(device: torch.device) -> bool:
    """Whether torch can compile a small function for ``device``."""
    try:
        torch.compile(lambda x: x + 1)(torch.zeros(2, device=device))
    except Exception as error:  # there are many ways in which a compiler's toolchain can be incomplete
        _say_once(f"torch.compile does not work for {device} ({error}): updates run in plain torch, more slowly")
        return False
    return True


@functools.cache
def _say_once(message: str) -> None:
    logger.warning(message)
