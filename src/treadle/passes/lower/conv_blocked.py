"""Direct convolutions that write the blocked layout: the kernel and the call for them."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.conv_blocked_cut import Cut, choose_cut
from treadle.passes.lower.conv_blocked_factors import Factors
from treadle.passes.lower.conv_blocked_operands import Operands, direct_operands
from treadle.passes.lower.conv_shape import ConvShape
from treadle.passes.lower.conv_tiles import EFFICIENCY
from treadle.passes.lower.vnni import signedness
from treadle.plan.call import Call
from treadle.plan.kernel_spec import KernelSpec
from treadle.plan.target import LINE, Target

_FEW_UNITS = 20
"""So many units or fewer wait noticeably for weights that come from memory."""


def lower_direct(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """A call of the direct kernel. None if the bias or an epilogue operand is of a kind it cannot read."""
    x, out, factors = node.operand(0), node.output, Factors.of(node)
    if not factors.have_kernel(shape, ctx.target):
        return None
    sums_fit = out.dtype == factors.dtype
    cut = choose_cut(shape, factors, ctx, sums_fit=sums_fit)
    operands = direct_operands(node, shape, factors, cut, ctx)
    if operands is None:
        return None
    flops = 2.0 * shape.multiply_adds
    asks_ahead = cut.tile.flat and not factors.plain and not cut.has_passes
    return [
        ctx.call(
            node,
            _spec(shape, factors, cut, operands, ctx.target),
            (out,),
            (x, *operands.values),
            args=_args(shape, factors, cut, operands.epilogue.image_stride(out, ctx)),
            chunks=cut.chunks,
            flops=flops,
            cost=ctx.flops_ns(flops / factors.each, nbytes(x) + nbytes(out), EFFICIENCY),
            scratch=0 if sums_fit else cut.widest * cut.panel * factors.dtype.size,
            steps=shape.images * cut.units * cut.groups * cut.channels if asks_ahead else 0,
        )
    ]


def _spec(shape: ConvShape, factors: Factors, cut: Cut, operands: Operands, target: Target) -> KernelSpec:
    lanes, tile, epilogue = factors.lanes, cut.tile, operands.epilogue
    padded = operands.padding is not None
    return KernelSpec.of(
        "conv",
        dtype=factors.dtype,
        pairs=factors.pairs,
        quads=signedness(factors.x) if factors.quads else "",
        padded=padded,
        lanes=lanes,
        vectors=tile.vectors,
        last_lanes=lanes // 2 if tile.halved else lanes,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=tuple(tile.segments),
        flat=tile.flat,
        plain_input=factors.plain,
        clamp_rows=shape.rows_leave_input and not padded,
        unroll=cut.unroll,
        prefetch=_prefetched_lines(shape, factors, cut, operands.weights, target),
        later=False,
        passes=cut.has_passes,
        bias=operands.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )


def _args(shape: ConvShape, factors: Factors, cut: Cut, out_image: int) -> tuple[int, ...]:
    """What the kernel is told (ARGS of `codegen/kernels/conv`)."""
    lanes, block = factors.lanes, factors.block
    pixel = 1 if factors.plain else block
    x_plane, out_plane = elements(shape.size), elements(shape.out_size)
    set_blocks = 1 if factors.plain or shape.groups == 1 else cut.channels // block
    return (
        shape.images,
        cut.units,
        cut.units_per_chunk,
        cut.unit_chunks,
        cut.groups,
        cut.groups_per_chunk,
        cut.channels,
        cut.channels_per_pass,
        cut.groups // shape.groups,
        set_blocks * x_plane * block,
        x_plane * (shape.channels if factors.plain else -(-shape.channels // lanes) * block),
        x_plane * pixel,
        shape.size[1] * pixel,
        shape.size[0],
        shape.pads[0],
        out_image,
        out_plane * lanes,
        shape.out_size[1] * lanes,
        shape.outputs,
        *(number for span in cut.tile.spans for number in span),
    )


def _prefetched_lines(shape: ConvShape, factors: Factors, cut: Cut, packed: Value, target: Target) -> int:
    """Cache lines of the next group's weights that each turn asks for, so that all units together ask for all.

    0 where the weights stay near, and where many units share them: the first one's wait for memory counts little then.
    """
    far = (factors.each > 1 or shape.kernel != (1, 1)) and cut.groups > 1 and nbytes(packed) >= target.l2
    if not far or cut.units > _FEW_UNITS:
        return 0
    turn_bytes = cut.unroll * shape.kernel[1] * cut.panel * factors.dtype.size
    return -(-turn_bytes // LINE // cut.units)
