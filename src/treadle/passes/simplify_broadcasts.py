"""Keeps operands as small as broadcasting allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, certain_broadcast, equal_shapes
from treadle.graph.value import Value
from treadle.ops.elementwise import SCALAR_OPS
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rule, produced_by, sweep

_EXAMINED_ELEMENTS = 1 << 22
"""Larger constants are not searched for repetition."""


class SimplifyBroadcasts:
    """%e = expand(%m: [1, 1, 4], [2, 4, 4]); %y = add(%x: [2, 4, 4], %e)  ->  %y = add(%x, %m)

    Constants that repeat along an axis shrink the same way.
    """

    name = "simplify_broadcasts"

    def run(self, graph: Graph, context: PassContext) -> bool:
        shrinking = _Shrinking()
        rules: dict[str, Sequence[Rule]] = dict.fromkeys(SCALAR_OPS, (unexpanded, shrinking.rule))
        rules |= {"matmul": (unexpanded_batch,), "constant_of_shape": (filled_by_expand,)}
        return sweep(graph, context, rules)


def unexpanded(node: Node, edit: Edit) -> list[Value] | None:
    """add(x: [2, 4], expand(m: [4], [2, 4])) -> add(x, m)"""
    if node.output.shape is None:
        return None
    for index, value in enumerate(node.inputs):
        expand = produced_by(value, "expand")
        if expand is None:
            continue
        inputs = list(node.inputs)
        inputs[index] = expand.inputs[0]
        if equal_shapes(_common(inputs), node.output.shape):
            return edit.again(inputs)
    return None


def unexpanded_batch(node: Node, edit: Edit) -> list[Value] | None:
    """matmul(x: [8, 2, 4], expand(w: [4, 3], [8, 4, 3])) -> matmul(x, w)"""
    for index in (0, 1):
        expand = produced_by(node.inputs[index], "expand")
        side = "ab"[index]
        if expand is None or node.output.shape is None or node.attrs.get(f"{side}_perm") is not None:
            continue
        small, large = expand.operand(0), expand.output
        if small.shape is None or large.shape is None or len(small.shape) < 2:
            continue
        if not equal_shapes(small.shape[-2:], large.shape[-2:]):
            continue
        inputs = list(node.inputs)
        inputs[index] = small
        other = node.operand(1 - index)
        if other.shape is None or node.attrs.get(f"{'ba'[index]}_perm") is not None or len(other.shape) < 2:
            continue
        batch = certain_broadcast(large.static_shape[:-2], other.static_shape[:-2])
        if equal_shapes(certain_broadcast(small.static_shape[:-2], other.static_shape[:-2]), batch):
            return edit.again(inputs)
    return None


def filled_by_expand(node: Node, edit: Edit) -> Value | None:
    """constant_of_shape(s) value=[7] -> expand(7, s), which a kernel does and readers that broadcast need not have."""
    if node.output.shape is None:
        return None
    return edit.add("expand", [edit.constant(node.attrs["value"].reshape(())), node.inputs[0]])


def _common(values: list[Value | None]) -> StaticShape | None:
    return certain_broadcast(*(value.static_shape for value in values if value is not None and value.shape is not None))


class _Shrinking:
    """The rule that shrinks constants, and what it found of each constant in this sweep."""

    def __init__(self) -> None:
        self.smaller: dict[int, np.ndarray | None] = {}

    def rule(self, node: Node, edit: Edit) -> list[Value] | None:
        """add(x: [2, 3], [[7, 7, 7], [7, 7, 7]]) -> add(x, [[7]])"""
        shape = node.output.shape
        if shape is None:
            return None
        for index, value in enumerate(node.inputs):
            if value is None or value.data is None or value.data.size < 2 or value.data.dtype == object:
                continue
            if value.data.size > _EXAMINED_ELEMENTS:
                continue
            others = [*node.inputs[:index], *node.inputs[index + 1 :]]
            if not equal_shapes(_common(others), shape):
                continue
            if id(value.data) not in self.smaller:
                self.smaller[id(value.data)] = _without_repetition(value.data)
            smaller = self.smaller[id(value.data)]
            if smaller is not None:
                inputs = list(node.inputs)
                inputs[index] = edit.constant(smaller, name=value.name)
                return edit.again(inputs)
        return None


def _without_repetition(data: np.ndarray) -> np.ndarray | None:
    """`data` with each axis along which it repeats cut to size 1; None if it repeats along none."""
    start = data
    for axis in range(data.ndim):
        if data.shape[axis] > 1:
            first = data.take([0], axis)
            if bool((data == first).all()):
                data = np.asarray(first, order="C")
    return None if data is start else data
