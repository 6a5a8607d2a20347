"""Lowering of argmax and argmin."""

from __future__ import annotations

from treadle.graph.dim import equals, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.along_axis import parts_around_axis
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.plan.call import Call
from treadle.plan.kernels.arg_reduce import ArgReduceArgs, ArgReduceSpec

_MAX_SIZE = (1 << 31) - 1
"""Positions are kept in as many bits as the elements have: 32 at least."""


def lower_arg_reduce(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats and last axes longer than 2**31 - 1."""
    x, y = node.operand(0), node.output
    parts = parts_around_axis(node)
    if parts is None:
        return None
    (outer, size, inner), dtype = parts, x.known_dtype
    single = equals(inner, 1)
    if single and size > _MAX_SIZE:
        return None
    units = outer if not equals(inner, 0) else 0
    cost = ctx.moved_ns(nbytes(x)) + units * 10.0 + (elements(x.static_shape) if dtype.size < 4 else 0)
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = ArgReduceSpec(dtype=dtype, largest=node.op == "argmax", last=bool(node.attrs["last"]), single=single)
    args = ArgReduceArgs(units=units, units_per_chunk=per_chunk, size=size, inner=inner)
    return [ctx.call(node, spec, (y,), (x,), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
