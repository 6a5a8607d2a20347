"""Lowering of cumsum: running sums along one axis."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.node import Node
from treadle.graph.shape import around, elements, normalize_axis
from treadle.passes.lower.base import BYTES_PER_NS, CALL_NS, LowerContext, nbytes, partition
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.cumsum import CumsumArgs, CumsumSpec


def lower_cumsum(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats."""
    x, y = node.operand(0), node.output
    dtype = x.known_dtype
    if not is_movable(x, y) or dtype in (dtypes.f16, dtypes.bf16):
        return None
    shape = x.static_shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    outer, size, inner = around(shape, axis)
    units = outer if size * inner else 0
    cost = 3.0 * nbytes(x) / BYTES_PER_NS + (elements(shape) if inner == 1 else 0)
    chunks, per_chunk = partition(units, cost / max(units, 1))
    spec = CumsumSpec(
        dtype=dtype,
        exclusive=bool(node.attrs["exclusive"]),
        reverse=bool(node.attrs["reverse"]),
        single=inner == 1,
    )
    args = CumsumArgs(units=units, units_per_chunk=per_chunk, size=size, inner=inner)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=CALL_NS + cost)]
