"""Lowering of cumsum: running sums along one axis."""

from __future__ import annotations

from treadle.graph.dim import equals, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.along_axis import parts_around_axis
from treadle.passes.lower.base import LowerContext, nbytes, partition
from treadle.plan.call import Call
from treadle.plan.kernels.cumsum import CumsumArgs, CumsumSpec


def lower_cumsum(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats."""
    x, y = node.operand(0), node.output
    parts = parts_around_axis(node)
    if parts is None:
        return None
    (outer, size, inner), dtype = parts, x.known_dtype
    units = outer if not equals(size * inner, 0) else 0
    single = equals(inner, 1)
    cost = ctx.moved_ns(3.0 * nbytes(x)) + (elements(x.static_shape) if single else 0)
    chunks, per_chunk = partition(units, cost / maximum(units, 1))
    spec = CumsumSpec(
        dtype=dtype,
        exclusive=bool(node.attrs["exclusive"]),
        reverse=bool(node.attrs["reverse"]),
        single=single,
    )
    args = CumsumArgs(units=units, units_per_chunk=per_chunk, size=size, inner=inner)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
