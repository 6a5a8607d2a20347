"""Pointwise convolutions by Strassen's algorithm: which ones, and the calls for them."""

from __future__ import annotations

from treadle.dtypes import f32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.conv_epilogue import EpilogueOperands, epilogue_operands
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.conv_strassen_cut import Cut, choose_cut, groups_per_chunk, input_cost, product_cost
from treadle.passes.lower.conv_strassen_weights import sum_weights
from treadle.passes.lower.conv_tile_groups import odd
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec


def lower_strassen(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Calls for a pointwise convolution between blocked fp32 values; None where another kernel is faster, or must be used.

    Strassen's algorithm rounds differently from a sum of products, so it is for math="fast" only.
    """
    if ctx.math != "fast" or not is_enabled("strassen_conv") or not is_strassen(node, shape):
        return None
    cut = choose_cut(shape, ctx.target)
    return None if cut is None else strassen_calls(node, shape, cut, ctx)


def is_strassen(node: Node, shape: ConvShape) -> bool:
    """Whether the kernels can do the convolution of `node`."""
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


def strassen_calls(node: Node, shape: ConvShape, cut: Cut, ctx: LowerContext) -> list[Call] | None:
    """The calls that do the convolution as `cut` says. None if the epilogue has an operand they cannot read."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    assert isinstance(out.layout, Blocked), "this kernel writes blocked"
    lanes, side, group, target = out.layout.block, cut.side, cut.group, ctx.target
    epilogue = epilogue_operands(node, ctx, cut.out_groups * group.vectors * side * lanes)
    if epilogue is None:
        return None
    per_chunk = groups_per_chunk(cut, target)
    group_chunks = -(-cut.out_groups // per_chunk)
    bias = () if epilogue.bias is None else (epilogue.bias,)
    cost = product_cost(cut, target) + input_cost(cut) * group_chunks
    points = _input_point(cut, lanes) + _product_point(cut, lanes)
    return [
        ctx.call(
            node,
            _spec(shape, cut, epilogue, lanes),
            (out,),
            (x, _summed(weights, shape, cut, lanes, ctx), *bias, *epilogue.values),
            args=_args(shape, cut, lanes, per_chunk, epilogue.image_stride(out, ctx)),
            chunks=cut.units * group_chunks,
            flops=2.0 * shape.multiply_adds,
            cost=ctx.flops_ns(cost * 2.0 * lanes, 0.0, 1.0),
            scratch=(side * side * lanes + cut.products * points) * f32.size,
        )
    ]


def _spec(shape: ConvShape, cut: Cut, epilogue: EpilogueOperands, lanes: int) -> KernelSpec:
    return KernelSpec.of(
        "conv_strassen",
        dtype=f32,
        lanes=lanes,
        strides=shape.strides,
        side=cut.side,
        vectors=cut.group.vectors,
        heights=cut.group.heights,
        unroll=4,
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )


def _args(shape: ConvShape, cut: Cut, lanes: int, per_chunk: int, out_image: int) -> tuple[int, ...]:
    """What the kernel is told (ARGS of `codegen/kernels/conv_strassen`)."""
    x_block, out_block = elements(shape.size) * lanes, elements(shape.out_size) * lanes
    return (
        elements(shape.out_size),
        shape.out_size[1],
        cut.group.size,
        cut.tile_groups,
        cut.units,
        cut.in_parts,
        _input_point(cut, lanes),
        _product_point(cut, lanes),
        cut.in_parts * cut.side * x_block,
        x_block,
        shape.size[1] * lanes,
        out_image,
        out_block,
        shape.outputs,
        cut.out_groups,
        per_chunk,
        *cut.group.counts,
    )


def _input_point(cut: Cut, lanes: int) -> int:
    """Elements from one product's sums of a group's input to the next's."""
    return odd(cut.in_parts * cut.group.size) * lanes


def _product_point(cut: Cut, lanes: int) -> int:
    """Elements from one product of a group to the next."""
    return odd(cut.group.size * cut.group.vectors) * lanes


def _summed(weights: Value, shape: ConvShape, cut: Cut, lanes: int, ctx: LowerContext) -> Value:
    how = f"strassen {cut.side} {lanes} {cut.group.vectors}"

    def summed(data: Array) -> Array:
        return sum_weights(data.reshape(shape.outputs, shape.channels), cut.side, lanes, cut.group.vectors)

    return ctx.packed(weights, how, "sums", summed)
