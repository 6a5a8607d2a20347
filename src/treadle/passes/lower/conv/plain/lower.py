"""Convolutions of row-major tensors: the call of their kernel."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.conv.epilogue import bias_of
from treadle.passes.lower.conv.row_major import row_epilogue
from treadle.passes.lower.conv.shape import ConvShape
from treadle.plan.call import Call
from treadle.plan.kernels.conv.plain import PlainConvArgs, PlainConvSpec

_EFFICIENCY = 0.15
"""The part of the arithmetic limit that the plain kernel is assumed to reach."""


def lower_plain(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns one call. None if an operand is blocked, or has another dtype than the result, or the epilogue has."""
    out, epilogue = node.output, row_epilogue(node)
    dtype = out.known_dtype
    operands = [value for value in node.inputs if value is not None]
    if epilogue is None or any(value.dtype != dtype or value.layout is not None for value in operands):
        return None
    at_once = next(count for count in (4, 2, 1) if shape.group_outputs % count == 0)
    bias = bias_of(node)
    spec = PlainConvSpec(
        dtype=dtype,
        lanes=ctx.target.lanes(dtype),
        outputs_at_once=at_once,
        unit_stride=shape.strides[1] == 1,
        bias=bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    flops = 2.0 * shape.multiply_adds
    cost = ctx.flops_ns(flops, 0.0, _EFFICIENCY)
    units = shape.images * shape.outputs // at_once * shape.out_size[0]
    chunks, per_chunk = ctx.partition(units, cost / units)
    args = PlainConvArgs(
        units=units,
        units_per_chunk=per_chunk,
        outputs=shape.outputs,
        group_outputs=shape.group_outputs,
        group_channels=shape.group_channels,
        channels=shape.channels,
        x_height=shape.size[0],
        x_width=shape.size[1],
        out_height=shape.out_size[0],
        out_width=shape.out_size[1],
        kernel_height=shape.kernel[0],
        kernel_width=shape.kernel[1],
        stride_down=shape.strides[0],
        stride_across=shape.strides[1],
        dilation_down=shape.dilations[0],
        dilation_across=shape.dilations[1],
        pad_top=shape.pads[0],
        pad_left=shape.pads[1],
        operand_strides=epilogue.strides,
    )
    return [ctx.call(node, spec, (out,), tuple(operands), args=args, chunks=chunks, flops=flops, cost=cost)]
