"""Verification: what must hold of every graph, checked between passes and at both ends of the pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from treadle import dtypes
from treadle.errors import GraphError
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import is_static
from treadle.graph.value import Value

Arity = Callable[[str], tuple[int, int | None] | None]
"""(fewest, most) operands of an op, most None for any number; None for an op that does not exist."""


def verify(graph: Graph, arity: Arity | None = None, *, typed: bool = False) -> None:
    """Raise GraphError, listing every fault, unless `graph` keeps the invariants of the IR.

    With `arity` ops must exist and have a possible number of operands; with `typed` every value must
    have a dtype and a static shape.
    """
    values = _values(graph)
    faults = [
        *_input_faults(graph),
        *_order_faults(graph),
        *_use_faults(graph, values),
        *_name_faults(values),
        *(fault for value in values for fault in _value_faults(value, typed=typed)),
        *(fault for node in graph.nodes for fault in _node_faults(node, arity)),
    ]
    if faults:
        count = "1 invariant is" if len(faults) == 1 else f"{len(faults)} invariants are"
        raise GraphError("\n".join([f"graph {graph.name!r}: {count} broken", *(f"  - {fault}" for fault in faults)]))


def _values(graph: Graph) -> list[Value]:
    """Every value of the graph, once, in the order of first appearance."""
    found: dict[Value | None, None] = dict.fromkeys(graph.inputs)
    for node in graph.nodes:
        found.update(dict.fromkeys(node.inputs))
        found.update(dict.fromkeys(node.outputs))
    found.update(dict.fromkeys(graph.outputs))
    return [value for value in found if value is not None]


def _input_faults(graph: Graph) -> Iterator[str]:
    for value, count in Counter(graph.inputs).items():
        if count > 1:
            yield f"input %{value.name} is listed {count} times"
        if value.producer is not None:
            yield f"input %{value.name} is made by {value.producer.place}; inputs have no maker"
        if value.data is not None:
            yield f"input %{value.name} holds data; constants are no inputs"


def _order_faults(graph: Graph) -> Iterator[str]:
    """Each value is made once, before it is read."""
    defined = set(graph.inputs)
    made_somewhere = {value for node in graph.nodes for value in node.outputs}
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and not value.is_constant and value not in defined:
                fault = " before it is made" if value in made_somewhere else ", which nothing makes"
                yield f"{node.place} reads %{value.name} (operand {index}){fault}"
        for value in node.outputs:
            yield from _result_faults(node, value, made_before=value in defined)
            defined.add(value)
    for value in graph.outputs:
        if not value.is_constant and value not in defined:
            yield f"output %{value.name} is made by nothing"


def _result_faults(node: Node, value: Value, *, made_before: bool) -> Iterator[str]:
    if made_before:
        yield f"{node.place} makes %{value.name}, which is made already"
    if value.producer is not node:
        maker = "nothing" if value.producer is None else value.producer.place
        yield f"%{value.name} is a result of {node.place}, but says that {maker} makes it"
    if value.data is not None:
        yield f"%{value.name} is a result of {node.place} and holds data; only constants do"


def _use_faults(graph: Graph, values: Sequence[Value]) -> Iterator[str]:
    """Users are exactly the nodes that read the value, once for each reading."""
    readers: dict[Value, dict[Node, int]] = {value: {} for value in values}
    for node in graph.nodes:
        for operand in node.inputs:
            if operand is not None:
                counts = readers[operand]
                counts[node] = counts.get(node, 0) + 1
    for value, counts in readers.items():
        listed = value.users.counts
        if listed == counts:
            continue
        for node in counts.keys() | listed.keys():
            if counts.get(node, 0) != listed.get(node, 0):
                yield (
                    f"%{value.name} lists {node.place} {listed.get(node, 0)} times as its user, "
                    f"which reads it {counts.get(node, 0)} times"
                )


def _name_faults(values: Sequence[Value]) -> Iterator[str]:
    for name, count in Counter([value.name for value in values]).items():
        if count > 1:
            yield f"{count} values are called %{name}"
        if not name:
            yield "a value has an empty name"


def _value_faults(value: Value, *, typed: bool) -> Iterator[str]:
    if value.shape is not None and any(not isinstance(dim, str) and dim < 0 for dim in value.shape):
        yield f"%{value.name} has a negative dimension: {list(value.shape)}"
    if value.data is not None:
        held = dtypes.from_numpy(value.data.dtype)
        if value.dtype != held or value.shape != value.data.shape:
            yield f"constant %{value.name} is declared {value!r}, but holds {held}{list(value.data.shape)}"
    if value.layout is not None and value.shape is not None and len(value.shape) < 2:
        yield f"%{value.name} of rank {len(value.shape)} has layout {value.layout}, which needs a channel axis"
    if typed and value.dtype is None:
        yield f"%{value.name} has no dtype"
    if typed and (value.shape is None or not is_static(value.shape)):
        yield f"%{value.name} has no static shape: {value.shape}"


def _node_faults(node: Node, arity: Arity | None) -> Iterator[str]:
    if not node.outputs:
        yield f"{node.place} has no results"
    if arity is None:
        return
    allowed = arity(node.op)
    if allowed is None:
        yield f"{node.place}: no core op is called {node.op!r}"
        return
    fewest, most = allowed
    if len(node.inputs) < fewest or (most is not None and len(node.inputs) > most):
        wanted = f"{fewest} or more" if most is None else f"{fewest}" if most == fewest else f"{fewest} to {most}"
        yield f"{node.place} takes {wanted} operands, got {len(node.inputs)}"
