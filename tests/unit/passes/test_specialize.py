"""Binding symbols to sizes."""

import pytest

from treadle import dtypes
from treadle.errors import InputError
from treadle.graph.graph import Graph
from treadle.passes.specialize import copy_graph, specialize


@pytest.fixture
def graph() -> Graph:
    graph = Graph("model")
    x = graph.input("x", dtypes.f32, ("N", 3))
    y = graph.input("y", dtypes.f32, ("N", "M"))
    graph.outputs = [graph.add("concat", [x, y], {"axis": 1}, name="join").output]
    return graph


def test_symbols_become_sizes(graph):
    """
    Inputs of the copy have the given shapes; the original keeps its symbols.
    """
    copy = specialize(graph, {"x": (2, 3), "y": (2, 5)})

    assert [value.shape for value in copy.inputs] == [(2, 3), (2, 5)]
    assert [value.shape for value in graph.inputs] == [("N", 3), ("N", "M")]


def test_symbol_with_two_sizes(graph):
    """
    A symbol given two sizes is an error that names both inputs and both sizes.
    """
    with pytest.raises(InputError, match=r"'x' and 'y' disagree on 'N': it is 2 in 'x' but 4 on axis 0 of 'y'"):
        specialize(graph, {"x": (2, 3), "y": (4, 5)})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 4), "y": (2, 5)}, r"'x': wanted shape \[N, 3\], got \[2, 4\]: axis 1 must be 3, not 4"),
        ({"x": (2,), "y": (2, 5)}, r"'x': wanted rank 2, shape \[N, 3\]; got rank 1, shape \[2\]"),
        ({"x": (2, 3), "z": (2, 5)}, r"no input 'z'; its inputs are 'x', 'y'"),
        ({"x": (2, 3)}, r"'y' needs a concrete shape: it is declared as \[N, M\]"),
    ],
)
def test_impossible_shapes(graph, shapes, message):
    """
    A shape that does not fit is an error that says what was wanted and what came.
    """
    with pytest.raises(InputError, match=message):
        specialize(graph, shapes)


def test_constants_are_shared(write):
    """
    A copy has values of its own, but shares the arrays of constants.
    """
    graph = write.done(write.op("add", write.input(2, 3), write.weights(3)))
    copy = copy_graph(graph)

    (original,), (copied,) = graph.constants(), copy.constants()
    assert copied is not original
    assert copied.data is original.data
    assert copy.nodes[0].name == graph.nodes[0].name
    assert copy.outputs[0].name == graph.outputs[0].name
