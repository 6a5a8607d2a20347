"""Merges transposes that follow each other."""

from __future__ import annotations

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, produced_by, sweep


class SimplifyTransposes:
    """%y = transpose(%x) perm=(0, 2, 1); %z = transpose(%y) perm=(1, 0, 2)  ->  %z = transpose(%x) perm=(2, 0, 1)"""

    name = "simplify_transposes"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def twice(node: Node, edit: Edit) -> Value | None:
    """transpose(transpose(x)) -> transpose(x)"""
    inner = produced_by(node.inputs[0], "transpose")
    if inner is None or inner.attrs["perm"] is None or node.attrs["perm"] is None:
        return None
    return edit.add("transpose", [inner.inputs[0]], {"perm": compose(inner.attrs["perm"], node.attrs["perm"])})


def reversed_axes(node: Node, edit: Edit) -> Value | None:
    """transpose(x: [2, 3, 4]) perm=None -> transpose(x) perm=(2, 1, 0)"""
    shape = node.operand(0).shape
    if node.attrs.get("perm") is not None or shape is None:
        return None
    return edit.add("transpose", node.inputs, {"perm": tuple(reversed(range(len(shape))))})


def compose(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that does `first`, then `second`."""
    return tuple(first[axis] for axis in second)


_RULES: Rules = {"transpose": (reversed_axes, twice)}
