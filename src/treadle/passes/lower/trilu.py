"""Lowering of trilu: one triangle of matrices."""

from __future__ import annotations

from treadle.graph.dim import equals, maximum, minimum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.ops.sizes import known_sizes
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.trilu import TriluArgs, TriluSpec


def lower_trilu(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None if the diagonal is neither a constant nor a size."""
    x, y = node.operand(0), node.output
    k = node.inputs[1] if len(node.inputs) > 1 else None
    given = (0,) if k is None else known_sizes(k)
    if given is None or not is_movable(x, y):
        return None
    *batch, rows, columns = x.static_shape
    diagonal = minimum(maximum(given[0], -rows), columns)
    units = elements((*batch, rows)) if not equals(columns, 0) else 0
    cost = ctx.moved_ns(2.0 * nbytes(y)) + units
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = TriluSpec(size=x.known_dtype.size, upper=bool(node.attrs["upper"]))
    args = TriluArgs(units=units, units_per_chunk=per_chunk, rows=maximum(rows, 1), columns=columns, diagonal=diagonal)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
