"""Rewrites nodes that only regroup axes as reshapes to constant shapes, and merges these."""

from __future__ import annotations

from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes
from treadle.graph.value import Value
from treadle.ops.reduce import REDUCTIONS
from treadle.ops.sizes import known_sizes
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep

_REGROUPING = ("reshape", "flatten", "squeeze", "unsqueeze")


class SimplifyReshapes:
    """%y = flatten(%x: [1, 8, 1, 1]); %z = reshape(%y, [2, -1])  ->  %z = reshape(%x, [2, 4])"""

    name = "simplify_reshapes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def canonical(node: Node, edit: Edit) -> Value | None:
    """squeeze(x: [1, 4]) -> reshape(x, [4]); reshape(reshape(x, s), t) -> reshape(x, t)"""
    shape = node.output.shape
    if shape is None:
        return None
    source = node.operand(0)
    inner = produced_by(source, *_REGROUPING)
    if inner is not None:
        source = inner.operand(0)
    elif node.op == "reshape" and _is_target(node.inputs[1], node.output.static_shape):
        return None
    return edit.reshape(source, node.output.static_shape)


def moves_ones_only(node: Node, edit: Edit) -> Value | None:
    """transpose(x: [1, 8, 4]) perm=(1, 0, 2) -> reshape(x, [8, 1, 4]): axes of size 1 may move freely"""
    source = node.operand(0)
    if source.shape is None or node.output.shape is None:
        return None
    shape = source.static_shape
    moved = [axis for axis in _perm(node, len(shape)) if not equals(shape[axis], 1)]
    return edit.reshape(source, node.output.static_shape) if moved == sorted(moved) else None


def reduces_ones_only(node: Node, edit: Edit) -> Value | None:
    """reduce_mean(x: [8, 1]) axes=(1,) keepdims=False -> reshape(x, [8]): nothing is summed up"""
    source = node.operand(0)
    if source.shape is None or node.output.shape is None or source.dtype != node.output.dtype:
        return None
    axes = node.attrs.get("axes")
    shape = source.static_shape
    reduced = range(len(shape)) if axes is None else [axis % len(shape) for axis in axes]
    if not all(equals(shape[axis], 1) for axis in reduced):
        return None
    return edit.reshape(source, node.output.static_shape)


def _perm(node: Node, rank: int) -> tuple[int, ...]:
    perm = node.attrs.get("perm")
    return tuple(reversed(range(rank))) if perm is None else tuple(perm)


def _is_target(value: Value | None, shape: StaticShape) -> bool:
    return equal_shapes(known_sizes(value), shape)


_RULES: Rules = {
    **dict.fromkeys(_REGROUPING, (canonical,)),
    "transpose": (moves_ones_only,),
    **dict.fromkeys(REDUCTIONS, (reduces_ones_only,)),
}
