"""Orders of nodes: topological order, and what outputs depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from treadle.errors import GraphError
from treadle.graph.node import Node
from treadle.graph.value import Value


def operands_made_by(node: Node) -> Iterator[Node]:
    """The nodes that make the operands of `node`, once for each operand."""
    for value in node.inputs:
        if value is not None and value.producer is not None:
            yield value.producer


def topological(nodes: Sequence[Node]) -> list[Node]:
    """`nodes` in an order in which every node follows those whose results it reads.

    Stable: a node moves only as far as it must. Producers outside `nodes` do not count. Raises
    GraphError naming the nodes of a cycle.
    """
    inside = set(nodes)
    ordered: list[Node] = []
    done: set[Node] = set()
    open_: dict[Node, None] = {}
    for root in nodes:
        stack = [] if root in done else [(root, operands_made_by(root))]
        open_.update((node, None) for node, _ in stack)
        while stack:
            node, waiting = stack[-1]
            producer = next((p for p in waiting if p in inside and p not in done), None)
            if producer is None:
                stack.pop()
                open_.pop(node)
                done.add(node)
                ordered.append(node)
            elif producer in open_:
                raise GraphError(_cycle_text([n for n, _ in stack], producer))
            else:
                open_[producer] = None
                stack.append((producer, operands_made_by(producer)))
    return ordered


def _cycle_text(path: list[Node], closing: Node) -> str:
    cycle = path[path.index(closing) :]
    names = " <- ".join(f"{node.name!r} ({node.op})" for node in (*cycle, closing))
    return f"the graph has a cycle, each node reading the next: {names}"


def needed(outputs: Iterable[Value]) -> set[Node]:
    """The nodes on which `outputs` depend, directly or through others."""
    waiting = [value.producer for value in outputs if value.producer is not None]
    found = set(waiting)
    while waiting:
        for producer in operands_made_by(waiting.pop()):
            if producer not in found:
                found.add(producer)
                waiting.append(producer)
    return found
