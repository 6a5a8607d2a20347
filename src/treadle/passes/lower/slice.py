"""slice: a strided copy, or an alias where the slice is one piece of memory."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.graph.shape import strides_of
from treadle.ops.sizes import known_sizes
from treadle.ops.slice import resolved
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call


def constant_ranges(node: Node) -> tuple[tuple[int, int, int], ...] | None:
    """(first index, step, count) along each axis of what `node`, a slice, reads; None unless its bounds are
    constants or sizes."""
    given = [known_sizes(value) for value in node.inputs[1:]]
    if any(value is not None and known is None for value, known in zip(node.inputs[1:], given, strict=True)):
        return None
    starts, ends, axes, steps = [*given, None, None][:4]
    return resolved(node.operand(0).static_shape, starts or (), ends or (), axes, steps)


def lower_slice(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias; None unless starts, ends, axes and steps are constants or sizes."""
    x, y = node.operand(0), node.output
    ranges = constant_ranges(node) if is_movable(x, y) else None
    if ranges is None:
        return None
    strides = strides_of(x.static_shape)
    start = sum(first * stride for (first, _, _), stride in zip(ranges, strides, strict=True))
    steps_in_x = [step * stride for (_, step, _), stride in zip(ranges, strides, strict=True)]
    return alias_or_copy(node, ctx, y, x, dense_target(y.static_shape, steps_in_x), start)
