"""Lowering of cumsum, cumprod, cummax, cummin and logcumsumexp."""

from __future__ import annotations

from treadle.graph.dim import equals, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.along_axis import parts_around_axis
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.cumulative import CumulativeArgs, CumulativeSpec

_CHAINS = {"logcumsumexp": 30}
"""How many operations of floats wait for each other from one element of a column to the next, where it is not one."""


def lower_cumulative(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats."""
    x, y = node.operand(0), node.output
    parts = parts_around_axis(node)
    if parts is None:
        return None
    (outer, size, inner), dtype = parts, x.known_dtype
    units = outer if not equals(size * inner, 0) else 0
    single = equals(inner, 1)
    lanes = 1 if single else ctx.target.lanes(dtype)
    waiting = elements(x.static_shape) * _CHAINS.get(node.op, 1) * ctx.machine.fma_latency_ns / lanes
    cost = ctx.moved_ns(3.0 * nbytes(x)) + waiting
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = CumulativeSpec(
        op=node.op,
        dtype=dtype,
        exclusive=bool(node.attrs["exclusive"]),
        reverse=bool(node.attrs["reverse"]),
        single=single,
    )
    args = CumulativeArgs(units=units, units_per_chunk=per_chunk, size=size, inner=inner)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
