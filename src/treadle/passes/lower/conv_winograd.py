"""Convolutions by Winograd's algorithm: which ones, and the calls for them."""

from __future__ import annotations

from collections.abc import Hashable
from math import prod

from treadle.dtypes import bf16, f32
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.conv_epilogue import EpilogueOperands, epilogue_operands
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.conv_tile_groups import odd
from treadle.passes.lower.conv_winograd_cost import choose_cut, groups_per_chunk, input_cost, product_cost
from treadle.passes.lower.conv_winograd_cut import ALGORITHMS, Cut
from treadle.passes.lower.conv_winograd_weights import group_taps, kernel_matrices, transform_weights
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec


def lower_winograd(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Calls for a convolution between blocked fp32 or bf16 values; None where another kernel is faster, or must be used.

    Winograd rounds differently from a sum of products, so it is for math="fast" only.
    """
    if ctx.math != "fast" or not is_enabled("winograd") or not is_winograd(node, shape):
        return None
    cut = choose_cut(shape, ctx.target, streamed=ctx.streamed_weights, pairs=node.operand(0).dtype == bf16)
    return None if cut is None else winograd_calls(node, shape, cut, ctx)


def is_winograd(node: Node, shape: ConvShape) -> bool:
    """Whether the kernels can do the convolution of `node`."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    return (
        weights.dtype == f32
        and isinstance(out.layout, Blocked)
        and x.layout == out.layout
        and weights.data is not None
        and (shape.kernel, shape.strides) in ALGORITHMS
        and shape.dilations == (1, 1)
        and shape.groups == 1
    )


def winograd_calls(node: Node, shape: ConvShape, cut: Cut, ctx: LowerContext) -> list[Call] | None:
    """The calls that do the convolution as `cut` says. None if the epilogue has an operand they cannot read."""
    x, out = node.operand(0), node.output
    assert isinstance(out.layout, Blocked), "Winograd convolution writes blocked"
    epilogue = epilogue_operands(node, ctx, cut.out_groups * cut.group.vectors * out.layout.block)
    if epilogue is None:
        return None
    if cut.fused:
        return [_product_call(node, shape, cut, x, epilogue, ctx)]
    tiles = ctx.temporary(f"{out.name}.tiles", f32, (cut.tile_groups, prod(cut.reach), _input_point(cut, ctx)))
    return [_input_call(node, shape, cut, tiles, ctx), _product_call(node, shape, cut, tiles, epilogue, ctx)]


def _spec(family: str, cut: Cut, source: Value, lanes: int, **more: Hashable) -> KernelSpec:
    """The kernel of `family` for tiles of `cut`."""
    tile = {"strides": cut.strides, "points": cut.points, "reach": cut.reach, "side": cut.side}
    return KernelSpec.of(family, dtype=f32, source=source.known_dtype, lanes=lanes, **tile, **more)


