"""reverse_sequence."""

from __future__ import annotations

from treadle.dtypes import i64
from treadle.graph.dim import equals, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.passes.lower.gather import INDEX_DTYPES, PICK_NS
from treadle.plan.call import Call
from treadle.plan.kernels.reverse_sequence import ReverseSequenceArgs, ReverseSequenceSpec


def lower_reverse_sequence(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for lengths other than i32 and i64."""
    x, lengths, y = node.operand(0), node.operand(1), node.output
    if not is_movable(x, lengths, y) or lengths.known_dtype not in INDEX_DTYPES:
        return None
    outer, inner, *row = x.static_shape
    length = elements(row)
    units = outer * inner if not equals(length, 0) else 0
    cost = ctx.moved_ns(2.0 * nbytes(x)) + units * PICK_NS
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = ReverseSequenceSpec(
        size=x.known_dtype.size, wide=lengths.known_dtype == i64, time_first=node.attrs["time_axis"] == 0
    )
    args = ReverseSequenceArgs(units=units, units_per_chunk=per_chunk, outer=outer, inner=inner, length=length)
    return [ctx.call(node, spec, (y,), (x, lengths), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
