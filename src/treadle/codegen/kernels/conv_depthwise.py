"""Convolution with narrow groups, each within one block of channels: depthwise, and groups of 2, 4, ... channels.

A lane is an output channel. Its input channels lie in the same block, so each pixel is loaded once as a
vector and, for groups wider than one channel, shuffled so that every lane sees the channel it needs.

Pointers: out, x, packed weights, bias (if `bias`), then the epilogue's operands. Args: see ARGS.
"""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import scalar
from treadle.codegen.emit.vectors import constant, like, multiply_add, take
from treadle.codegen.kernels.conv_block import opaque
from treadle.codegen.kernels.conv_epilogue import Epilogue
from treadle.codegen.kernels.conv_rows import Columns, segment_blocks, taps_inside
from treadle.dtypes import i8, u8
from treadle.plan.kernel_spec import KernelSpec

ARGS = (
    "planes",  # images x blocks of channels
    "planes_per_chunk",
    "blocks",  # of channels in an image
    "rows",  # output rows of a plane
    "rows_per_chunk",
    "row_chunks",  # chunk number = plane chunk * row_chunks + row chunk
    "x_plane",  # strides in elements
    "x_row",
    "x_height",
    "pad_top",
    "out_plane",
    "out_row",
    "outputs",  # real output channels
)
"""The int64 arguments in order; then (first pixel, number of blocks) of each segment."""

_LEAST = -128
_WEIGHTS_HELD = 8
"""Kernel columns whose weights a pass over a block's pixels holds in registers."""


def emit_conv_depthwise(k: Kernel, spec: KernelSpec) -> None:
    """out[n, m, h, w] = epilogue(bias[m] + sum over c, i, j of x[n, m - m % width + c, h*s + i*d - p, ...] * w[m, c, i, j]).

    x and out are Blocked(lanes). Params as those of emit_conv, `source` (the dtype of x), `zero` (which is
    subtracted from x), and `width`, the channels of a group.
    """
    arg = {name: k.arg(number) for number, name in enumerate(ARGS)}
    lanes, dtype = spec["lanes"], spec["dtype"]
    epilogue = Epilogue(k, spec, first_pointer=4 if spec["bias"] else 3, outputs=arg["outputs"])
    plane_chunk = k.div(k.chunk, arg["row_chunks"])
    row_chunk = k.sub(k.chunk, k.mul(plane_chunk, arg["row_chunks"]))
    first_plane, first_row = k.mul(plane_chunk, arg["planes_per_chunk"]), k.mul(row_chunk, arg["rows_per_chunk"])
    last_plane = k.min(k.add(first_plane, arg["planes_per_chunk"]), arg["planes"])
    last_row = k.min(k.add(first_row, arg["rows_per_chunk"]), arg["rows"])
    kernel_elements = spec["kernel"][0] * spec["kernel"][1] * spec["width"] * lanes
    with loop(k, first_plane, last_plane, name="plane") as plane:
        block = k.rem(plane.index, arg["blocks"])
        channel = k.mul(block, lanes)
        weights = k.at(k.pointer(2), k.mul(block, kernel_elements), dtype)
        bias = load(k, k.pointer(3), channel, dtype, lanes) if spec["bias"] else constant(dtype, 0.0, lanes)
        x_plane, out_plane = k.mul(plane.index, arg["x_plane"]), k.mul(plane.index, arg["out_plane"])
        with loop(k, first_row, last_row, name="row") as row:
            top = k.sub(k.mul(row.index, spec["strides"][0]), arg["pad_top"])
            taps = taps_inside(k, spec, top, arg["x_height"])
            x_row = k.add(x_plane, k.mul(top, arg["x_row"]))
            out_row = k.add(out_plane, k.mul(row.index, arg["out_row"]))
            for number, columns in enumerate(spec["segments"]):
                with segment_blocks(k, spec, number, len(ARGS)) as pixel:
                    left = k.sub(k.mul(pixel, spec["strides"][1] * lanes), spec["pad_left"] * lanes)
                    with loop(k, *taps, carry=[bias] * len(columns), name="tap") as tap:
                        x_at = k.add(k.add(x_row, left), k.mul(tap.index, k.mul(arg["x_row"], spec["dilations"][0])))
                        x = k.b.gep(k.pointer(1), [x_at], source_etype=scalar(spec["source"]))
                        row_weights = k.at(weights, k.mul(tap.index, kernel_elements // spec["kernel"][0]), dtype)
                        tap.next(*_kernel_row(k, spec, x, row_weights, columns, tap.carry))
                    epilogue.store_block(
                        tap.carry, k.div(plane.index, arg["blocks"]), channel, [k.add(out_row, k.mul(pixel, lanes))]
                    )


def _kernel_row(
    k: Kernel, spec: KernelSpec, x: ir.Value, weights: ir.Value, columns: Columns, sums: list[ir.Value]
) -> list[ir.Value]:
    """`sums` plus the products of one kernel row."""
    values = list(sums)
    for member in range(spec["width"]):
        for first in range(0, spec["kernel"][1], _WEIGHTS_HELD):
            held = range(first, min(first + _WEIGHTS_HELD, spec["kernel"][1]))
            _columns(k, spec, x, weights, columns, member, held, values)
            x = opaque(k, x)
    return values


def _pixel(k: Kernel, spec: KernelSpec, value: ir.Value) -> ir.Value:
    """`value` as it is multiplied, less the zero point: where that is the least i8, the bytes are those of an u8."""
    source, zero = spec["source"], spec["zero"]
    if source == i8 and zero == _LEAST:
        value, source, zero = k.b.xor(value, like(value, _LEAST)), u8, 0
    value = convert(k, value, source, spec["dtype"])
    return k.b.fsub(value, constant(spec["dtype"], zero, spec["lanes"])) if zero else value


def _columns(
    k: Kernel,
    spec: KernelSpec,
    x: ir.Value,
    weights: ir.Value,
    columns: Columns,
    member: int,
    held: range,
    sums: list[ir.Value],
) -> None:
    """Add the products of the kernel columns `held` and each group's channel `member` to `sums`, in place."""
    dtype, lanes, width = spec["dtype"], spec["lanes"], spec["width"]
    stride, dilation = spec["strides"][1], spec["dilations"][1]
    users: dict[int, list[tuple[int, int]]] = {}
    for p, (low, high) in enumerate(columns):
        for column in held:
            if low <= column < high:
                users.setdefault(p * stride + column * dilation, []).append((p, column))
    needed = sorted({column for pairs in users.values() for _, column in pairs})
    factors = {column: load(k, weights, (column * width + member) * lanes, dtype, lanes) for column in needed}
    for position in sorted(users):
        value = _pixel(k, spec, load(k, x, position * lanes, spec["source"], lanes))
        if width > 1:
            value = take(k, value, [lane - lane % width + member for lane in range(lanes)])
        for p, column in users[position]:
            sums[p] = multiply_add(k, value, factors[column], sums[p])
