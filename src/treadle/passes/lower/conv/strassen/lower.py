"""Pointwise convolutions by Strassen's algorithm: which ones, and the call of their kernel."""

from __future__ import annotations

from treadle.dtypes import f32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.conv.epilogue import epilogue_operands
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.strassen.cost import choose_tiling, groups_per_chunk, input_cost, product_cost
from treadle.passes.lower.conv.strassen.tiling import Tiling
from treadle.passes.lower.conv.strassen.weights import sum_weights
from treadle.passes.lower.conv.tile_product import odd
from treadle.plan.call import Call
from treadle.plan.kernels.conv.strassen import UNROLL, StrassenConvArgs, StrassenConvSpec


def lower_strassen(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns one call for a pointwise convolution between blocked fp32 values; None where another kernel is faster.

    Strassen's algorithm rounds differently from a sum of products, so it is used with math="fast" only.
    """
    if ctx.math != "fast" or not is_enabled("strassen_conv") or not is_strassen(node, shape):
        return None
    tiling = choose_tiling(shape, ctx.target)
    return None if tiling is None else strassen_calls(node, shape, tiling, ctx)


def is_strassen(node: Node, shape: ConvShape) -> bool:
    """Whether the kernel can compute the convolution of `node`."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    return (
        x.dtype == weights.dtype == out.dtype == f32
        and isinstance(out.layout, Blocked)
        and x.layout == out.layout
        and weights.data is not None
        and shape.kernel == (1, 1)
        and shape.pads == (0, 0)
        and shape.groups == 1
        and all(
            (n - 1) * stride < size for n, stride, size in zip(shape.out_size, shape.strides, shape.size, strict=True)
        )
    )


def strassen_calls(node: Node, shape: ConvShape, tiling: Tiling, ctx: LowerContext) -> list[Call] | None:
    """Returns the call for `tiling`. None if the kernel cannot read an operand of the epilogue."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "this kernel writes blocked"
    lanes, side, group, target = out.layout.block, tiling.side, tiling.group, ctx.target
    epilogue = epilogue_operands(node, ctx, tiling.out_groups * group.vectors * side * lanes)
    if epilogue is None:
        return None
    spec = StrassenConvSpec(
        dtype=f32,
        lanes=lanes,
        strides=shape.strides,
        side=side,
        vectors=group.vectors,
        heights=group.heights,
        unroll=UNROLL,
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    per_chunk = groups_per_chunk(tiling, target)
    group_chunks = -(-tiling.out_groups // per_chunk)
    bias = () if epilogue.bias is None else (epilogue.bias,)
    cost = product_cost(tiling, target) + input_cost(tiling) * group_chunks
    args = _args(shape, tiling, lanes, per_chunk, epilogue.image_stride(out, ctx))
    return [
        ctx.call(
            node,
            spec,
            (out,),
            (x, _summed(weights, shape, tiling, lanes, ctx), *bias, *epilogue.values),
            args=args,
            chunks=tiling.units * group_chunks,
            flops=2.0 * shape.multiply_adds,
            cost=ctx.flops_ns(cost * 2.0 * lanes, 0.0, 1.0),
            scratch=(side * side * lanes + tiling.products * (args.input_point + args.product_point)) * f32.size,
        )
    ]


def _args(shape: ConvShape, tiling: Tiling, lanes: int, per_chunk: int, out_image: int) -> StrassenConvArgs[int]:
    group, x_block = tiling.group, elements(shape.size) * lanes
    return StrassenConvArgs(
        pixels=elements(shape.out_size),
        row_pixels=shape.out_size[1],
        group_tiles=group.size,
        tile_groups=tiling.tile_groups,
        units=tiling.units,
        parts=tiling.in_parts,
        input_point=odd(tiling.in_parts * group.size) * lanes,
        product_point=odd(group.size * group.vectors) * lanes,
        x_image=tiling.in_parts * tiling.side * x_block,
        x_block=x_block,
        x_row=shape.size[1] * lanes,
        out_image=out_image,
        out_block=elements(shape.out_size) * lanes,
        outputs=shape.outputs,
        groups=tiling.out_groups,
        groups_per_chunk=per_chunk,
        counts=group.counts,
    )


def _summed(weights: Value, shape: ConvShape, tiling: Tiling, lanes: int, ctx: LowerContext) -> Value:
    """Returns the sums of the weights."""
    how = f"strassen {tiling.side} {lanes} {tiling.group.vectors}"

    def summed(data: Array) -> Array:
        return sum_weights(data.reshape(shape.outputs, shape.channels), tiling.side, lanes, tiling.group.vectors)

    return ctx.packed(weights, how, "sums", summed)
