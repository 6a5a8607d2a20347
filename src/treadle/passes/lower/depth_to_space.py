"""depth_to_space and space_to_depth: transposes of an image seen with more axes."""

from __future__ import annotations

from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, strides_of
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.copy import alias_or_copy, dense_target, is_movable
from treadle.plan.call import Call


def lower_depth_to_space(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias."""
    batch, channels, height, width = node.operand(0).static_shape
    block = node.attrs["block"]
    out = channels // (block * block)
    if node.attrs["mode"] == "DCR":
        return _permuted(node, ctx, (batch, block, block, out, height, width), (0, 3, 4, 1, 5, 2))
    return _permuted(node, ctx, (batch, out, block, block, height, width), (0, 1, 4, 2, 5, 3))


def lower_space_to_depth(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One copy or an alias."""
    batch, channels, height, width = node.operand(0).static_shape
    block = node.attrs["block"]
    shape = (batch, channels, height // block, block, width // block, block)
    return _permuted(node, ctx, shape, (0, 3, 5, 1, 2, 4))


def _permuted(node: Node, ctx: LowerContext, shape: StaticShape, perm: tuple[int, ...]) -> list[Call] | None:
    x, y = node.operand(0), node.output
    if not is_movable(x, y):
        return None
    strides = strides_of(shape)
    axes = dense_target(tuple(shape[axis] for axis in perm), [strides[axis] for axis in perm])
    return alias_or_copy(node, ctx, y, x, axes)
