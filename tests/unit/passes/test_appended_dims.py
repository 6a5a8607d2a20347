"""Which open dimensions of a graph's inputs may be 0."""

from __future__ import annotations

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
