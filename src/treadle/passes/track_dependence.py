"""Answers "does this value depend on that node?" while nodes are being fused."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.value import Value


class Dependence:
    """Which of the `watched` nodes of a graph each node depends on, directly or not: one bit each."""

    def __init__(self, graph: Graph, watched: Iterable[Node]) -> None:
        self.bit = {node: 1 << i for i, node in enumerate(watched)}
        self.before: dict[Node, int] = {}
        for node in graph.nodes:
            self.before[node] = self.of_values(node.inputs)

    def of_value(self, value: Value) -> int:
        """The bits of the watched nodes that `value` depends on, its producer included."""
        node = value.producer
        return 0 if node is None else self.before[node] | self.bit.get(node, 0)

    def of_values(self, values: Iterable[Value | None]) -> int:
        """The bits of the watched nodes that any of `values` depends on."""
        bits = 0
        for value in values:
            if value is not None:
                bits |= self.of_value(value)
        return bits
