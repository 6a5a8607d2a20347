"""Convolutions of narrow groups, which lie within single blocks of channels: the call of their kernel, and its chunks."""

from __future__ import annotations

from treadle.dtypes import DType, f32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import Array, LowerContext, nbytes, wanted_chunks
from treadle.passes.lower.conv_epilogue import epilogue_operands
from treadle.passes.lower.conv_pack import pack_within_blocks
from treadle.passes.lower.conv_shape import ConvShape, Pair
from treadle.passes.lower.conv_tiles import EFFICIENCY, depthwise_tile
from treadle.passes.lower.load_imbalance import load_imbalance
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec


def lower_depthwise(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """A call of the kernel for groups within one block. None if it cannot read the bias or an epilogue operand."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "this kernel writes blocked"
    quads = x.dtype in BYTES
    dtype, lanes = f32 if quads else weights.known_dtype, out.layout.block
    blocks = -(-shape.outputs // lanes)
    epilogue = epilogue_operands(node, ctx, blocks * lanes)
    if epilogue is None or not weights.is_constant:
        return None
    if quads:
        epilogue = epilogue.of_exact_sums(ctx)
    tile = depthwise_tile(shape, ctx.target.registers)
    packed = _packed(weights, shape, dtype, lanes, ctx)
    spec = KernelSpec.of(
        "conv_depthwise",
        dtype=dtype,
        source=x.known_dtype,
        zero=node.attrs.get("zero", 0),
        lanes=lanes,
        width=shape.group_channels,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=tile.segments,
        clamp_rows=shape.rows_leave_input,
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    planes, rows = shape.images * blocks, shape.out_size[0]
    flops = 2.0 * shape.multiply_adds
    total = ctx.flops_ns(flops, nbytes(x) + nbytes(out), EFFICIENCY)
    planes_per_chunk, rows_per_chunk = _plane_cut(planes, rows, wanted_chunks(total))
    row_chunks = -(-rows // rows_per_chunk)
    args = (
        planes,
        planes_per_chunk,
        blocks,
        rows,
        rows_per_chunk,
        row_chunks,
        elements(shape.size) * lanes,
        shape.size[1] * lanes,
        shape.size[0],
        shape.pads[0],
        elements(shape.out_size) * lanes,
        shape.out_size[1] * lanes,
        shape.outputs,
        *(number for span in tile.spans for number in span),
    )
    reads = tuple(value for value in (x, packed, epilogue.bias) if value is not None) + epilogue.values
    chunks = -(-planes // planes_per_chunk) * row_chunks
    scratch = max(map(len, tile.segments)) * lanes * dtype.size if out.dtype != dtype else 0
    return [ctx.call(node, spec, (out,), reads, args=args, chunks=chunks, flops=flops, scratch=scratch)]


def _plane_cut(planes: int, rows: int, wanted: float) -> Pair:
    """(planes, rows) of a chunk, one of them whole, so that about `wanted` chunks come out evenly."""
    cuts = [(each, rows) for each in range(1, planes + 1)] + [(1, each) for each in range(rows - 1, 0, -1)]
    return min(cuts, key=lambda cut: load_imbalance((planes, cut[0]), (rows, cut[1]), wanted))


def _packed(weights: Value, shape: ConvShape, dtype: DType, lanes: int, ctx: LowerContext) -> Value:
    how = f"depthwise {lanes}"

    def packed(data: Array) -> Array:
        four = data.astype(dtype.numpy, copy=False).reshape(shape.outputs, shape.group_channels, *shape.kernel)
        return pack_within_blocks(four, lanes)

    return ctx.packed(weights, how, "packed", packed)
