"""Lowering of branches: one call that runs the plan of one body."""

from __future__ import annotations

from treadle.graph.dim import real_maximum
from treadle.graph.node import Node
from treadle.ops.sizes import known_value
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call
from treadle.plan.control_flow import Branch


def lower_branch(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call, which costs as much as the more expensive body; None if a body has no plan."""
    plans = ctx.plans_of_bodies(node)
    if not plans:
        return None
    costs = [sum(call.cost for call in plan.calls) for plan in plans]
    flops = [sum(call.flops for call in plan.calls) for plan in plans]
    traffic = [sum(call.traffic for call in plan.calls) for plan in plans]
    yes, no = plans
    condition, *operands = (value for value in node.inputs if value is not None)
    # Bodies hold what is known of operands and do not read them, so that any address will do.
    reads = [condition, *(condition if known_value(value) is not None else value for value in operands)]
    return [
        Call(
            node=node.name,
            op=node.op,
            writes=tuple(node.outputs),
            reads=tuple(reads),
            control=Branch(yes, no),
            cost=ctx.machine.call_ns + real_maximum(*costs),
            flops=real_maximum(*flops),
            traffic=real_maximum(*traffic),
        )
    ]
