"""An error says where once, whatever the way to the op: by name, in a graph, from a file, or in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
import treadle.compat.tensorflow as tf
import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import i32

TORCH: dict[str, Callable[[], Any]] = {
    "conv1d": lambda: F.conv1d(torch.zeros(1, 3, 8), torch.zeros(4, 5, 3)),
    "conv_transpose2d": lambda: F.conv_transpose2d(torch.zeros(1, 3, 8, 8), torch.zeros(4, 5, 3, 3)),
    "max_pool2d": lambda: F.max_pool2d(torch.zeros(2, 3), 2),
    "matmul": lambda: torch.matmul(torch.zeros(2, 3), torch.zeros(4, 5)),
    "cat": lambda: torch.cat([torch.zeros(2, 3), torch.zeros(4, 5)]),
    "add": lambda: torch.zeros(2, 3) + torch.zeros(4, 5),
}
TENSORFLOW: dict[str, Callable[[], Any]] = {
    "MatMul": lambda: tf.matmul(tf.zeros((2, 3)), tf.zeros((4, 5)), name="MatMul"),
    "Conv2D": lambda: tf.nn.conv2d(tf.zeros((1, 8, 8, 3)), tf.zeros((3, 3, 5, 4)), 1, "SAME", name="Conv2D"),
    "GatherV2": lambda: tf.gather(tf.zeros((2, 3)), [7], name="GatherV2"),
    "Reshape": lambda: tf.reshape(tf.zeros((2, 3)), [7], name="Reshape"),
}


def said(call: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("name", TORCH)
def test_pytorchs_functions_name_themselves_once(name: str) -> None:
    """
    The function stands in front; the node that its rule made is not told.
    """
    message = said(TORCH[name])

    assert message.startswith(f"{name}: ")
    assert "node '" not in message


@pytest.mark.parametrize("name", TENSORFLOW)
def test_operations_of_a_graph_name_themselves_once(name: str) -> None:
    """
    While tf.function traces, the operation stands in front, and no core node.
    """
    message = said(tf.function(TENSORFLOW[name]))

    assert message.startswith(f"{name}: ")
    assert "node '" not in message


@pytest.mark.parametrize("name", TENSORFLOW)
def test_eager_operations_name_themselves_once(name: str) -> None:
    """
    Eagerly it is the one node of the op.
    """
    assert said(TENSORFLOW[name]).count("node ") == 1


def test_operations_that_a_run_finds_wrong_name_themselves_once() -> None:
    """
    Shapes that only a feed tells: the message ends with the node, as TensorFlow's do.
    """
    graph = tf.Graph()
    with graph.as_default(), tf.compat.v1.Session() as session:
        a, b = (tf.compat.v1.placeholder(tf.float32) for _ in range(2))
        product = tf.matmul(a, b, name="product")

        message = said(lambda: session.run(product, {a: np.zeros((2, 3), "f"), b: np.zeros((4, 5), "f")}))

    assert message.startswith("inner sizes differ")
    assert message.count("product") == 1


def written() -> Writer:
    """A frozen graph whose reshape does not fit."""
    w = Writer()
    w.node("Reshape", w.input("x", (2, 3)), w.ints(7), name="wrong", Tshape=i32)
    return w


def test_nodes_of_tensorflow_files_are_named_once() -> None:
    """
    As a session, and brought into a graph of the facade.
    """
    message = said(lambda: treadle.Session(written().bytes()))
    with tf.Graph().as_default():
        brought = said(lambda: tf.import_graph_def(written().graph, name=""))

    assert message.count("'wrong'") == 1
    assert brought.count("wrong") == 1


def test_nodes_of_tensorflow_files_that_wait_for_a_run_are_named_once() -> None:
    """
    A transposition by an input is built when the run tells the axes.
    """
    w = Writer()
    w.node("Transpose", w.input("x", (2, 3)), w.input("perm", (1,), "i32"), name="late", Tperm=i32)
    session = treadle.Session(w.bytes())

    message = said(lambda: session.run({"x": np.zeros((2, 3), "f"), "perm": np.array([7], "i4")}))

    assert message.startswith("node 'late' (Transpose): axis 7 ")
    assert message.count("late") == 1


def test_nodes_of_onnx_files_are_named_once() -> None:
    """
    Found when the model is loaded, and by the reference of an op in a run.
    """
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    index = helper.make_tensor_value_info("i", TensorProto.INT64, [1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    misfit = helper.make_node("MatMul", ["x", "x"], ["y"], name="wrong")
    outside = helper.make_node("GatherND", ["x", "i"], ["y"], name="outside")
    graphs = [helper.make_graph([misfit], "g", [x], [y]), helper.make_graph([outside], "g", [x, index], [y])]
    first, second = (helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]) for graph in graphs)
    session = treadle.Session(onnx.load_from_string(second.SerializeToString()))

    at_load = said(lambda: treadle.Session(first))
    at_run = said(lambda: session.run({"x": np.zeros((2, 3), "f"), "i": np.array([[9]])}))

    assert at_load.count("'wrong'") == 1
    assert at_run.count("'outside'") == 1
