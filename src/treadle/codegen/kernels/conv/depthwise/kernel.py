"""Convolution with narrow groups, each within one block of channels: depthwise, and groups of 2, 4, ... channels.

A lane is an output channel. Its input channels lie in the same block, so each pixel is loaded once as a vector and, for
groups wider than one channel, shuffled so that every lane has the channel that it multiplies.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import scalar
from treadle.codegen.emit.vectors import constant, like, multiply_add, take
from treadle.codegen.kernels.conv.direct.block import loaded_again
from treadle.codegen.kernels.conv.epilogue import Epilogue
from treadle.codegen.kernels.conv.rows import columns_inside, over_columns, rows_inside, segment_blocks
from treadle.dtypes import i8, u8
from treadle.plan.kernels.conv.depthwise import DepthwiseConvArgs, DepthwiseConvSpec
from treadle.plan.kernels.conv.epilogue import BIAS_POINTER
from treadle.plan.kernels.conv.rows import Columns

_LEAST = -128
"""The least i8."""
_COLUMNS_AT_ONCE = 8
"""Kernel columns whose weights are in registers during a pass over a block's pixels."""


def emit_conv_depthwise(k: Kernel, spec: DepthwiseConvSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum of (x[n, g + c, h*s + i*d - p, w*s + j*d - p] - zero) * w[m, c, i, j]).

    The sum is over c, i and j; g is the first channel of m's group.
    """
    args = k.args(DepthwiseConvArgs[ir.Value], spec)
    lanes, dtype = spec.lanes, spec.dtype
    epilogue = Epilogue(k, spec, args.outputs)
    plane_chunk = k.div(k.chunk, args.row_chunks)
    row_chunk = k.sub(k.chunk, k.mul(plane_chunk, args.row_chunks))
    first_plane, first_row = k.mul(plane_chunk, args.planes_per_chunk), k.mul(row_chunk, args.rows_per_chunk)
    last_plane = k.min(k.add(first_plane, args.planes_per_chunk), args.planes)
    last_row = k.min(k.add(first_row, args.rows_per_chunk), args.rows)
    kernel_elements = spec.kernel[0] * spec.kernel[1] * spec.width * lanes
    with loop(k, first_plane, last_plane, name="plane") as plane:
        block = k.rem(plane.index, args.blocks)
        channel = k.mul(block, lanes)
        weights = k.at(k.pointer(2), k.mul(block, kernel_elements), dtype)
        bias = load(k, k.pointer(BIAS_POINTER), channel, dtype, lanes) if spec.bias else constant(dtype, 0.0, lanes)
        x_plane, out_plane = k.mul(plane.index, args.x_plane), k.mul(plane.index, args.out_plane)
        width = k.div(args.x_row, lanes)
        with loop(k, first_row, last_row, name="row") as row:
            top = k.sub(k.mul(row.index, spec.strides[0]), args.pad_top)
            taps = rows_inside(k, spec, top, args.x_height)
            x_row = k.add(x_plane, k.mul(top, args.x_row))
            out_row = k.add(out_plane, k.mul(row.index, args.out_row))
            for number, columns in enumerate(spec.segments):
                with segment_blocks(k, spec, args.spans, number) as pixel:
                    left = k.sub(k.mul(pixel, spec.strides[1] * lanes), spec.pad_left * lanes)
                    is_checked = spec.checked and number == len(spec.segments) - 1
                    inside = columns_inside(k, spec, pixel, width) if is_checked else None
                    with loop(k, *taps, carry=[bias] * len(columns), name="tap") as tap:
                        x_at = k.add(k.add(x_row, left), k.mul(tap.index, k.mul(args.x_row, spec.dilations[0])))
                        x = k.b.gep(k.pointer(1), [x_at], source_etype=scalar(spec.source))
                        row_weights = k.at(weights, k.mul(tap.index, kernel_elements // spec.kernel[0]), dtype)
                        if inside is None:
                            tap.next(*_kernel_row(k, spec, x, row_weights, columns, tap.carry))
                        else:
                            tap.next(_checked_row(k, spec, x, row_weights, inside, tap.carry[0]))
                    epilogue.store_block(
                        tap.carry, k.div(plane.index, args.blocks), channel, [k.add(out_row, k.mul(pixel, lanes))]
                    )


def _kernel_row(
    k: Kernel, spec: DepthwiseConvSpec, x: ir.Value, weights: ir.Value, columns: Columns, sums: list[ir.Value]
) -> list[ir.Value]:
    """Returns `sums` plus the products of one kernel row."""
    values = list(sums)
    for offset in range(spec.width):
        add = partial(_add_columns, k, spec, loaded_again(k, x) if offset else x, weights, offset)
        values = over_columns(k, columns, spec.kernel[1], _COLUMNS_AT_ONCE, values, add)
    return values


def _add_columns(
    k: Kernel,
    spec: DepthwiseConvSpec,
    x: ir.Value,
    weights: ir.Value,
    offset: int,
    first: Index,
    columns: Columns,
    numbers: range,
    sums: list[ir.Value],
) -> None:
    """Adds the products of the kernel columns `numbers`, counted from `first`, to `sums`, a few columns at a time."""
    at = k.b.gep(x, [as_i64(k.mul(first, spec.dilations[1] * spec.lanes))], source_etype=scalar(spec.source))
    factors = k.at(weights, k.mul(first, spec.width * spec.lanes), spec.dtype)
    for start in range(0, len(numbers), _COLUMNS_AT_ONCE):
        _columns(k, spec, at, factors, columns, offset, numbers[start : start + _COLUMNS_AT_ONCE], sums)
        at = loaded_again(k, at)


def _checked_row(
    k: Kernel,
    spec: DepthwiseConvSpec,
    x: ir.Value,
    weights: ir.Value,
    inside: tuple[Index, Index],
    total: ir.Value,
) -> ir.Value:
    """Returns `total` of one pixel plus the products of one kernel row, of which the columns `inside` are computed."""
    lanes, width = spec.lanes, spec.width
    for offset in range(width):
        with loop(k, *inside, carry=[total], name="column") as column:
            at = k.b.gep(x, [k.mul(column.index, spec.dilations[1] * lanes)], source_etype=scalar(spec.source))
            value = _pixel(k, spec, load(k, at, 0, spec.source, lanes))
            if width > 1:
                value = take(k, value, _channels(spec, offset))
            factor = load(k, weights, k.mul(k.add(k.mul(column.index, width), offset), lanes), spec.dtype, lanes)
            column.next(multiply_add(k, value, factor, column.carry[0]))
        total = column.carry[0]
    return total


def _channels(spec: DepthwiseConvSpec, offset: int) -> list[int]:
    """Returns the lane from which each lane takes channel `offset` of its group."""
    return [lane - lane % spec.width + offset for lane in range(spec.lanes)]


def _pixel(k: Kernel, spec: DepthwiseConvSpec, value: ir.Value) -> ir.Value:
    """Returns `value`, less the zero point, as it is multiplied. i8 less -128 is u8 with the other sign bit."""
    source, zero = spec.source, spec.zero
    if source == i8 and zero == _LEAST:
        value, source, zero = k.b.xor(value, like(value, _LEAST)), u8, 0
    value = convert(k, value, source, spec.dtype)
    return k.b.fsub(value, constant(spec.dtype, zero, spec.lanes)) if zero else value


def _columns(
    k: Kernel,
    spec: DepthwiseConvSpec,
    x: ir.Value,
    weights: ir.Value,
    columns: Columns,
    offset: int,
    at_once: range,
    sums: list[ir.Value],
) -> None:
    """Adds the products of the kernel columns `at_once` and channel `offset` of each group to `sums`, in place."""
    dtype, lanes, width = spec.dtype, spec.lanes, spec.width
    stride, dilation = spec.strides[1], spec.dilations[1]
    users: dict[int, list[tuple[int, int]]] = {}
    for p, (low, high) in enumerate(columns):
        for column in at_once:
            if low <= column < high:
                users.setdefault(p * stride + column * dilation, []).append((p, column))
    needed = sorted({column for readers in users.values() for _, column in readers})
    factors = {column: load(k, weights, (column * width + offset) * lanes, dtype, lanes) for column in needed}
    for position in sorted(users):
        value = _pixel(k, spec, load(k, x, position * lanes, spec.source, lanes))
        if width > 1:
            value = take(k, value, _channels(spec, offset))
        for p, column in users[position]:
            sums[p] = multiply_add(k, value, factors[column], sums[p])
