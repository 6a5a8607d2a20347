"""Sessions that take long enough to be interrupted."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper
from tests.models import small

import treadle
from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.ops.op import Info


def long_kernels(count: int = 1200) -> tuple[treadle.Session, dict[str, np.ndarray]]:
    """Some seconds of matrix products, one after the other, and inputs for it."""
    w = small.ModelWriter()
    weights, y = w.random(512, 512), "x"
    for _ in range(count):
        y = w.op("MatMul", y, weights)
    w.nodes[-1].output[0] = "y"
    model = w.model({"x": (small.FLOAT, [512, 512])}, {"y": (small.FLOAT, [512, 512])})
    return treadle.Session(model), {"x": np.zeros((512, 512), np.float32)}


def endless_loop():
    """Returns a session of an ONNX Loop that never ends. Its body negates the carried value: trim_loops would
    leave out a loop that changes nothing."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["on"]), helper.make_node("Neg", ["carried"], ["next"])],
        "body",
        [helper.make_tensor_value_info("step", TensorProto.INT64, []),
         helper.make_tensor_value_info("going", TensorProto.BOOL, []),
         helper.make_tensor_value_info("carried", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [1])],
    )  # fmt: skip
    w = small.ModelWriter()
    w.op("Loop", "", w.constant(np.array(True)), "x", body=body)
    w.nodes[-1].output[0] = "y"
    return treadle.Session(w.model({"x": (small.FLOAT, [1])}, {"y": (small.FLOAT, [1])}))


def python_tasks(functions, *, chained=False, blocking=False, **options) -> treadle.Session:
    """A session of the given functions of no argument, side by side or in a row, each giving x [1] on."""
    graph = Graph()
    x = graph.input("x", dtypes.f32, (1,))
    for function in functions:

        def call(arrays, function=function):
            function()
            return [arrays[0]]

        attrs = {
            "function": call,
            "infer": lambda infos: [Info(infos[0].dtype, infos[0].shape, None)],
            "blocking": blocking,
            "label": "task",
        }
        source = graph.outputs.pop() if chained and graph.outputs else x
        graph.outputs.append(graph.add("call", [source], attrs, name=f"task{len(graph.nodes)}").output)
    return treadle.Session(graph, **options)


X = {"x": np.ones(1, np.float32)}
