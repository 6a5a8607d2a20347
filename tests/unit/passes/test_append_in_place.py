"""Outputs that grow in the memory of the inputs that they append to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from treadle.codegen.target import detect
from treadle.dtypes import f32
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.passes.append_in_place import Appended, append_in_place, appended_pairs
from treadle.passes.base import PassContext
from treadle.passes.make_plan import make_plan
from treadle.passes.pipeline import optimize
from treadle.passes.specialize import specialize_open


def appends(change: Callable[[Graph, Value, Value], None] | None = None, axis: int = -2) -> Graph:
    """present = past and then x * 2 along `axis`, and y = exp(present)."""
    graph = Graph("appends")
    x = graph.input("x", f32, ("batch", 3, "new", 8))
    past = graph.input("past", f32, ("batch", 3, "past", 8))
    new = graph.add("mul", [x, graph.constant(np.float32(2))], name="new").output
    present = graph.add("concat", [past, new], {"axis": axis}, name="join", outputs=[graph.value("present")]).output
    y = graph.add("exp", [present], outputs=[graph.value("y")]).output
    graph.outputs = [present, y]
    if change is not None:
        change(graph, past, present)
    return graph


def behind_identities(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs[0] = graph.add("identity", [present], outputs=[graph.value("renamed")]).output


def with_sizes(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(graph.add("shape", [past]).output)


@pytest.mark.parametrize("change", [None, behind_identities, with_sizes])
def test_the_concatenation_writes_new_elements_only(change: Callable[[Graph, Value, Value], None] | None) -> None:
    """No call reads the past or copies it; the axis that grows comes first in the input and output."""
    graph = appends(change)
    (pair,) = appended_pairs(graph)
    assert pair == Appended("past", graph.outputs[0].name, 2)
    changed = append_in_place(graph, {"past": pair})
    verify(changed)
    assert [value.name for value in changed.inputs] == ["x", "past"]
    assert [value.name for value in changed.outputs] == [value.name for value in graph.outputs]
    assert changed.inputs[1].shape == ("past", "batch", 3, 8)
    assert graph.inputs[1].shape == ("batch", 3, "past", 8)

    opened = specialize_open(changed, Facts(), {})
    optimize(opened, PassContext(detect()))
    past = opened.inputs[1]
    plan = make_plan(opened, detect(), "fast")
    assert [port.is_given for port in plan.outputs][:2] == [True, False]
    assert not any(past in (*call.reads, *call.writes) for call in plan.calls)


def read_by_another(graph: Graph, past: Value, present: Value) -> None:
    graph.add("exp", [past])


def twice(graph: Graph, past: Value, present: Value) -> None:
    assert present.producer is not None
    graph.set_input(present.producer, 1, past)


def twice_by_another_name(graph: Graph, past: Value, present: Value) -> None:
    node = present.producer
    assert node is not None
    same = graph.add("identity", [past]).output
    graph.rebuild([graph.nodes[-1], *graph.nodes[:-1]])
    graph.set_input(node, 1, same)


def an_output_twice(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(present)


def in_front(graph: Graph, past: Value, present: Value) -> None:
    node = present.producer
    assert node is not None
    new = node.inputs[1]
    graph.set_input(node, 1, past)
    graph.set_input(node, 0, new)


@pytest.mark.parametrize("change", [read_by_another, twice, twice_by_another_name, an_output_twice, in_front])
def test_other_uses_of_the_past_are_not_appending(change: Callable[[Graph, Value, Value], None]) -> None:
    """All elements of the past are read where it was, or move."""
    assert appended_pairs(appends(change)) == []
