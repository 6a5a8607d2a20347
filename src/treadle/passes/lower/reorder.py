"""reorder: a value is copied from plain to blocked channels, or back."""

from __future__ import annotations

from treadle.dtypes import bf16
from treadle.graph.dim import ceil_div, equals, maximum
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.ops.operands import BYTES
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.reorder import ReorderArgs, ReorderSpec

_MAX_TILE = 16


def lower_reorder(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Returns one call; none, and an alias, where memory is the same; None between two blocked layouts."""
    x, y = node.operand(0), node.output
    if x.layout == y.layout:
        ctx.alias(y, x)
        return []
    layout = x.layout or y.layout
    dtype, shape = x.known_dtype, x.static_shape
    if (x.layout and y.layout) or not isinstance(layout, Blocked) or (dtype.size < 4 and dtype not in (bf16, *BYTES)):
        return None
    blocks = maximum(layout.physical(shape)[1], 1)
    pixels = elements(shape[2:])
    if equals(pixels, 1) and shape[1] % layout.block == 0:
        ctx.alias(y, x)
        return []
    side = min(_MAX_TILE, ctx.target.lanes(dtype), layout.block)
    units = shape[0] * blocks * ceil_div(pixels, side)
    traffic = nbytes(x) + nbytes(y)
    chunks, per_chunk = ctx.partition(units, ctx.moved_ns(traffic) / maximum(units, 1))
    spec = ReorderSpec(dtype=dtype, block=layout.block, side=side, to_blocked=y.layout is not None)
    args = ReorderArgs(units=units, units_per_chunk=per_chunk, channels=shape[1], blocks=blocks, pixels=pixels)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks)]