def _input_call(node: Node, shape: ConvShape, cut: Cut, tiles: Value, ctx: LowerContext) -> Call:
    """The call that transforms the input into `tiles`."""
    x, lanes = node.operand(0), ctx.target.lanes(f32)
    spec = _spec("winograd_input", cut, x, lanes)
    block_chunks = -(-cut.in_blocks // cut.blocks_per_chunk)
    return ctx.call(
        node,
        spec,
        (tiles,),
        (x,),
        args=(*_shape_args(shape, cut, ctx), block_chunks, cut.blocks_per_chunk),
        chunks=cut.tile_groups * block_chunks,
        cost=ctx.flops_ns(input_cost(cut, ctx.target) * 2.0 * lanes, 0.0, 1.0),
        scratch=prod(cut.reach) * lanes * f32.size,
    )


def _product_call(
    node: Node, shape: ConvShape, cut: Cut, source: Value, epilogue: EpilogueOperands, ctx: LowerContext
) -> Call:
    """The call that multiplies, transforms back and stores; `source` is the input, or its tiles."""
    lanes, group, points = ctx.target.lanes(f32), cut.group, prod(cut.reach)
    per_chunk = groups_per_chunk(cut, shape, ctx.target, streamed=ctx.streamed_weights)
    group_chunks = -(-cut.out_groups // per_chunk)
    cost = product_cost(cut, shape, ctx.target, streamed=ctx.streamed_weights)
    if cut.fused:
        cost += input_cost(cut, ctx.target) * group_chunks
    product_point = odd(group.size * group.vectors) * lanes
    spec = _spec(
        "conv_winograd",
        cut,
        source,
        lanes,
        vectors=group.vectors,
        factors=cut.factors,
        heights=group.heights,
        unroll=next(turn for turn in (4, 2, 1) if shape.channels % turn == 0),
        fused=cut.fused,
        **_section_params(shape, cut, lanes),
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    out_block = elements(shape.out_size) * lanes
    args = (
        *_shape_args(shape, cut, ctx),
        cut.tile_groups,
        cut.out_groups,
        per_chunk,
        epilogue.image_stride(node.output, ctx),
        out_block,
        *shape.out_size,
        shape.outputs,
        product_point,
        *group.counts,
    )
    weights = _weights(node.operand(1), shape, cut, lanes, ctx)
    return ctx.call(
        node,
        spec,
        (node.output,),
        (source, weights, *(() if epilogue.bias is None else (epilogue.bias,)), *epilogue.values),
        args=args,
        chunks=cut.tile_groups * group_chunks,
        flops=2.0 * shape.multiply_adds,
        cost=ctx.flops_ns(cost * 2.0 * lanes, 0.0, 1.0),
        scratch=(
            points * (lanes + product_point + (_input_point(cut, ctx) if cut.fused else 0))
            + prod(cut.factors) * _factor_stride(cut, lanes)
        )
        * f32.size,
    )


def _section_params(shape: ConvShape, cut: Cut, lanes: int) -> dict[str, Hashable]:
    """What the kernel of the products is told of the weights that it transforms itself."""
    if not cut.section_blocks:
        return {"section": 0}
    turns = prod(cut.reach) * sum(cut.group.counts)
    taps = prod(shape.kernel) * cut.group.vectors * lanes * f32.size
    return {
        "section": cut.section_blocks * lanes,
        "factor_stride": _factor_stride(cut, lanes),
        "asked": -(-taps // turns),
        "matrices": kernel_matrices(cut.points, shape.kernel, cut.strides),
    }


def _factor_stride(cut: Cut, lanes: int) -> int:
    """Elements between the weights of two points in a section; 0 without sections."""
    return odd(cut.section_blocks * lanes * cut.group.vectors) * lanes if cut.section_blocks else 0


def _shape_args(shape: ConvShape, cut: Cut, ctx: LowerContext) -> tuple[int, ...]:
    """What both kernels are told first (SHAPE_ARGS of `codegen/kernels/conv_winograd`)."""
    x_block = elements(shape.size) * ctx.target.lanes(f32)
    return (
        cut.tiles,
        cut.tiles_down,
        cut.tiles_across,
        cut.group.size,
        shape.channels,
        _input_point(cut, ctx),
        cut.in_blocks * x_block,
        x_block,
        *shape.size,
        *shape.pads,
    )


def _input_point(cut: Cut, ctx: LowerContext) -> int:
    """Elements from one point of a group's transformed input to the next."""
    return odd(cut.in_blocks * cut.group.size) * ctx.target.lanes(f32)


def _weights(weights: Value, shape: ConvShape, cut: Cut, lanes: int, ctx: LowerContext) -> Value:
    """The weights as the kernel of the products reads them."""
    width = cut.group.vectors * lanes

    def packed(data: Array) -> Array:
        four = data.reshape(shape.outputs, shape.channels, *shape.kernel)
        return (
            group_taps(four, width) if cut.section_blocks else transform_weights(four, cut.points, cut.strides, width)
        )

    if cut.section_blocks:
        return ctx.packed(weights, f"winograd taps {width}", "taps", packed)
    return ctx.packed(weights, f"winograd {cut.points} {cut.strides} {width}", "transformed", packed)
