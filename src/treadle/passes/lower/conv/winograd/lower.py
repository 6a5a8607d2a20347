"""Convolutions by Winograd's algorithm: which ones, and the calls of their kernels."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from treadle.dtypes import bf16, f32
from treadle.graph.dim import ceil_div, hint_of
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.conv.epilogue import EpilogueOperands, epilogue_operands
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.conv.tile_product import odd
from treadle.passes.lower.conv.winograd.cost import choose_tiling, tiling_of
from treadle.passes.lower.conv.winograd.tiling import Tiling
from treadle.passes.lower.conv.winograd.variants import choose_variants
from treadle.passes.lower.conv.winograd.weights import group_taps, kernel_matrices, transform_weights
from treadle.plan.call import Call
from treadle.plan.kernels.conv.winograd import (
    WinogradConvArgs,
    WinogradConvSpec,
    WinogradInputArgs,
    WinogradInputSpec,
    WinogradSection,
    WinogradTileArgs,
)
from treadle.plan.target import LINE, Target

MOST_VARIANTS = 2
"""The most ways to compute one convolution in a plan: each has packed weights and kernels of its own."""

_USUAL_IMAGES = 16
"""The number of images for which a way is chosen that must serve all numbers."""


def tilings_of(node: Node, shape: ConvShape, ctx: LowerContext) -> tuple[Tiling | None, ...]:
    """Returns the ways to compute a convolution between blocked fp32 or bf16 values; None is direct convolution.

    There are several for open sizes only: binding takes the fastest.
    """
    if not _reads_operands(node):
        return (None,)
    of_bf16 = node.operand(0).dtype == bf16
    return permitted_tilings(
        shape,
        ctx.target,
        ctx.math,
        MOST_VARIANTS,
        streamed=ctx.streamed_weights,
        bf16_dot=of_bf16,
        batch_invariant=ctx.batch_invariant,
    )


def permitted_tilings(
    shape: ConvShape,
    target: Target,
    math: str,
    most: int,
    *,
    streamed: bool,
    bf16_dot: bool,
    batch_invariant: bool,
) -> tuple[Tiling | None, ...]:
    """Returns at most `most` ways; direct convolution alone where Winograd's algorithm is not permitted.

    It rounds differently from a sum of products, so it is used with math="fast" only. `streamed` and `bf16_dot` are as
    in `choose_tiling`. `batch_invariant`: there is one way, whatever the number of images.
    """
    if math != "fast" or not is_enabled("winograd") or shape.dilations != (1, 1) or shape.groups != 1:
        return (None,)
    usual, most = (replace(shape, images=_USUAL_IMAGES), 1) if batch_invariant else (shape, most)
    if not usual.is_open:
        best = choose_tiling(usual, target, streamed=streamed, bf16_dot=bf16_dot)
        return (best if best is None or usual is shape else tiling_of(best, shape, target, streamed=streamed),)
    variants = choose_variants(usual, target, most, streamed=streamed, bf16_dot=bf16_dot)
    return tuple(None if method is None else tiling_of(method, shape, target, streamed=streamed) for method in variants)


def _reads_operands(node: Node) -> bool:
    """Whether the kernels can read the operands of `node`, and write its result."""
    x, weights, out = node.operand(0), node.operand(1), node.output
    return (
        weights.dtype == f32 and isinstance(out.layout, Blocked) and x.layout == out.layout and weights.data is not None
    )


def winograd_calls(node: Node, shape: ConvShape, tiling: Tiling, ctx: LowerContext) -> list[Call] | None:
    """Returns the calls for `tiling`. None if the kernel cannot read an operand of the epilogue."""
    x, out = node.operand(0), node.output
    assert isinstance(out.layout, Blocked), "Winograd convolution writes blocked"
    epilogue = epilogue_operands(node, ctx, tiling.out_groups * tiling.group.vectors * out.layout.block)
    if epilogue is None:
        return None
    if tiling.fused:
        return [_product_call(node, shape, tiling, x, epilogue, ctx)]
    size = (tiling.tile_groups, prod(tiling.reach), _input_point(tiling, ctx))
    tiles = ctx.temporary(f"{out.name}.tiles", f32, size)
    return [_input_call(node, shape, tiling, tiles, ctx), _product_call(node, shape, tiling, tiles, epilogue, ctx)]


def _input_call(node: Node, shape: ConvShape, tiling: Tiling, tiles: Value, ctx: LowerContext) -> Call:
    """Returns the call that transforms the input into `tiles`."""
    x, lanes = node.operand(0), ctx.target.lanes(f32)
    block_chunks = ceil_div(tiling.in_blocks, tiling.blocks_per_chunk)
    return ctx.call(
        node,
        WinogradInputSpec(dtype=f32, source=x.known_dtype, lanes=lanes, tile=tiling.tile),
        (tiles,),
        (x,),
        args=WinogradInputArgs(
            tiles=_tile_args(shape, tiling, ctx),
            block_chunks=block_chunks,
            blocks_per_chunk=tiling.blocks_per_chunk,
        ),
        chunks=tiling.tile_groups * block_chunks,
        cost=ctx.flops_ns(tiling.input_cost * 2.0 * lanes, 0.0, 1.0),
        scratch=prod(tiling.reach) * lanes * f32.size,
    )


def _product_call(
    node: Node, shape: ConvShape, tiling: Tiling, source: Value, epilogue: EpilogueOperands, ctx: LowerContext
) -> Call:
    """Returns the call that multiplies, transforms back and stores; `source` is the input, or its tiles."""
    lanes, group, points = ctx.target.lanes(f32), tiling.group, prod(tiling.reach)
    cost = tiling.product_cost
    if tiling.fused:
        cost = cost + tiling.input_cost * tiling.group_chunks
    section = _section(shape, tiling, lanes)
    weights = _weights(node.operand(1), shape, tiling, lanes, ctx)
    leaves_l2 = section is None and ctx.streamed_weights and elements(weights.static_shape) * f32.size > ctx.target.l2
    spec = WinogradConvSpec(
        dtype=f32,
        source=source.known_dtype,
        lanes=lanes,
        tile=tiling.tile,
        vectors=group.vectors,
        factors=tiling.factors,
        heights=group.heights,
        unroll=next(turn for turn in (4, 2, 1) if shape.channels % turn == 0),
        fused=tiling.fused,
        section=section,
        ahead=ceil_div(ctx.machine.bytes_in_flight, LINE) * LINE if leaves_l2 else 0,
        bias=epilogue.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )
    args = _product_args(shape, tiling, epilogue.image_stride(node.output, ctx), ctx)
    inputs = points * args.tiles.input_point if tiling.fused else 0
    section_weights = prod(tiling.factors) * section.factor_stride if section is not None else 0
    return ctx.call(
        node,
        spec,
        (node.output,),
        (source, weights, *(() if epilogue.bias is None else (epilogue.bias,)), *epilogue.values),
        args=args,
        chunks=tiling.tile_groups * tiling.group_chunks,
        flops=2.0 * shape.multiply_adds,
        cost=ctx.flops_ns(cost * 2.0 * lanes, 0.0, 1.0),
        scratch=(points * (lanes + args.product_point) + inputs + section_weights) * f32.size,
    )


def _product_args(shape: ConvShape, tiling: Tiling, out_image: int, ctx: LowerContext) -> WinogradConvArgs[int]:
    lanes, group = ctx.target.lanes(f32), tiling.group
    return WinogradConvArgs(
        tiles=_tile_args(shape, tiling, ctx),
        tile_groups=tiling.tile_groups,
        groups=tiling.out_groups,
        groups_per_chunk=tiling.groups_per_chunk,
        out_image=out_image,
        out_block=elements(shape.out_size) * lanes,
        out_height=shape.out_size[0],
        out_width=shape.out_size[1],
        outputs=shape.outputs,
        product_point=odd(group.size * group.vectors) * lanes,
        counts=group.counts,
    )


def _tile_args(shape: ConvShape, tiling: Tiling, ctx: LowerContext) -> WinogradTileArgs[int]:
    x_block = elements(shape.size) * ctx.target.lanes(f32)
    return WinogradTileArgs(
        count=tiling.tiles,
        down=tiling.tiles_down,
        across=tiling.tiles_across,
        group_tiles=tiling.group.size,
        channels=shape.channels,
        input_point=_input_point(tiling, ctx),
        x_image=tiling.in_blocks * x_block,
        x_block=x_block,
        x_height=shape.size[0],
        x_width=shape.size[1],
        pad_top=shape.pads[0],
        pad_left=shape.pads[1],
    )


def _section(shape: ConvShape, tiling: Tiling, lanes: int) -> WinogradSection | None:
    """Returns the section of weights that the kernel transforms; None if they are transformed at compile time."""
    if not tiling.section_blocks:
        return None
    turns = prod(tiling.reach) * sum(int(hint_of(count)) for count in tiling.group.counts)
    taps = prod(shape.kernel) * tiling.group.vectors * lanes * f32.size
    return WinogradSection(
        channels=tiling.section_blocks * lanes,
        factor_stride=odd(tiling.section_blocks * lanes * tiling.group.vectors) * lanes,
        prefetch_bytes=-(-taps // turns),
        matrices=kernel_matrices(tiling.points, shape.kernel, tiling.strides),
    )


def _input_point(tiling: Tiling, ctx: LowerContext) -> int:
    """Returns the elements from one point of a group's transformed input to the next."""
    return odd(tiling.in_blocks * tiling.group.size) * ctx.target.lanes(f32)


def _weights(weights: Value, shape: ConvShape, tiling: Tiling, lanes: int, ctx: LowerContext) -> Value:
    """Returns the weights as the kernel reads them."""
    width = tiling.group.vectors * lanes

    def packed(data: Array) -> Array:
        four = data.reshape(shape.outputs, shape.channels, *shape.kernel)
        if tiling.section_blocks:
            return group_taps(four, width)
        return transform_weights(four, tiling.weight_points, tiling.strides, width)

    if tiling.section_blocks:
        return ctx.packed_factor(weights, f"winograd taps {width}", "taps", packed)
    how = f"winograd {tiling.weight_points} {tiling.strides} {width}"
    return ctx.packed_factor(weights, how, "transformed", packed)
