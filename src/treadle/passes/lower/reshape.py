"""reshape, flatten, squeeze, unsqueeze, identity: the same memory under another shape."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.passes.lower.base import LowerContext
from treadle.plan.call import Call


def lower_reshape(node: Node, ctx: LowerContext) -> list[Call] | None:
    """An alias; None if one of the two is blocked, unless the layout and the shape stay."""
    x, y = node.operand(0), node.output
    if x.layout != y.layout or (x.layout is not None and x.static_shape != y.static_shape):
        return None
    ctx.alias(y, x)
    return []
