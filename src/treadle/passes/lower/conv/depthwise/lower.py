"""Convolutions with narrow groups, which lie within single blocks of channels: the call of their kernel."""

from __future__ import annotations

from typing import Any

from treadle.dtypes import DType, f32
from treadle.graph.dim import ceil_div, computed, hint_of
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import Array, LowerContext, nbytes
from treadle.passes.lower.conv.depthwise.tiling import depthwise_tiling
from treadle.passes.lower.conv.depthwise.weights import pack_within_blocks
from treadle.passes.lower.conv.epilogue import epilogue_operands
from treadle.passes.lower.conv.rows import EFFICIENCY
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.searches import partition_planes
from treadle.plan.call import Call
from treadle.plan.kernels.conv.depthwise import DepthwiseConvArgs, DepthwiseConvSpec


def lower_depthwise(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns one call. None if the kernel cannot read the bias or an operand of the epilogue, or no blocks fit."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "this kernel writes blocked"
    of_bytes = x.dtype in BYTES
    dtype, lanes = f32 if of_bytes else weights.known_dtype, out.layout.block
    blocks = -(-shape.outputs // lanes)
    epilogue = epilogue_operands(node, ctx, blocks * lanes)
    tiling = depthwise_tiling(shape, ctx.target.registers)
    if epilogue is None or tiling is None or not weights.is_constant:
        return None
    if of_bytes:
        epilogue = epilogue.of_exact_sums(ctx)
    packed = _packed(weights, shape, dtype, lanes, ctx)
    spec = DepthwiseConvSpec(
        dtype=dtype,
        source=x.known_dtype,
        zero=node.attrs.get("zero", 0),
        lanes=lanes,
        width=shape.group_channels,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=tiling.segments,
        checked=tiling.checked,
        clamp_rows=shape.rows_leave_input,
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    planes, rows = shape.images * blocks, shape.out_size[0]
    flops = 2.0 * shape.multiply_adds
    total = ctx.flops_ns(flops, nbytes(x) + nbytes(out), EFFICIENCY)
    partitioned = planes, rows, total, ctx.machine.usual_chunk_ns
    known: Any = map(hint_of, partitioned)
    found = partition_planes(*known)
    planes_per_chunk = computed("planes.planes", lambda *_: found[0], partitioned, least=1)
    rows_per_chunk = computed("planes.rows", lambda *_: found[1], partitioned, least=1)
    row_chunks = ceil_div(rows, rows_per_chunk)
    args = DepthwiseConvArgs(
        planes=planes,
        planes_per_chunk=planes_per_chunk,
        blocks=blocks,
        rows=rows,
        rows_per_chunk=rows_per_chunk,
        row_chunks=row_chunks,
        x_plane=elements(shape.size) * lanes,
        x_row=shape.size[1] * lanes,
        x_height=shape.size[0],
        pad_top=shape.pads[0],
        out_plane=elements(shape.out_size) * lanes,
        out_row=shape.out_size[1] * lanes,
        outputs=shape.outputs,
        spans=tiling.spans,
    )
    reads = tuple(value for value in (x, packed, epilogue.bias) if value is not None) + epilogue.values
    chunks = ceil_div(planes, planes_per_chunk) * row_chunks
    scratch = tiling.widest * lanes * dtype.size if out.dtype != dtype else 0
    return [ctx.call(node, spec, (out,), reads, args=args, chunks=chunks, flops=flops, scratch=scratch)]


def _packed(weights: Value, shape: ConvShape, dtype: DType, lanes: int, ctx: LowerContext) -> Value:
    """Returns the packed weights as `dtype`."""
    how = f"depthwise {lanes}"

    def packed(data: Array) -> Array:
        four = data.astype(dtype.numpy, copy=False).reshape(shape.outputs, shape.group_channels, *shape.kernel)
        return pack_within_blocks(four, lanes)

    return ctx.packed_factor(weights, how, "packed", packed)
