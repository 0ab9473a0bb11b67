"""The product of a batch and a sparse matrix, as machine code.

The nonzeros of the matrix are stored row by row: ``values``, and ``columns`` in 16 bits where that is enough. The
nonzeros ``cuts[r, p]`` to ``cuts[r, p + 1]`` are those of row r in panel p. A panel is `PANEL` columns wide, so that
its activations stay in the cache of one core.

For a single input, each step gathers the activations of `GATHER` nonzeros. A batch is packed first, with `LANES`
samples side by side, so that a nonzero is multiplied by neighbours in memory, and the sums of a row stay in registers
until all its nonzeros are processed. Each sum is split into `WAYS` parts, because an addition has to wait for the
previous one. The compiler does neither on its own, so the two inner loops are written in LLVM's intermediate language.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from sparse_langevin.runtime.jit import compiled

Array = np.ndarray[Any, Any]

LANES = 16  # samples; with 8 or 64, a batch of 64 took longer
WAYS = 4
GATHER = 8  # nonzeros
TILE = 64  # rows whose sums and nonzeros stay in the cache while all samples are processed
PANEL = 1024  # columns: 64 KiB of packed activations

FLOAT, INDEX = ir.FloatType(), ir.IntType(64)
FUSED = ("contract",)  # a multiplication and an addition may be one instruction


@compiled
def pack(x: Array, packed: Array, low: int, high: int) -> None:
    """Copy columns ``low`` to ``high`` of (batch, features) to (blocks, features, LANES), padded with zeros."""
    batch = len(x)
    for block in range(len(packed)):
        first = block * LANES
        if first + LANES <= batch:
            for column in range(low, high):
                for lane in range(LANES):
                    packed[block, column, lane] = x[first + lane, column]
        else:
            for column in range(low, high):
                for lane in range(LANES):
                    packed[block, column, lane] = x[first + lane, column] if first + lane < batch else np.float32(0)


@compiled
def multiply_packed(
    values: Array, columns: Array, cuts: Array, bias: Array, packed: Array, out: Array, low: int, high: int
) -> None:
    """Compute columns ``low`` to ``high`` of out (batch, rows) = x W' + bias, for x as `pack` arranges it."""
    sums = np.empty((len(packed), TILE, LANES), np.float32)
    for top in range(low, high, TILE):
        rows = min(TILE, high - top)
        for row in range(rows):
            sums[:, row, :] = bias[top + row]
        for panel in range(cuts.shape[1] - 1):
            for block in range(len(packed)):
                for row in range(rows):
                    first, last = cuts[top + row, panel], cuts[top + row, panel + 1]
                    _add_row(values, columns, first, last, packed[block], sums[block, row])
        for sample in range(len(out)):
            for row in range(rows):
                out[sample, top + row] = sums[sample // LANES, row, sample % LANES]


@compiled
def multiply_single(
    values: Array, columns: Array, cuts: Array, bias: Array, x: Array, out: Array, low: int, high: int
) -> None:
    """Compute entries ``low`` to ``high`` of out = W x + bias, for a single x."""
    last = cuts.shape[1] - 1
    for row in range(low, high):
        out[row] = bias[row] + _dot_row(values, columns, cuts[row, 0], cuts[row, last], x)


def _add_row_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Add values[j] * x[columns[j]] to the sums for first <= j < last, where x[...] and the sums are vectors."""
    values, columns, x, sums = (_data(context, builder, signature, arguments, i) for i in (0, 1, 4, 5))
    lanes = ir.VectorType(FLOAT, LANES)

    def step(j: Any, total: Any) -> Any:
        place = builder.mul(_column(builder, columns, j), INDEX(LANES))
        value = builder.load(builder.gep(values, [j]))
        return _fused(builder, _spread(builder, value, lanes), _vector(builder, x, place, lanes), total)

    totals = [_vector(builder, sums, INDEX(0), lanes)] + [ir.Constant(lanes, [0.0] * LANES)] * (WAYS - 1)
    j, totals = _loop(builder, arguments[2], arguments[3], 1, totals, step)
    total = _add_up(builder, totals)
    _, (total,) = _loop(builder, j, arguments[3], 1, [total], step)
    builder.store(total, builder.bitcast(sums, lanes.as_pointer()), align=4)
    return context.get_dummy_value()


def _dot_row_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the sum of values[j] * x[columns[j]] for first <= j < last."""
    values, columns, x = (_data(context, builder, signature, arguments, i) for i in (0, 1, 4))
    vector = ir.VectorType(FLOAT, GATHER)

    def entry(j: Any) -> Any:
        return builder.load(builder.gep(x, [_column(builder, columns, j)]))

    def step(j: Any, total: Any) -> Any:
        gathered = ir.Constant(vector, ir.Undefined)
        for i in range(GATHER):
            gathered = builder.insert_element(gathered, entry(builder.add(j, INDEX(i))), ir.IntType(32)(i))
        return _fused(builder, _vector(builder, values, j, vector), gathered, total)

    def rest(j: Any, total: Any) -> Any:
        return _fused(builder, builder.load(builder.gep(values, [j])), entry(j), total)

    zeros = ir.Constant(vector, [0.0] * GATHER)
    j, totals = _loop(builder, arguments[2], arguments[3], GATHER, [zeros, zeros], step)
    total = _add_up(builder, totals)
    total = _add_up(builder, [builder.extract_element(total, ir.IntType(32)(i)) for i in range(GATHER)])
    return _loop(builder, j, arguments[3], 1, [total], rest)[1][0]


def _loop(
    builder: Any, start: Any, stop: Any, size: int, totals: Sequence[Any], step: Callable[[Any, Any], Any]
) -> tuple[Any, list[Any]]:
    """Take steps of ``size`` indices, one for each total, while all fit; return the end index and the totals."""
    before = builder.block
    head, body, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    j, *current = variables = [builder.phi(initial.type) for initial in (start, *totals)]
    following = builder.add(j, INDEX(size * len(totals)))
    builder.cbranch(builder.icmp_signed("<=", following, stop), body, after)
    builder.position_at_end(body)
    updated = [step(builder.add(j, INDEX(size * i)), total) for i, total in enumerate(current)]
    builder.branch(head)
    for variable, initial, update in zip(variables, (start, *totals), (following, *updated), strict=True):
        variable.add_incoming(initial, before)
        variable.add_incoming(update, body)
    builder.position_at_end(after)
    return j, current


def _data(context: Any, builder: Any, signature: Any, arguments: Any, i: int) -> Any:
    return context.make_array(signature.args[i])(context, builder, arguments[i]).data


def _column(builder: Any, columns: Any, j: Any) -> Any:
    return builder.zext(builder.load(builder.gep(columns, [j])), INDEX)


def _vector(builder: Any, pointer: Any, place: Any, kind: Any) -> Any:
    """Load the numbers that begin at ``place``, which need not be aligned."""
    return builder.load(builder.bitcast(builder.gep(pointer, [place]), kind.as_pointer()), align=4)


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    return builder.shuffle_vector(first, undefined, zeros)


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return builder.fadd(builder.fmul(a, b, flags=FUSED), c, flags=FUSED)


def _add_up(builder: Any, terms: Sequence[Any]) -> Any:
    total, *others = terms
    for other in others:
        total = builder.fadd(total, other)
    return total


def _add_row_types(context, values, columns, first, last, x, sums):  # type: ignore[no-untyped-def]
    return types.void(values, columns, types.intp, types.intp, x, sums), _add_row_code


def _dot_row_types(context, values, columns, first, last, x):  # type: ignore[no-untyped-def]
    return types.float32(values, columns, types.intp, types.intp, x), _dot_row_code


_add_row: Any = intrinsic(_add_row_types)
_dot_row: Any = intrinsic(_dot_row_types)
