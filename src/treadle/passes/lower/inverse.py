"""Lowering of inverse."""

from __future__ import annotations

from treadle.dtypes import i64
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.kernels.inverse import InverseArgs, InverseSpec

_EFFICIENCY = 0.2
"""The part of the multiply-adds of a core that the kernel reaches: it reads a matrix from the cache for each row."""


def lower_inverse(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel, whose units are matrices."""
    x, y = node.operand(0), node.output
    if x.layout is not None or y.layout is not None:
        return None
    *batch, size, _ = x.static_shape
    dtype, units = x.known_dtype, elements(batch)
    lanes = ctx.target.lanes(dtype)
    flops = 2.0 * size * size * (size + lanes)
    unit_ns = flops / (lanes * ctx.machine.flops_per_lane_ns * _EFFICIENCY)
    chunks, per_chunk = ctx.partition(units, unit_ns)
    return [
        ctx.call(
            node,
            InverseSpec(dtype=dtype),
            (y,),
            (x,),
            args=InverseArgs(units=units, units_per_chunk=per_chunk, size=size),
            chunks=chunks,
            flops=units * flops,
            cost=ctx.machine.call_ns + units * unit_ns,
            scratch=size * size * dtype.size + size * i64.size,
        )
    ]
