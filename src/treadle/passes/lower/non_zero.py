"""Lowering of non_zero."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.non_zero import CountNonZeroArgs, CountNonZeroSpec, NonZeroArgs, NonZeroSpec

_ELEMENT_NS = 0.6
"""Estimated time of testing an element and writing some of the positions."""


def lower_non_zero(node: Node, ctx: LowerContext) -> list[Call] | None:
    """Two kernels; None for 16-bit floats."""
    x, (found, count) = node.operand(0), node.outputs
    dtype, shape = x.known_dtype, x.static_shape
    if not is_movable(x, found, count) or dtype in (dtypes.f16, dtypes.bf16) or not shape:
        return None
    size = elements(shape)
    cost = size * _ELEMENT_NS
    chunks, per_chunk = ctx.partition(size, _ELEMENT_NS)
    chunks = maximum(chunks, 1)  # of no elements one chunk finds none
    counts = ctx.temporary(f"{found.name}.counts", dtypes.i64, (chunks,))
    counting = CountNonZeroArgs(size=size, size_per_chunk=per_chunk)
    args = NonZeroArgs(
        size=size, size_per_chunk=per_chunk, chunks=chunks, shape=tuple(maximum(dim, 1) for dim in shape)
    )
    first, second = CountNonZeroSpec(dtype=dtype), NonZeroSpec(dtype=dtype, rank=len(shape))
    reading = ctx.machine.call_ns + ctx.moved_ns(nbytes(x))
    return [
        ctx.call(node, first, (counts,), (x,), args=counting, chunks=chunks, traffic=nbytes(x), cost=reading),
        ctx.call(node, second, (found, count), (x, counts), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost),
    ]
