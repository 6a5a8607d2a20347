"""Fuses the elementwise producer of a reduction into it."""

from __future__ import annotations

from treadle import dtypes
from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import equal_shapes, may_be_empty
from treadle.graph.value import Value
from treadle.ops.reduce import REDUCTIONS
from treadle.passes.base import PassContext
from treadle.passes.match import join_names

_MOST_OPERANDS = 4
"""More streams than this are read faster one after the other."""


class FuseHead:
    """%p = elementwise(%a, %b) expr; %y = reduce_sum(%p)  ->  %y = reduce_sum(%a, %b) head=expr

    The reduction must be the only reader of elements of f32 or f64 in row-major order, whose operands have its shape or
    one element.
    """

    name = "fuse_head"

    def run(self, graph: Graph, context: PassContext) -> bool:
        removed: set[Node] = set()
        for node in graph.nodes:
            maker = _head(graph, node)
            if maker is not None:
                _fuse(graph, node, maker)
                removed.add(maker)
        if removed:
            graph.rebuild([node for node in graph.nodes if node not in removed])
        return bool(removed)


def _head(graph: Graph, node: Node) -> Node | None:
    """The loop that `node` can take over."""
    if node.op not in REDUCTIONS or "head" in node.attrs or node.output.layout is not None:
        return None
    x = node.operand(0)
    maker = x.producer
    if maker is None or maker.op != "elementwise" or len(maker.outputs) != 1 or x.layout is not None:
        return None
    if graph.is_output(x) or len(x.users) != 1 or x.dtype not in (dtypes.f32, dtypes.f64):
        return None
    if may_be_empty(x.static_shape):
        return None
    operands = [maker.operand(number) for number in range(len(maker.inputs))]
    expr = maker.attrs["expr"]
    fits = (
        1 <= len(operands) <= _MOST_OPERANDS
        and any(equal_shapes(each.shape, x.shape) for each in operands)
        and all(equal_shapes(each.shape, x.shape) or _is_single(each) for each in operands)
        and all(each.layout is None for each in operands)
        and {x.dtype, *expr.operands, *(step.dtype for step in expr.steps)} == {x.dtype}
    )
    return maker if fits else None


def _is_single(value: Value) -> bool:
    return all(equals(dim, 1) for dim in value.static_shape)


def _fuse(graph: Graph, node: Node, maker: Node) -> None:
    """Make `node` read what `maker` reads."""
    operands = list(maker.inputs)
    for each in (maker, node):
        for index in range(len(each.inputs)):
            graph.set_input(each, index, None)
    node.inputs = [None] * len(operands)
    for index, value in enumerate(operands):
        graph.set_input(node, index, value)
    node.take_over([maker, node])
    node.name = join_names([maker, node])
    node.attrs = {**node.attrs, "head": maker.attrs["expr"]}
