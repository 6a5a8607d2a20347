"""Patches: changes to a graph, collected first and applied at once.

A pass that walks a graph must not change it under its own feet: it records what it wants in a Patch
and applies that when the walk is over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from weft.errors import GraphError
from weft.graph.graph import Graph, link, unlink
from weft.graph.node import Node
from weft.graph.order import topological
from weft.graph.value import Value


class Patch:
    """Insertions, replacements and removals for one graph; the graph stays as it is until `apply`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._forget()

    def _forget(self) -> None:
        self._before: defaultdict[Node, list[Node]] = defaultdict(list)
        self._after: defaultdict[Node, list[Node]] = defaultdict(list)
        self._first: list[Node] = []
        self._values: dict[Value, Value] = {}
        self._operands: dict[tuple[Node, int], Value | None] = {}
        self._removed: dict[Node, None] = {}

    def __bool__(self) -> bool:
        """Whether the patch changes anything."""
        return bool(self._before or self._after or self._first or self._values or self._operands or self._removed)

    def make(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any] | None = None,
        *,
        name: str = "",
        outputs: Sequence[Value] | int = 1,
    ) -> Node:
        """A new node, to be placed by one of the insertions."""
        return self.graph.make(op, inputs, attrs, name=name, outputs=outputs)

    def insert_before(self, anchor: Node, *nodes: Node) -> None:
        """Place `nodes`, in order, right before `anchor`, behind what was put there earlier."""
        self._before[anchor].extend(nodes)

    def insert_after(self, anchor: Node, *nodes: Node) -> None:
        """Place `nodes`, in order, right after `anchor`, behind what was put there earlier."""
        self._after[anchor].extend(nodes)

    def insert_first(self, *nodes: Node) -> None:
        """Place `nodes`, in order, before all others."""
        self._first.extend(nodes)

    def replace(self, old: Value, new: Value) -> None:
        """Let every reader of `old` that the graph has now, and the graph's outputs, read `new`.

        Inserted nodes keep reading `old`: they were made to.
        """
        self._values[old] = new

    def set_input(self, node: Node, index: int, value: Value | None) -> None:
        """Let `node` read `value` as operand `index`; this goes before any `replace`."""
        self._operands[node, index] = value

    def remove(self, *nodes: Node) -> None:
        """Take `nodes` out. What reads their results then must be replaced, removed or rewired too."""
        self._removed.update(dict.fromkeys(nodes))

    def apply(self) -> bool:
        """Change the graph, put its nodes in topological order if need be, and forget the changes.

        Returns whether anything changed. Raises GraphError, before it changes anything, if a result of
        a removed node would still be read; afterwards for a cycle.
        """
        if not self:
            return False
        self._refuse_orphans()
        graph = self.graph
        old_nodes = [node for node in graph.nodes if node not in self._removed]
        for node in self._removed:
            unlink(node)
        for node in old_nodes:
            for index in range(len(node.inputs)):
                wanted = self._operand(node, index)
                if wanted is not node.inputs[index]:
                    graph.set_input(node, index, wanted)
        graph.outputs = [self._final(value) for value in graph.outputs]
        placed = list(self._first)
        for node in graph.nodes:
            placed.extend(self._before.get(node, ()))
            if node not in self._removed:
                placed.append(node)
            placed.extend(self._after.get(node, ()))
        for node in self._inserted():
            link(node)
        graph.nodes = topological(placed)
        self._forget()
        return True

    def _inserted(self) -> list[Node]:
        groups = (self._first, *self._before.values(), *self._after.values())
        return [node for group in groups for node in group]

    def _final(self, value: Value) -> Value:
        seen = {value}
        while value in self._values:
            value = self._values[value]
            if value in seen:
                raise GraphError(f"the patch replaces %{value.name} by itself, over other values")
            seen.add(value)
        return value

    def _operand(self, node: Node, index: int) -> Value | None:
        if (node, index) in self._operands:
            return self._operands[node, index]
        value = node.inputs[index]
        return None if value is None else self._final(value)

    def _refuse_orphans(self) -> None:
        known = set(self.graph.nodes)
        for anchor in (*self._before, *self._after, *self._removed):
            if anchor not in known:
                raise GraphError(f"the patch names node {anchor.name!r} ({anchor.op}), which is not in the graph")
        kept = [node for node in self.graph.nodes if node not in self._removed]
        reads = [(node, self._operand(node, index)) for node in kept for index in range(len(node.inputs))]
        reads += [(node, value) for node in self._inserted() for value in node.inputs]
        for node, value in reads:
            if value is not None and value.producer in self._removed and not self._made_anew(value):
                raise GraphError(f"the patch removes the maker of %{value.name}, which {node.name!r} ({node.op}) reads")
        for value in self.graph.outputs:
            final = self._final(value)
            if final.producer in self._removed and not self._made_anew(final):
                raise GraphError(f"the patch removes the maker of %{final.name}, an output of the graph")

    def _made_anew(self, value: Value) -> bool:
        return any(value is result for node in self._inserted() for result in node.outputs)
