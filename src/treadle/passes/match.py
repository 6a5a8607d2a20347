"""Building blocks of rewrite rules: guards on nodes and values, and the sweep that applies rules.

A rule takes a node and an Edit, tests its guards, and returns the values that replace the node's
results, or None if a guard failed. It never touches the graph itself: new nodes go through the Edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.graph.graph import Graph, link, unlink
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes, may_be_empty
from treadle.graph.value import Value
from treadle.ops.sizes import add_sizes
from treadle.passes.base import Math, PassContext
from treadle.passes.infer_shapes import infer_into

Array = np.ndarray[Any, Any]


class Edit:
    """New nodes that stand for `node`, collected until the rule is known to succeed."""

    def __init__(self, graph: Graph, node: Node, context: PassContext) -> None:
        self.graph = graph
        self.node = node
        self.nodes: list[Node] = []
        self.math: Math = context.math
        self.target = context.target

    def add(
        self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any] | None = None, name: str = ""
    ) -> Value:
        """The single result of a new node, its dtype and shape inferred; named after the replaced node."""
        made = self.graph.make(op, inputs, attrs, name=name or self.node.name)
        infer_into(made)
        self.nodes.append(made)
        return made.output

    def again(self, inputs: Sequence[Value | None], attrs: dict[str, Any] | None = None) -> list[Value]:
        """The results of a copy of the replaced node with other inputs, and other attributes if given."""
        node = self.node
        made = self.graph.make(
            node.op, inputs, dict(node.attrs if attrs is None else attrs), name=node.name, outputs=len(node.outputs)
        )
        infer_into(made)
        self.nodes.append(made)
        return made.outputs

    def constant(self, data: Array | float, like: Value | None = None, name: str = "") -> Value:
        """A new constant; a plain number takes the dtype of `like`."""
        array = np.asarray(data) if like is None else np.asarray(data, dtype=like.known_dtype.numpy)
        return self.graph.constant(array, name or f"{self.node.name}.constant")

    def sizes(self, sizes: StaticShape, name: str = "") -> Value:
        """A vector of i64: a constant, or the result of a `sizes` node where one of `sizes` is an expression."""
        elements = np.empty(len(sizes), object)
        elements[:] = sizes
        made = add_sizes(self.graph, elements, dtypes.i64, name or f"{self.node.name}.shape")
        if isinstance(made, Value):
            return made
        made.output.producer = made  # now, so that shapes that depend on the sizes can be inferred
        self.nodes.append(made)
        return made.output

    def reshape(self, source: Value, shape: StaticShape, name: str = "") -> Value:
        """`source` in another shape; `source` itself if it has that shape already."""
        if equal_shapes(source.shape, shape):
            return source
        return self.add("reshape", [source, self.sizes(shape, name)], {"allowzero": may_be_empty(shape)})


Rule = Callable[[Node, Edit], Value | Sequence[Value] | None]
Rules = Mapping[str, Sequence[Rule]]


def sweep(graph: Graph, context: PassContext, rules: Rules) -> bool:
    """Try `rules` (by op) on every node once, in order, and drop what died; True if anything changed.

    A replaced graph output keeps its name where its replacement is not an input or output itself.
    """
    kept: list[Node] = []
    changed = False
    for node in graph.nodes:
        tried = rules.get(node.op)
        edit, results = _first_match(graph, context, node, tried) if tried else (None, None)
        if results is None or edit is None:
            kept.append(node)
            continue
        for made in edit.nodes:
            link(made)
        for old, new in zip(node.outputs, results, strict=True):
            replace(graph, old, new)
        unlink(node)
        origins = [node, *_dying(graph, node)]
        for made in edit.nodes:
            made.take_over(origins)
        kept.extend(edit.nodes)
        changed = True
    if changed:
        graph.nodes = kept
        graph.drop_unread()
    return changed


def _dying(graph: Graph, replaced: Node) -> list[Node]:
    """The nodes that nothing depends on now that `replaced` no longer reads them."""
    dying: list[Node] = []
    gone = {replaced}
    reads = list(replaced.inputs)
    while reads:
        value = reads.pop()
        node = None if value is None else value.producer
        if node is None or node in gone:
            continue
        if any(graph.is_output(made) or not gone.issuperset(made.users) for made in node.outputs):
            continue
        gone.add(node)
        dying.append(node)
        reads.extend(node.inputs)
    return dying


def _first_match(
    graph: Graph, context: PassContext, node: Node, rules: Sequence[Rule]
) -> tuple[Edit | None, Sequence[Value] | None]:
    for rule in rules:
        edit = Edit(graph, node, context)
        results = rule(node, edit)
        if results is not None:
            return edit, [results] if isinstance(results, Value) else results
    return None, None


def replace(graph: Graph, old: Value, new: Value) -> None:
    """Let every reader of `old` read `new`; if `old` is an output of the graph, `new` takes its name if it can."""
    if graph.is_output(old) and not graph.is_output(new) and not any(new is value for value in graph.inputs):
        old.name, new.name = new.name, old.name
    graph.replace_uses(old, new)


def produced_by(value: Value | None, *ops: str) -> Node | None:
    """The node that makes `value` if its op is one of `ops`."""
    node = None if value is None else value.producer
    return node if node is not None and node.op in ops else None


def source(value: Value) -> Value:
    """What `value` is equal to, before any identity."""
    while (node := produced_by(value, "identity")) is not None:
        value = node.operand(0)
    return value


def number(value: Value | None) -> float | int | bool | None:
    """The number that a constant of one element holds, else None."""
    if value is None or value.data is None or value.data.size != 1 or value.data.dtype == object:
        return None
    return value.data.item()  # type: ignore[no-any-return]


def uniform(value: Value | None) -> float | int | bool | None:
    """The number that every element of a constant holds, else None."""
    if value is None or value.data is None or value.data.size == 0 or value.data.dtype == object:
        return None
    first = value.data.reshape(-1)[:1]
    if value.data.size > 1 and not bool((value.data == first).all()):
        return None
    return first[0].item()  # type: ignore[no-any-return]


def is_power_of_two(factor: float) -> bool:
    """Whether multiplying by 1 / `factor` rounds exactly as dividing by `factor` does (barring overflow)."""
    mantissa, exponent = np.frexp(abs(factor))
    return bool(mantissa == 0.5) and -100 < int(exponent) < 100


def join_names(nodes: Sequence[Node]) -> str:
    """The name of what `nodes` are fused into: their names joined with `+`, the epilogue counted beyond four."""
    parts = list(dict.fromkeys(part for node in nodes for part in node.name.split("+")))
    if len(parts) <= 4:
        return "+".join(parts)
    return "+".join([*parts[:3], f"{len(parts) - 3} more"])
