"""search_sorted."""

from __future__ import annotations

import math

from treadle import dtypes
from treadle.graph.dim import hint_of, maximum
from treadle.graph.node import Node
from treadle.graph.shape import elements
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.passes.lower.gather import PICK_NS
from treadle.plan.call import Call
from treadle.plan.kernels.search_sorted import SearchSortedArgs, SearchSortedSpec


def lower_search_sorted(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats."""
    sequence, values, y = node.operand(0), node.operand(1), node.output
    dtype = values.known_dtype
    if not is_movable(sequence, values, y) or dtype in (dtypes.f16, dtypes.bf16):
        return None
    units, size = elements(values.static_shape), sequence.static_shape[-1]
    rows = elements(sequence.static_shape[:-1])
    turns = math.log2(max(hint_of(size), 1)) + 1
    cost = ctx.moved_ns(nbytes(values) + nbytes(y)) + units * turns * PICK_NS
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = SearchSortedSpec(dtype=dtype, right=bool(node.attrs["right"]))
    columns = maximum(units // maximum(rows, 1), 1)
    args = SearchSortedArgs(units=units, units_per_chunk=per_chunk, size=size, columns=columns)
    return [ctx.call(node, spec, (y,), (sequence, values), args=args, chunks=chunks, cost=ctx.machine.call_ns + cost)]
