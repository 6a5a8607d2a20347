"""Inputs that stack several arrays that grow are taken apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.passes.append_in_place import Appended, appended_pairs
from treadle.passes.unstack_states import Stacked, stacked_pairs, unstack_states


def number(graph: Graph, *numbers: int) -> Value:
    return graph.constant(np.array(numbers if len(numbers) > 1 else numbers[0]))


def axes(graph: Graph, axis: int) -> Value:
    return graph.constant(np.array([axis]))


def stacked(order: tuple[int, int] = (0, 1), growing: tuple[int, int] = (-1, 1)) -> tuple[Graph, list[Value]]:
    """present[i] = past[order[i]] and then x, along `growing[i]`; also the selected parts."""
    graph = Graph("stacked")
    past = graph.input("past", f32, (2, 3, "past"))
    x = graph.input("x", f32, (3, "new"))
    parts = [graph.add("gather", [past, number(graph, index)], {"axis": 0}).output for index in order]
    grown = [graph.add("concat", [part, x], {"axis": axis}).output for part, axis in zip(parts, growing, strict=True)]
    wide = [graph.add("unsqueeze", [value, axes(graph, -3)]).output for value in grown]
    graph.outputs = [graph.add("concat", wide, {"axis": 0}, outputs=[graph.value("present")]).output]
    graph.outputs += [graph.add("exp", [value]).output for value in grown]
    return graph, parts


def test_parts_take_the_place_of_the_stack() -> None:
    """Each part is an input and an output that the graph appends to; nothing is left of the stack."""
    graph, _ = stacked()
    (pair,) = stacked_pairs(graph)
    assert pair == Stacked("past", "present", (0,), (2,), 2)
    changed = unstack_states(graph, [pair])
    verify(changed)
    assert [(value.name, value.shape) for value in changed.inputs] == [
        ("past[0]", (3, "past")),
        ("past[1]", (3, "past")),
        ("x", (3, "new")),
    ]
    assert [value.name for value in changed.outputs[:2]] == ["present[0]", "present[1]"]
    assert appended_pairs(changed) == [Appended(f"past[{i}]", f"present[{i}]", 1) for i in (0, 1)]
    assert {node.op for node in changed.nodes} == {"concat", "identity", "exp"}
    assert [value.name for value in graph.inputs] == ["past", "x"]


@pytest.mark.parametrize(("start", "wanted"), [(0, [2, 3, 5]), (1, [3, 5]), (-1, [5])])
def test_the_shape_of_the_stack_is_that_of_its_parts(start: int, wanted: list[int]) -> None:
    """It is put together from a part's shape and the sizes of the stack, so that nothing stacks elements."""
    graph, _ = stacked()
    graph.outputs.append(graph.add("shape", [graph.inputs[0]], {"start": start}, name="sizes").output)
    changed = unstack_states(graph, stacked_pairs(graph))
    verify(changed)
    assert [value.name for value in changed.outputs[-1:]] == ["sizes"]
    gathered = changed.outputs[-1].producer
    assert gathered is not None
    order = gathered.operand(1).data
    assert order is not None
    sizes = np.array([3, 5, 2])  # of a part with 5 kept, and of the stack
    assert sizes[order].tolist() == wanted
    assert not any(node.op == "unsqueeze" for node in changed.nodes)


def test_other_readers_of_sizes_get_a_stack() -> None:
    """The number of all elements is read of one that is made of the parts."""
    graph, _ = stacked()
    graph.outputs.append(graph.add("size", [graph.inputs[0]], name="count").output)
    changed = unstack_states(graph, stacked_pairs(graph))
    verify(changed)
    assert [node.op for node in changed.nodes[:3]] == ["unsqueeze", "unsqueeze", "concat"]
    assert changed.nodes[2].output.name == "past"


def returned(graph: Graph, parts: list[Value]) -> None:
    graph.outputs.append(parts[0])


def read(graph: Graph, parts: list[Value]) -> None:
    graph.outputs.append(graph.add("exp", [parts[1]]).output)


def returned_twice(graph: Graph, parts: list[Value]) -> None:
    graph.outputs.append(graph.outputs[0])


@pytest.mark.parametrize("change", [returned, read, returned_twice])
def test_parts_that_are_used_otherwise_stay(change: Callable[[Graph, list[Value]], None]) -> None:
    """Their elements are read before new ones are appended, or the stack is wanted twice."""
    graph, parts = stacked()
    change(graph, parts)
    assert stacked_pairs(graph) == []


@pytest.mark.parametrize(("order", "growing"), [((1, 0), (1, 1)), ((0, 0), (1, 1)), ((0, 1), (0, 1))])
def test_stacks_of_other_parts_stay(order: tuple[int, int], growing: tuple[int, int]) -> None:
    """Parts change places, one is there twice, or they grow along different axes."""
    graph, _ = stacked(order, growing)
    assert stacked_pairs(graph) == []
