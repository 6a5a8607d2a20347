"""transpose: a strided copy, or nothing where only axes of size 1 move."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.graph.shape import strides_of
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call


def lower_transpose(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias."""
    x, y = node.operand(0), node.output
    if not is_movable(x, y):
        return None
    strides = strides_of(x.static_shape)
    return alias_or_copy(node, ctx, y, x, dense_target(y.static_shape, [strides[axis] for axis in node.attrs["perm"]]))
