"""Lowering of non_max_suppression."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import maximum
from treadle.graph.node import Node
from treadle.ops.non_max_suppression import most_of_class
from treadle.ops.op import Info
from treadle.ops.sizes import known_value
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.kernels.non_max_suppression import (
    CORNERS,
    ListBoxesArgs,
    ListBoxesSpec,
    SuppressBoxesArgs,
    SuppressBoxesSpec,
)

_BOX_NS = 2.0
"""Estimated time of testing a score, and of sorting the few that are high."""

_KEPT_NS = 100.0
"""Estimated time of finding a box to keep."""


def lower_non_max_suppression(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A kernel whose units are classes, and one that lists what they find."""
    reads = tuple(node.operand(index) for index in range(5))
    boxes, scores, most = reads[:3]
    (batch, classes, count), (found, number) = scores.static_shape, node.outputs
    room = most_of_class(Info(dtypes.i64, most.static_shape, known_value(most)), boxes.static_shape[1])
    units = batch * classes
    kept = ctx.temporary(f"{found.name}.kept", dtypes.i64, (units, room))
    counts = ctx.temporary(f"{found.name}.counts", dtypes.i64, (units,))
    unit_ns = count * _BOX_NS + room * _KEPT_NS
    chunks, per_chunk = ctx.partition(units, unit_ns)
    lanes = ctx.target.vector_bytes // dtypes.f32.size
    args = SuppressBoxesArgs(
        units=units, units_per_chunk=per_chunk, classes=maximum(classes, 1), boxes=count, room=room
    )
    suppress = ctx.call(
        node,
        SuppressBoxesSpec(center=bool(node.attrs["center"])),
        (kept, counts),
        reads,
        args=args,
        chunks=chunks,
        cost=ctx.machine.call_ns + units * unit_ns,
        scratch=count * dtypes.i64.size + len(CORNERS) * (room + lanes) * dtypes.f32.size,
    )
    rows = ListBoxesArgs(units=units, classes=maximum(classes, 1), room=room)
    return [suppress, ctx.call(node, ListBoxesSpec(), (found, number), (kept, counts), args=rows)]
