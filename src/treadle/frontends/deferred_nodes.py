"""Core nodes that a front end makes once shapes are known that depend on data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Unsupported
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.deferred import Build, DeferredNodes
from treadle.ops.op import Array, Info
from treadle.records import dataclass


class NeedsShapeError(Unsupported):
    """A rule needs a shape, or the elements of `values`, that are not known yet."""

    def __init__(
        self, *values: Value, what: str = "it reads the shape of a tensor whose shape depends on data"
    ) -> None:
        super().__init__(what)
        self.values = values

    @property
    def value(self) -> Value | None:
        """The first of `values`."""
        return self.values[0] if self.values else None


class AddsNodes(Protocol):
    """Adds core nodes to `graph`, each called `name`."""

    graph: Graph
    name: str

    def known(self, array: Array, dtype: DType) -> Value:
        """Add a constant for an array of numbers, a node for one with expressions of sizes."""
        ...

    def add_many(self, op: str, inputs: Sequence[Value | None], outputs: int, **attrs: Any) -> list[Value]:
        """Add a node and return its results."""
        ...


def add_deferred(e: AddsNodes, values: Sequence[Value], nodes: DeferredNodes) -> list[Value]:
    """Add what is made of `nodes` once the shapes of `values` are known, and return its results."""
    return e.add_many("deferred", values, len(nodes.dtypes), nodes=nodes)


def given(e: AddsNodes, name: str, info: Info) -> Value:
    """Add an input of which this is known, and return it, or its elements if these are known."""
    value = e.graph.input(name, info.dtype, info.shape or ())
    e.name = name
    return value if info.value is None else e.known(info.value, info.dtype)


def later_body(name: str, values: Sequence[Value], nodes: DeferredNodes) -> Graph:
    """Return a body with an input for each of `values`, made of `nodes` once it is known which shapes these have."""
    graph = Graph(name)
    graph.inputs.extend(Value(graph.unique_name(value.name), value.dtype) for value in values)
    node = graph.add("deferred", graph.inputs, {"nodes": nodes}, name=name, outputs=len(nodes.dtypes))
    for value, dtype in zip(node.outputs, nodes.dtypes, strict=True):
        value.dtype = dtype
    graph.outputs = node.outputs
    return graph


@dataclass(frozen=True, slots=True)
class LaterLoop:
    """A loop whose `body` is made of `nodes` once the shapes of an iteration are known.

    `order` are the places of the operands of `nodes`, first those of the `carried` values, which an iteration changes.
    """

    body: Graph
    nodes: DeferredNodes
    order: tuple[int, ...]
    carried: int

    @classmethod
    def of(cls, name: str, values: Sequence[Value], changed: Sequence[int], build: Build) -> LaterLoop:
        """Return a loop of `values`, of which those at the places `changed` change.

        `build` makes, of all of them, the changed ones and whether there is another iteration.
        """
        nodes = DeferredNodes(build, [*(values[place].known_dtype for place in changed), dtypes.boolean])
        body = later_body(name, values, nodes)
        *made, again = body.outputs
        order = (*changed, *(place for place in range(len(values)) if place not in changed))
        number = Value(body.unique_name("iteration"), dtypes.i64, ())
        body.inputs, body.outputs = [number, *(body.inputs[place] for place in order)], [again, *made]
        return cls(body, nodes, order, len(changed))

    def step(self, infos: Sequence[Info]) -> Graph | None:
        """Return the nodes of an iteration, not to be changed; None while not all is known of the values before it.

        Raises ShapeError if they do not fit.
        """
        changed = self.order[: self.carried]
        return self.nodes.graph([replace(i, value=None) if at in changed else i for at, i in enumerate(infos)])

    def add(self, e: AddsNodes, limit: Value | None, condition: Value, values: Sequence[Value]) -> list[Value]:
        """Add the loop and return what it has changed."""
        operands = [limit, condition, *(values[place] for place in self.order)]
        attrs = {"body": self.body, "carried": self.carried, "sliced": 0, "padded": False}
        return e.add_many("loop", operands, self.carried + 1, **attrs)[: self.carried]
