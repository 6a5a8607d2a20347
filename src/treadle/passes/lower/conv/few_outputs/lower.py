"""Convolutions of blocked inputs to few outputs: when they are computed so, and the call of their kernel.

Kernels that write blocks of channels multiply by as many outputs as a vector has lanes. Here lanes are input channels,
whose products are added up at the end: of the input's bytes and of the multiplications only those of real outputs are
left, and the result is row-major at once.
"""

from __future__ import annotations

from treadle.dtypes import f32, f64
from treadle.graph.dim import at_least, hint_of, is_expression
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext, nbytes
from treadle.passes.lower.conv.epilogue import bias_of
from treadle.passes.lower.conv.few_outputs.weights import pack_few_outputs
from treadle.passes.lower.conv.row_major import RowEpilogue, row_epilogue
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.pool import Axis
from treadle.plan.call import Call
from treadle.plan.kernels.conv.few_outputs import FewOutputsArgs, FewOutputsSpec
from treadle.plan.target import Target

_MOST_OUTPUTS = 4
"""More outputs leave registers for few pixels, so that weights are loaded for little work; and more than a quarter of
the lanes of a vector leave little to save."""

_MOST_COLUMNS = 16
"""Columns of the kernel are unrolled."""

_EFFICIENCY = 0.4
"""The part of the arithmetic limit that the kernel is assumed to reach: it loads as often as it multiplies."""

_SUMMING = 4
"""The time in which the lanes of a pixel's sum are added up, in multiply-adds."""


def has_few_outputs(node: Node, target: Target) -> bool:
    """Returns whether the kernel computes the `conv` node, whose input is blocked, and in less time than others do."""
    return _epilogue(node, target) is not None


def _epilogue(node: Node, target: Target) -> RowEpilogue | None:
    """Returns the epilogue of the `conv` node; None if `has_few_outputs` does not hold."""
    weights, bias = node.operand(1), bias_of(node)
    shape = ConvShape.of(node)
    if not is_enabled("few_outputs") or shape is None or shape.groups > 1 or is_expression(shape.channels):
        return None
    if weights.dtype not in (f32, f64) or weights.data is None or (bias is not None and bias.data is None):
        return None
    if node.operand(0).dtype != weights.dtype or node.output.dtype != weights.dtype:
        return None
    lanes = target.lanes(weights.known_dtype)
    if shape.outputs > min(_MOST_OUTPUTS, lanes // 4) or shape.channels < lanes or shape.kernel[1] > _MOST_COLUMNS:
        return None
    if hint_of(shape.out_size[1]) < 2 * lanes or not all(at_least(size, 1) for size in shape.out_size):
        return None
    return row_epilogue(node)


def lower_few_outputs(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns one call; None if `has_few_outputs` does not hold."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    epilogue = _epilogue(node, ctx.target)
    if epilogue is None or not isinstance(x.layout, Blocked):
        return None
    lanes, dtype, bias = x.layout.block, out.known_dtype, bias_of(node)
    blocks = -(-shape.channels // lanes)

    def packed(data: Array) -> Array:
        return pack_few_outputs(data.reshape(shape.outputs, shape.channels, *shape.kernel), lanes)

    spec = FewOutputsSpec(
        dtype=dtype,
        lanes=lanes,
        outputs=shape.outputs,
        pixels=_pixels(shape.outputs, lanes, ctx.target.registers),
        last_lanes=shape.channels - (blocks - 1) * lanes,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        bias=bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    pixels = shape.images * shape.out_size[0] * shape.out_size[1] * shape.outputs
    steps = pixels * (blocks * shape.kernel[0] * shape.kernel[1] + _SUMMING)
    cost = ctx.flops_ns(2.0 * steps * lanes, nbytes(x) + nbytes(out), _EFFICIENCY)
    units = shape.images * shape.out_size[0]
    chunks, per_chunk = ctx.partition(units, cost / units)
    low, high = _across(node, shape).interior()
    args = FewOutputsArgs(
        units=units,
        units_per_chunk=per_chunk,
        blocks=blocks,
        x_height=shape.size[0],
        x_width=shape.size[1],
        out_height=shape.out_size[0],
        out_width=shape.out_size[1],
        pad_top=shape.pads[0],
        pad_left=shape.pads[1],
        low=low,
        high=high,
        operand_strides=epilogue.strides,
    )
    factor = ctx.packed_factor(weights, f"few outputs {lanes}", "packed", packed)
    reads = (x, factor, *(() if bias is None else (bias,)), *epilogue.values)
    flops = 2.0 * shape.multiply_adds
    return [ctx.call(node, spec, (out,), reads, args=args, chunks=chunks, flops=flops, cost=cost)]


def _across(node: Node, shape: ConvShape) -> Axis:
    """Returns the horizontal axis of the convolution's windows."""
    return Axis(
        size=shape.size[1],
        out=shape.out_size[1],
        kernel=shape.kernel[1],
        stride=shape.strides[1],
        dilation=shape.dilations[1],
        begin=shape.pads[1],
        end=node.attrs["pads"][-1],
    )


def _pixels(outputs: int, lanes: int, registers: int) -> int:
    """Returns the pixels of a register block: as many as leave registers for weights."""
    room = registers * 3 // 4
    return max(count for count in (1, 2, 4, 8, 16) if count <= lanes and count * outputs <= room)
