"""Lowering of top_k."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import maximum
from treadle.graph.node import Node
from treadle.graph.shape import around, elements, normalize_axis
from treadle.ops.sizes import known_sizes
from treadle.passes.lower.base import LowerContext, nbytes
from treadle.passes.lower.copy import is_movable
from treadle.plan.call import Call
from treadle.plan.kernels.top_k import TopKArgs, TopKSpec

_ELEMENT_NS = 1.0
"""Estimated time of comparing an element with the worst one so far."""

_KEPT_NS = 30.0
"""Estimated time of putting an element in order."""


def lower_top_k(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One kernel; None for 16-bit floats, and where the number of elements is neither a constant nor a size."""
    x, known = node.operand(0), known_sizes(node.operand(1))
    if known is None or not is_movable(x, *node.outputs) or x.known_dtype in (dtypes.f16, dtypes.bf16):
        return None
    shape, (count,) = x.static_shape, known
    outer, size, inner = around(shape, normalize_axis(node.attrs["axis"], len(shape)))
    values, *rest = node.outputs
    positions = rest[0] if rest else ctx.temporary(f"{values.name}.positions", dtypes.i64, values.static_shape)
    units = outer * inner
    cost = elements(shape) * _ELEMENT_NS + elements(values.static_shape) * _KEPT_NS
    chunks, per_chunk = ctx.partition(units, cost / maximum(units, 1))
    spec = TopKSpec(dtype=x.known_dtype, largest=bool(node.attrs["largest"]))
    args = TopKArgs(units=units, units_per_chunk=per_chunk, count=count, size=size, inner=maximum(inner, 1))
    traffic = sum(nbytes(value) for value in (x, values, positions))
    writes = (values, positions)
    return [
        ctx.call(node, spec, writes, (x,), args=args, chunks=chunks, traffic=traffic, cost=ctx.machine.call_ns + cost)
    ]
