"""Which open dimensions of a graph's inputs may be 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.passes.appended_dims import appended_dims


def decoder(axis: int = 1) -> Graph:
    """Rows appended to those kept, and the number of those kept."""
    graph = Graph("decoder")
    past, new = graph.input("past", f32, ("batch", "kept", 8)), graph.input("new", f32, ("batch", "rows", 8))
    rows = graph.add("concat", [past, new], {"axis": axis}).output
    graph.outputs = [rows, graph.add("shape", [past], {}).output]
    return graph


@pytest.mark.parametrize("axis", [1, -2])
def test_a_dimension_along_which_inputs_are_concatenated_is_appended_to(axis: int) -> None:
    """All that is concatenated: what is kept, and what is new."""
    assert appended_dims(decoder(axis)) == {"kept", "rows"}


def test_another_axis_is_not() -> None:
    """Both inputs share the batch."""
    assert appended_dims(decoder(axis=0)) == {"batch"}


def test_a_dimension_that_another_node_reads_is_not() -> None:
    """One node that computes with its elements is enough, and so is another input of the same dimension."""
    graph = decoder()
    graph.add("exp", [graph.inputs[1]], {})
    assert appended_dims(graph) == {"kept"}

    bias = graph.input("bias", f32, ("kept",))
    graph.add("add", [bias, graph.constant(np.ones(1, np.float32))], {})
    assert appended_dims(graph) == set()


@pytest.mark.parametrize(
    ("op", "attrs", "axes"),
    [
        ("transpose", {"perm": [1, 0, 2]}, None),
        ("split", {"axis": 2, "parts": 1}, None),
        ("gather", {"axis": 0}, 1),
        ("gather", {"axis": 2}, [0]),
        ("unsqueeze", {}, [0]),
        ("squeeze", {}, [0]),
    ],
)
def test_an_axis_is_followed_to_where_it_is_appended_to(op: str, attrs: dict[str, Any], axes: Any) -> None:
    """Only the axis on which the result is concatenated is; of others the graph needs more."""
    graph = Graph("moved")
    first = 1 if op == "squeeze" else "a"
    past = graph.input("past", f32, (first, "b", 8))
    operands = [past] if axes is None else [past, graph.constant(np.array(axes))]
    moved = graph.add(op, operands, attrs).output
    place = {"transpose": 0, "split": 1, "unsqueeze": 2, "squeeze": 0}.get(op, 0 if attrs.get("axis") == 0 else 1)
    graph.add("concat", [moved, graph.constant(np.ones((1, 1, 8), np.float32))], {"axis": place})
    assert appended_dims(graph) == {"b"}


@pytest.mark.parametrize("axes", [[0], [-2], None])
def test_an_axis_is_followed_through_slices_of_others(axes: list[int] | None) -> None:
    """A slice of a stack has as many rows as the stack; the first axes are those that no operand names."""
    graph = Graph("sliced")
    past = graph.input("past", f32, (2, "b"))
    bounds = [graph.constant(np.array([each])) for each in (0, 1)]
    named = [] if axes is None else [graph.constant(np.array(axes))]
    first = graph.add("slice", [past, *bounds, *named]).output
    graph.add("concat", [first, graph.constant(np.ones((1, 3), np.float32))], {"axis": 1})
    assert appended_dims(graph) == {"b"}


def test_an_axis_that_is_cut_is_not() -> None:
    """The rows behind the first are those that are appended to."""
    graph = Graph("cut")
    past = graph.input("past", f32, ("b", 2))
    bounds = [graph.constant(np.array([each])) for each in (1, 9, 0)]
    rest = graph.add("slice", [past, *bounds]).output
    graph.add("concat", [rest, graph.constant(np.ones((1, 2), np.float32))], {"axis": 0})
    assert appended_dims(graph) == set()


def test_an_axis_that_is_picked_from_is_not() -> None:
    """Nothing can be picked from an axis of size 0."""
    graph = Graph("picked")
    past = graph.input("past", f32, ("a", 8))
    row = graph.add("gather", [past, graph.constant(np.array([0]))], {"axis": 0}).output
    graph.add("concat", [row, row], {"axis": 0})
    assert appended_dims(graph) == set()
