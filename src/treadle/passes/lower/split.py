"""split: one strided copy a piece, or an alias where a piece is contiguous."""

from __future__ import annotations

from treadle.graph.layout import physical_shape
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, strides_of
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.concat import can_concat_blocked
from treadle.passes.lower.copy import alias_or_copy, dense_target
from treadle.plan.call import Call


def can_split_blocked(shapes: list[StaticShape], block: int, axis: int) -> bool:
    """Whether a blocked tensor can be split into pieces of `shapes`: each border of a piece must be that of a block."""
    return can_concat_blocked(shapes, block, axis)


def lower_split(node: Node, ctx: LowerContext) -> list[Call] | None:
    """A copy or an alias for each piece; None for blocked memory whose blocks the pieces do not respect."""
    x, axis = node.operand(0), node.attrs["axis"]
    axis += len(x.static_shape) if axis < 0 else 0
    if x.known_dtype.kind == "string" or any(piece.layout != x.layout for piece in node.outputs):
        return None
    shapes = [piece.static_shape for piece in node.outputs]
    if x.layout is not None and not can_split_blocked(shapes, x.layout.block, axis):
        return None
    strides = strides_of(physical_shape(x.static_shape, x.layout))
    calls: list[Call] = []
    start = 0
    for piece, shape in zip(node.outputs, shapes, strict=True):
        physical = physical_shape(shape, piece.layout)
        calls += alias_or_copy(node, ctx, piece, x, dense_target(physical, strides), start)
        start += physical[axis] * strides[axis]
    return calls
