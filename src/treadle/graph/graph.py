"""Graphs: inputs, outputs and nodes in topological order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from treadle.dtypes import DType
from treadle.graph.node import Node
from treadle.graph.object_result import ObjectResult
from treadle.graph.outputs import Outputs
from treadle.graph.shape import Shape
from treadle.graph.value import Value


class NodeParts(TypedDict, total=False):
    """The keyword arguments of `Graph.make` and `Graph.add`."""

    name: str
    outputs: Sequence[Value] | int


class Graph:
    """A dataflow graph in single-assignment form.

    `nodes` stand in an order in which every operand precedes its users. Value names are unique.
    Constants are values with data; they belong to the graph through the nodes that read them. `files` are those
    beside the model's own that constants were read from. `results` is what a run
    returns, if that is more than the outputs: names of outputs, and objects that are made from outputs.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self._outputs = Outputs()
        self.nodes: list[Node] = []
        self.files: list[str] = []
        self.results: list[str | ObjectResult] = []
        self._names: dict[str, int] = {}

    @property
    def outputs(self) -> Outputs:
        """The results, in order; a value may be several of them."""
        return self._outputs

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        self._outputs = Outputs(values)

    def unique_name(self, wanted: str) -> str:
        """`wanted`, or `wanted.1`, `wanted.2`, ... : the first that no value of this graph has; now taken."""
        name = wanted = wanted or "value"
        count = self._names.get(wanted, 0)
        while name in self._names:
            count += 1
            name = f"{wanted}.{count}"
        self._names[name] = 0
        self._names[wanted] = count  # the last number tried, so that naming many values alike stays linear
        return name

    def input(self, name: str, dtype: DType, shape: Shape) -> Value:
        """Add an input and return it."""
        value = Value(self.unique_name(name), dtype, shape)
        self.inputs.append(value)
        return value

    def constant(self, data: np.ndarray[Any, Any], name: str = "constant") -> Value:
        """A new constant holding `data`."""
        return Value.constant(self.unique_name(name), data)

    def value(self, name: str = "value", dtype: DType | None = None, shape: Shape | None = None) -> Value:
        """A new value for a node to produce."""
        return Value(self.unique_name(name), dtype, shape)

    def make(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any] | None = None,
        *,
        name: str = "",
        outputs: Sequence[Value] | int = 1,
    ) -> Node:
        """Returns a node that is not part of the graph yet: `add` appends it, or the caller inserts it into `nodes` and
        links it."""
        results = (
            [self.value(f"{name or op}" if i == 0 else f"{name or op}:{i}") for i in range(outputs)]
            if isinstance(outputs, int)
            else list(outputs)
        )
        return Node(op, inputs, results, dict(attrs or {}), name or op)

    def add(
        self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any] | None = None, **parts: Unpack[NodeParts]
    ) -> Node:
        """Make a node as `make` does, append it, link it to its operands, and return it."""
        node = self.make(op, inputs, attrs, **parts)
        self.nodes.append(node)
        link(node)
        return node

    def set_input(self, node: Node, index: int, value: Value | None) -> None:
        """Let `node` read `value` as operand `index`."""
        old = node.inputs[index]
        if old is not None:
            old.users.remove(node)
        node.inputs[index] = value
        if value is not None:
            value.users.append(node)

    def replace_uses(self, old: Value, new: Value) -> None:
        """Let everything that reads `old`, graph outputs included, read `new`."""
        for node in list(dict.fromkeys(old.users)):
            for index, value in enumerate(node.inputs):
                if value is old:
                    self.set_input(node, index, new)
        self.outputs.replace(old, new)

    def rebuild(self, nodes: Iterable[Node]) -> None:
        """Makes `nodes` the graph's nodes, in that order, and rebuilds all links."""
        for node in self.nodes:
            unlink(node)
        self.nodes = list(nodes)
        for node in self.nodes:
            unlink(node)
        for node in self.nodes:
            link(node)

    def dissolve(self) -> None:
        """Removes all links between nodes and values, so that what only the graph held, such as unpacked weights, is
        freed."""
        for node in self.nodes:
            for value in (*node.inputs, *node.outputs):
                if value is not None:
                    value.users.clear()
                    value.producer = None
            node.inputs.clear()
        self.nodes.clear()

    def drop_unread(self, droppable: Callable[[Node], bool] = lambda _: True) -> bool:
        """Removes the nodes for which `droppable` holds and whose results nothing reads; True if there were any.

        Nodes that only removed nodes read are removed too.
        """
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if not droppable(node) or any(value.users or self.is_output(value) for value in node.outputs):
                kept.append(node)
            else:
                unlink(node)
        dropped = len(kept) < len(self.nodes)
        if dropped:
            self.nodes = kept[::-1]
        return dropped

    def constants(self) -> Iterator[Value]:
        """Each constant that a node or an output reads, once."""
        seen: set[int] = set()
        operands = (value for node in self.nodes for value in node.inputs)
        for value in (*operands, *self.outputs):
            if value is not None and value.is_constant and id(value) not in seen:
                seen.add(id(value))
                yield value

    def is_output(self, value: Value) -> bool:
        """Whether `value` is one of the graph's outputs."""
        return value in self.outputs

    def has_one_use(self, value: Value) -> bool:
        """Whether `value` is read exactly once, and is no output of the graph."""
        return len(value.users) == 1 and not self.is_output(value)


def link(node: Node) -> None:
    """Register `node` with its operands and results."""
    for value in node.inputs:
        if value is not None:
            value.users.append(node)
    for value in node.outputs:
        value.producer = node


def unlink(node: Node) -> None:
    """Take `node` out of its operands' users."""
    for value in node.inputs:
        if value is not None and node in value.users:
            value.users.remove(node)


def all_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of `graph`, each followed by those of the graphs in its attributes: the bodies of a branch."""
    for node in graph.nodes:
        yield node
        for attr in node.attrs.values():
            if isinstance(attr, Graph):
                yield from all_nodes(attr)
