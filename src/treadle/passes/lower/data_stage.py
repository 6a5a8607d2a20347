"""Lowering of data_stage: one call that binds a plan and runs it."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.control_flow import Rest

_STAGE_NS = 50_000.0
"""Estimated time of a stage, which is not known before its sizes are."""


def lower_data_stage(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call."""
    return [
        Call(
            node=node.name,
            op=node.op,
            writes=tuple(node.outputs),
            reads=tuple(value for value in node.inputs if value is not None),
            control=Rest(node.attrs["stage"], node.attrs["counts"]),
            sizes=node.attrs["args"],
            cost=_STAGE_NS,
        )
    ]
