"""Core nodes that a front end makes once shapes are known that depend on data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.frontends.faults import Unsupported
from treadle.graph.graph import Graph, link, unlink
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

    `order` are the places of the values that the loop takes, first those of the `carried` values, which an iteration
    changes. The others of its values are counters: the number of the iteration says what they are.
    """

    body: Graph
    nodes: DeferredNodes
    order: tuple[int, ...]
    carried: int

    @classmethod
    def of(
        cls,
        name: str,
        values: Sequence[Value],
        changed: Sequence[int],
        build: Build,
        *,
        appended: Collection[int] = (),
        counters: Mapping[int, int] | None = None,
    ) -> LaterLoop:
        """Return a loop of `values`, of which those at the places `changed` change.

        Args:
            name: The name of its nodes.
            values: What the loop begins with.
            changed: The places of those that change.
            build: Makes, of all values, the changed ones and whether there is another iteration.
            appended: The places of changed values of which it makes what an iteration appends, along the first axis.
            counters: The places of further values that change, as each iteration adds 1: what they begin with.
        """
        counters = counters or {}
        slots = {slot: place for slot, place in enumerate(changed) if place in appended}
        nodes = DeferredNodes(build, [*(values[place].known_dtype for place in changed), dtypes.boolean])
        body = later_body(name, values, nodes)
        given, (node,) = list(body.inputs), body.nodes
        *made, again = body.outputs
        for slot, place in slots.items():
            made[slot] = body.add("concat", [given[place], made[slot]], {"axis": 0}, name=name).output
            made[slot].dtype = values[place].dtype
        order = (*changed, *(each for each in range(len(values)) if each not in changed and each not in counters))
        number = Value(body.unique_name("iteration"), dtypes.i64, ())
        for place, first in counters.items():
            counter = _counter(body, number, first, values[place].known_dtype)
            unlink(node)
            node.inputs[place] = counter
            link(node)
        joins = 1 + len(slots)
        body.nodes = [*body.nodes[joins:], *body.nodes[:joins]]  # the counters are there before what reads them
        body.inputs, body.outputs = [number, *(given[place] for place in order)], [again, *made]
        return cls(body, nodes, order, len(changed))

    def step(self, infos: Sequence[Info]) -> Graph | None:
        """Return the nodes of an iteration, not to be changed; None while not all is known of the values before it.

        Raises ShapeError if they do not fit.
        """
        kept = self.order[self.carried :]
        return self.nodes.graph([info if at in kept else replace(info, value=None) for at, info in enumerate(infos)])

    def add(
        self, e: AddsNodes, limit: Value | None, condition: Value, values: Sequence[Value]
    ) -> tuple[list[Value], Value]:
        """Add the loop and return what it has changed, and how many iterations it has made."""
        operands = [limit, condition, *(values[place] for place in self.order)]
        attrs = {"body": self.body, "carried": self.carried, "sliced": 0, "padded": False}
        found = e.add_many("loop", operands, self.carried + 1, **attrs)
        return found[: self.carried], found[-1]


def _counter(body: Graph, number: Value, first: int, dtype: DType) -> Value:
    """Add what `first` is after as many additions of 1 as `number` says."""
    made = [body.add("add", [number, body.constant(np.array(first), "first")], {}, name="counter").output]
    made[0].dtype, made[0].shape = dtypes.i64, ()
    if dtype != dtypes.i64:
        made.append(body.add("cast", made, {"to": dtype}, name="counter").output)
        made[1].dtype, made[1].shape = dtype, ()
    return made[-1]
