"""Convolutions of row-major tensors: the call of their kernel."""

from __future__ import annotations

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.passes.lower.base import LowerContext, partition
from treadle.passes.lower.conv.epilogue import bias_of
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.expr import is_native
from treadle.plan.call import Call
from treadle.plan.kernels.conv.plain import PlainConvArgs, PlainConvSpec

_EFFICIENCY = 0.15
"""The part of the arithmetic limit that the plain kernel is assumed to reach."""


def lower_plain(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns one call. None if an operand is blocked, or has another dtype than the result, or the epilogue has."""
    out, epilogue = node.output, node.attrs.get("epilogue")
    dtype = out.known_dtype
    operands = [value for value in node.inputs if value is not None]
    extra = node.inputs[3:]
    if any(value.dtype != dtype or value.layout is not None for value in operands) or None in extra:
        return None
    if epilogue is not None and (
        len(epilogue.results) != 1 or epilogue.dtype(epilogue.results[0]) != dtype or not is_native(epilogue)
    ):
        return None
    strides = [
        _strides(_operand_shape(value.static_shape, len(out.static_shape))) for value in extra if value is not None
    ]
    at_once = next(count for count in (4, 2, 1) if shape.group_outputs % count == 0)
    bias = bias_of(node)
    spec = PlainConvSpec(
        dtype=dtype,
        lanes=ctx.target.lanes(dtype),
        outputs_at_once=at_once,
        unit_stride=shape.strides[1] == 1,
        bias=bias is not None,
        epilogue=epilogue,
        kinds=tuple("row" if stride[3] else "one" for stride in strides),
    )
    flops = 2.0 * shape.multiply_adds
    cost = ctx.flops_ns(flops, 0.0, _EFFICIENCY)
    units = shape.images * shape.outputs // at_once * shape.out_size[0]
    chunks, per_chunk = partition(units, cost / units)
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
        operand_strides=tuple((image, channel, row) for image, channel, row, _ in strides),
    )
    return [ctx.call(node, spec, (out,), tuple(operands), args=args, chunks=chunks, flops=flops, cost=cost)]


def _operand_shape(shape: StaticShape, rank: int) -> StaticShape:
    """Returns `shape`, which broadcasts to an output of `rank` axes, with four axes; 1-D images get height 1."""
    aligned = (1,) * (rank - len(shape)) + shape
    return aligned if rank == 4 else (*aligned[:-1], 1, aligned[-1])


def _strides(shape: StaticShape) -> tuple[int, int, int, int]:
    """Returns the strides of an operand of `shape` along the output's four axes: 0 where it broadcasts."""
    strides, step = [0] * 4, 1
    for axis in (3, 2, 1, 0):
        if not equals(shape[axis], 1):
            strides[axis] = step
        step *= shape[axis]
    return strides[0], strides[1], strides[2], strides[3]
