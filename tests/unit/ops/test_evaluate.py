"""Whole graphs on the references, and errors that name the node."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import GraphError, InputError, KernelError, ShapeError
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.ops.evaluate import evaluate, infer_node
from treadle.ops.op import Info


@pytest.fixture
def graph():
    """y = relu(x @ w), with a symbolic number of rows."""
    graph = Graph()
    x = graph.input("x", dtypes.f32, ("N", 3))
    w = graph.constant(np.ones((3, 2), np.float32), "w")
    product = graph.add("matmul", [x, w], {"transpose_a": False, "transpose_b": False}, name="dense")
    graph.outputs = [graph.add("relu", [product.output], name="y").output]
    return graph


def test_a_graph_gives_its_outputs_by_name(graph):
    """Outputs are computed for any number of rows."""
    for rows in (0, 1, 5):
        found = evaluate(graph, {"x": np.ones((rows, 3), np.float32)})
        np.testing.assert_array_equal(found["y"], np.full((rows, 2), 3, np.float32))


def test_constants_and_inputs_may_be_outputs(graph):
    """Outputs that nothing computes are passed through."""
    x, w = graph.inputs[0], next(graph.constants())
    graph.outputs = [x, w]
    given = np.zeros((1, 3), np.float32)
    found = evaluate(graph, {"x": given})
    assert found["x"] is given
    assert found["w"] is w.data


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": np.ones((1, 3), np.float32), "z": np.ones(1)}, "no input 'z'"),
        ({"x": np.ones((1, 3))}, "input 'x': wanted f32, got f64"),
        ({"x": np.ones((1, 4), np.float32)}, r"wanted shape \[N, 3\], got \[1, 4\]"),
        ({"x": np.ones(3, np.float32)}, r"wanted shape \[N, 3\], got \[3\]"),
    ],
)
def test_inputs_are_checked(graph, inputs, message):
    """Missing, unknown and ill-fitting inputs are refused."""
    with pytest.raises(InputError, match=message):
        evaluate(graph, inputs)


def test_a_symbol_means_one_number():
    """Two inputs that share a symbol must agree in it."""
    graph = Graph()
    inputs = [graph.input(name, dtypes.f32, ("N",)) for name in "ab"]
    graph.outputs = [graph.add("add", inputs).output]
    with pytest.raises(InputError, match="input 'b'"):
        evaluate(graph, {"a": np.ones(2, np.float32), "b": np.ones(1, np.float32)})


def test_shape_errors_name_the_node(graph):
    """A rule's complaint is preceded by the node's name and op."""
    with pytest.raises(ShapeError, match=r"^node 'dense' \(matmul\): inner sizes differ"):
        infer_node(graph.nodes[0], [Info(dtypes.f32, (2, 4)), Info(dtypes.f32, (3, 2))])


def test_bad_data_names_the_node():
    """An index out of range is found when the node runs."""
    graph = Graph()
    indices = graph.constant(np.array([3]))
    graph.outputs = [
        graph.add("gather", [graph.input("x", dtypes.f32, (3,)), indices], {"axis": 0}, name="pick").output
    ]
    with pytest.raises(KernelError, match=r"^node 'pick' \(gather\): index 3 is out of range for an axis of size 3"):
        evaluate(graph, {"x": np.ones(3, np.float32)})


@pytest.mark.parametrize(
    ("op", "count", "attrs", "message"),
    [
        ("nonsense", 1, {}, "no core op is called 'nonsense'"),
        ("add", 1, {}, "wanted 2 to 2 operands, got 1"),
        ("matmul", 1, {}, "wanted 2 or more operands, got 1"),
        ("softmax", 1, {}, "attribute 'axis' is missing"),
    ],
)
def test_impossible_nodes_are_refused(op, count, attrs, message):
    """Unknown ops, wrong numbers of operands and missing attributes are faults of the graph."""
    graph = Graph()
    x = graph.input("x", dtypes.f32, (2,))
    node = graph.add(op, [x] * count, attrs, name="bad")
    with pytest.raises(GraphError, match=f"node 'bad'.*{message}"):
        infer_node(node, [Info(dtypes.f32, (2,))] * count)


@pytest.mark.parametrize(
    ("op", "attrs", "count", "expected"),
    [
        ("relu", {}, 1, ["f32"]),
        ("isnan", {}, 1, ["bool"]),
        ("argmax", {"axis": 0, "keepdims": True, "last": False}, 1, ["i64"]),
        ("cast", {"to": dtypes.f64}, 1, ["f64"]),
        ("top_k", {"axis": 0, "largest": True, "sorted": True}, 2, ["f32", "i64"]),
    ],
)
def test_unknown_shapes_leave_dtypes_known(op, attrs, count, expected):
    """Behind a shape that depends on data, dtypes are inferred and shapes are None."""
    graph = Graph()
    x = graph.input("x", dtypes.f32, None)
    node = graph.add(op, [x] * count, attrs, outputs=len(expected))
    infos = infer_node(node, [Info(dtypes.f32, None)] * count)
    assert [(info.dtype.name, info.shape) for info in infos] == [(name, None) for name in expected]


def test_calls_run_their_function_and_may_describe_it():
    """A call runs Python; what it says of its results is used, and otherwise what the front end stated."""
    graph = Graph()
    x = graph.input("x", dtypes.f32, (2,))
    attrs = {"function": lambda arrays: [arrays[0] * 2], "infer": None, "blocking": False, "label": "twice"}
    node = graph.add("call", [x, None], attrs, name="double")
    graph.outputs = [node.output]
    assert infer_node(node, [Info(dtypes.f32, (2,)), None]) == []
    node.output.dtype = dtypes.f32
    assert infer_node(node, [Info(dtypes.f32, (2,)), None]) == [Info(dtypes.f32, None)]
    node.attrs["infer"] = lambda infos: infos[:1]
    assert infer_node(node, [Info(dtypes.f32, (2,)), None]) == [Info(dtypes.f32, (2,))]
    assert evaluate(graph, {"x": np.array([1, 2], np.float32)})["double"].tolist() == [2, 4]
    node.attrs["infer"] = lambda infos: []
    with pytest.raises(ShapeError, match="twice describes 0 results, but the node has 1"):
        infer_node(node, [Info(dtypes.f32, (2,)), None])


def test_reordering_changes_nothing_logically():
    """A layout is a matter of memory, not of values."""
    graph = Graph()
    node = graph.add("reorder", [graph.input("x", dtypes.f32, (1, 3))])
    node.output.layout = Blocked(16)
    graph.outputs = [node.output]
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["reorder"], x)


def test_data_dependent_shapes_run():
    """The references of non_zero and counted find the elements, of a scalar too."""
    graph = Graph()
    found = graph.add("non_zero", [graph.input("x", dtypes.f32, None)], name="z", outputs=2).outputs
    graph.outputs = [graph.add("counted", found, {"axis": 1}, name="n").output]
    assert evaluate(graph, {"x": np.array([[0, 2], [3, 0]], np.float32)})["n"].tolist() == [[0, 1], [1, 0]]
    assert evaluate(graph, {"x": np.float32(5)})["n"].shape == (0, 1)
