"""Direct convolutions that write the blocked layout: the call of their kernel."""

from __future__ import annotations

from dataclasses import replace

from treadle.dtypes import i16
from treadle.graph.dim import is_expression
from treadle.graph.expr import Expr, Step
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.conv.direct.cost import choose_tiling
from treadle.passes.lower.conv.direct.factors import Factors
from treadle.passes.lower.conv.direct.operands import Operands, direct_operands
from treadle.passes.lower.conv.direct.remainders import split_weights
from treadle.passes.lower.conv.direct.tiling import Tiling
from treadle.passes.lower.conv.rows import EFFICIENCY
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.elementwise import lower_expr
from treadle.passes.lower.vnni import signedness
from treadle.plan.call import Call
from treadle.plan.kernel_spec import NoArgs
from treadle.plan.kernels.conv.direct import DirectConvArgs, DirectConvSpec
from treadle.plan.target import LINE, Target

_FEW_UNITS = 20
"""The largest number of units at which the time that the first one waits for streamed weights is noticeable."""


def lower_direct(node: Node, shape: ConvShape, ctx: LowerContext) -> list[Call] | None:
    """Returns the call of the kernel, behind one that widens bytes where the CPU multiplies them no faster.

    None if the kernel cannot read the factors, the bias or an operand of the epilogue.
    """
    out, factors = node.output, Factors.of(node, ctx.target)
    if not factors.have_kernel(shape, ctx.target):
        return None
    widening: list[Call] = []
    sums_fit = out.dtype == factors.dtype
    if factors.words:
        factors, widening = _widened(node, factors, ctx)
    tiling = choose_tiling(shape, factors, ctx, sums_fit=sums_fit)
    split = None if tiling is None else split_weights(shape, factors, tiling, ctx.target)
    if tiling is not None and split is not None and not split.is_faster(factors, tiling):
        factors, widening = _widened(node, factors, ctx)
        tiling, split = choose_tiling(shape, factors, ctx, sums_fit=sums_fit), None
    x = factors.x
    operands = None if tiling is None else direct_operands(node, shape, factors, tiling, split, ctx)
    if tiling is None or operands is None:
        return None
    flops = 2.0 * shape.multiply_adds
    can_prefetch = tiling.row.flat and not factors.plain and not tiling.has_passes
    return [
        *widening,
        ctx.call(
            node,
            _spec(shape, factors, tiling, operands, ctx.target),
            (out,),
            (x, *operands.values),
            args=_args(shape, factors, tiling, operands.epilogue.image_stride(out, ctx)),
            chunks=tiling.chunks,
            flops=flops,
            cost=ctx.flops_ns(flops / factors.rate(ctx.target), nbytes(x) + nbytes(out), EFFICIENCY),
            scratch=0 if sums_fit else tiling.row.widest * tiling.panel * factors.dtype.size,
            prefetch_channels=shape.images * tiling.units * tiling.groups * tiling.channels if can_prefetch else 0,
        ),
    ]


def _widened(node: Node, factors: Factors, ctx: LowerContext) -> tuple[Factors, list[Call]]:
    """Returns the factors with an input of words without its zero point, and the call that makes it."""
    x = factors.x
    words = ctx.temporary(f"{x.name}.words", i16, x.static_shape)
    words.layout = x.layout
    steps = (Step("cast", (0,), i16), Step("const", (), i16, factors.zero), Step("sub", (1, 2), i16))
    expr = Expr((x.known_dtype,), steps, (3,)) if factors.zero else Expr((x.known_dtype,), steps[:1], (1,))
    calls = lower_expr(node, expr, (words,), [x], ctx)
    assert calls is not None, "every kernel can cast bytes to words"
    return replace(factors, x=words, zero=0, each=2), calls


def _spec(shape: ConvShape, factors: Factors, tiling: Tiling, operands: Operands, target: Target) -> DirectConvSpec:
    lanes, row, epilogue = factors.lanes, tiling.row, operands.epilogue
    padded = operands.padding is not None
    return DirectConvSpec(
        dtype=factors.dtype,
        bf16_dot=factors.bf16_dot,
        vnni=signedness(factors.x) if factors.vnni else "",
        words=factors.words,
        padded=padded,
        remainders=operands.remainders is not None,
        lanes=lanes,
        vectors=row.vectors,
        last_lanes=lanes // 2 if row.halved else lanes,
        kernel=shape.kernel,
        strides=shape.strides,
        dilations=shape.dilations,
        pad_left=shape.pads[1],
        segments=row.segments,
        checked=row.checked,
        in_runs=row.in_runs,
        flat=row.flat,
        plain_input=factors.plain,
        clamp_rows=shape.rows_leave_input and not padded,
        unroll=tiling.unroll,
        prefetch_lines=_prefetch_lines(shape, factors, tiling, operands.weights, target),
        prefetches_constant=False,
        passes=tiling.has_passes,
        bias=operands.bias is not None,
        epilogue=epilogue.expr,
        kinds=epilogue.kinds,
    )


def _args(shape: ConvShape, factors: Factors, tiling: Tiling, out_image: int) -> DirectConvArgs[int]:
    lanes, block = factors.lanes, factors.block
    pixel = 1 if factors.plain else block
    x_plane, out_plane = elements(shape.size), elements(shape.out_size)
    set_blocks = 1 if factors.plain or shape.groups == 1 else tiling.channels // block
    return DirectConvArgs(
        images=shape.images,
        units=tiling.units,
        units_per_chunk=tiling.units_per_chunk,
        unit_chunks=tiling.unit_chunks,
        groups=tiling.groups,
        groups_per_chunk=tiling.groups_per_chunk,
        channels=tiling.channels,
        channels_per_pass=tiling.channels_per_pass,
        groups_per_set=tiling.groups // shape.groups,
        x_set=set_blocks * x_plane * block,
        x_image=x_plane * (shape.channels if factors.plain else -(-shape.channels // lanes) * block),
        x_channel=x_plane * pixel,
        x_row=shape.size[1] * pixel,
        x_height=shape.size[0],
        pad_top=shape.pads[0],
        out_image=out_image,
        out_block=out_plane * lanes,
        out_row=shape.out_size[1] * lanes,
        outputs=shape.outputs,
        spans=tiling.row.spans,
        prefetch=NoArgs(),
    )


def _prefetch_lines(shape: ConvShape, factors: Factors, tiling: Tiling, packed: Value, target: Target) -> int:
    """Returns the cache lines that each turn prefetches, so that all units together prefetch the next group's weights.

    0 where weights are resident, and where many units read them, or nobody knows how many: the wait of the first unit
    counts little then.
    """
    streamed = (factors.each > 1 or shape.kernel != (1, 1)) and tiling.groups > 1 and nbytes(packed) >= target.l2
    if not streamed or is_expression(tiling.units) or tiling.units > _FEW_UNITS:
        return 0
    turn_bytes = tiling.unroll * shape.kernel[1] * tiling.panel * factors.dtype.size
    return -(-turn_bytes // LINE // tiling.units)
