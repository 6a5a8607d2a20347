"""Gives every value its dtype and static shape, as far as they do not depend on data."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import is_static
from treadle.graph.value import Value
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Info
from treadle.ops.sizes import known_value
from treadle.passes.base import PassContext


class InferShapes:
    """%y = relu(%x: f32[2, 3])  ->  %y: f32[2, 3] = relu(%x)

    Values behind a node whose result's shape depends on data keep shape None.
    """

    name = "infer_shapes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if a value learned its dtype or shape. Raises ShapeError, naming the node, if operands do not fit."""
        changed = False
        for node in graph.nodes:
            if any(value.dtype is None or value.shape is None for value in node.outputs):
                changed |= learns(node)
        return changed


def learns(node: Node) -> bool:
    """Infer `node`; True if a result's dtype or shape became known by it."""
    before = [(value.dtype, value.shape) for value in node.outputs]
    infer_into(node)
    return before != [(value.dtype, value.shape) for value in node.outputs]


def infer_into(node: Node) -> list[Info] | None:
    """Infer `node`, write dtypes and shapes to its results, and return what was inferred, if anything.

    A result whose shape depends on data keeps shape None. Raises ShapeError, naming the node.
    """
    operands: list[Info | None] = []
    for value in node.inputs:
        if value is not None and value.dtype is None:
            return None
        operands.append(None if value is None else info_of(value))
    infos = infer_node(node, operands)
    for value, info in zip(node.outputs, infos, strict=False):
        value.dtype = info.dtype
        value.shape = info.shape
    return infos or None


def info_of(value: Value) -> Info:
    """What is known of `value`, whose dtype must be; a shape with names of symbols counts as unknown."""
    shape = value.shape
    known = None if shape is None or not is_static(shape) else value.static_shape
    return Info(value.known_dtype, known, known_value(value))
