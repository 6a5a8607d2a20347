"""expand and tile: strided copies that read some axes again and again."""

from __future__ import annotations

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.graph.shape import strides_of
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import Axis, alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call


def lower_expand(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias."""
    x, y = node.operand(0), node.output
    if not is_movable(x, y):
        return None
    shape = y.static_shape
    padded = (1,) * (len(shape) - len(x.static_shape)) + x.static_shape
    strides = [
        0 if not equals(dim, total) and dim == 1 else stride
        for dim, total, stride in zip(padded, shape, strides_of(padded), strict=True)
    ]
    return alias_or_copy(node, ctx, y, x, dense_target(shape, strides))


def lower_tile(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias: each axis becomes two, (repeat, element)."""
    x, y = node.operand(0), node.output
    if not is_movable(x, y):
        return None
    axes: list[Axis] = []
    numbers = zip(x.static_shape, y.static_shape, strides_of(x.static_shape), strides_of(y.static_shape), strict=True)
    for size, total, source, target in numbers:
        axes += [Axis(total // size if size else 0, target * size, 0), Axis(size, target, source)]
    return alias_or_copy(node, ctx, y, x, axes)
